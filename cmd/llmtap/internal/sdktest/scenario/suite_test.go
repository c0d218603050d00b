package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// A scenario is an agent with its expected findings.
type scenario struct {
	name  string
	model string            // of the first calls
	says  []provider.Answer // of the model
	loop  func(a *agent)
	want  []want

	fails    int      // number of failed calls if they are not one
	accepted bool     // no call fails, despite findings
	signals  []string // expected of a healthy agent

	needsID bool // the findings require conversation ids
	inText  bool // the root cause shows in texts, not in shapes
}

// failures returns the number of calls that fail.
func (s *scenario) failures() int {
	if len(s.want) == 0 || s.accepted {
		return 0
	}
	return max(s.fails, 1)
}

// A want is an expected rule with its root cause.
type want struct {
	rule, root string // alternatives are separated by |; no rule: the exchange only
	confidence string // minimum
	n          int    // findings; 0 means 1
}

// wants returns the same root cause for one finding of each rule.
func wants(root, confidence string, rules ...string) (list []want) {
	for _, r := range rules {
		list = append(list, want{rule: r, root: root, confidence: confidence})
	}
	return list
}

func (w want) String() string {
	return fmt.Sprintf("%d %s: %s (%s)", max(w.n, 1), w.rule, w.root, w.confidence)
}

func (w want) is(root string) bool { return slices.Contains(strings.Split(w.root, "|"), root) }

var degrees = []string{"", "low", "medium", "high"}

// noHistory is the root cause without an accusation.
const noHistory = "unknown_no_history"

var scenarios = slices.Concat(saving, shortening, answering, identifying, writing, streaming, thinkingAloud, switching, unlabelled, blocks, twins)

// A mode determines how agents are recorded.
type mode struct {
	name, capture string
	ids           bool // of conversations
}

var modes = []mode{{"full", event.CaptureFull, true}, {"shape", event.CaptureShape, true}, {"no-ids", event.CaptureShape, false}}

func TestScenarios(t *testing.T) { playAll(t, modes, nil) }

// The TypeScript hook, with the SDKs of Node.js, leads to the same findings.
func TestScenariosInNode(t *testing.T) {
	playAll(t, []mode{{"node", event.CaptureShape, true}}, newNodes(t))
}

// playAll plays all scenarios in all modes, with the Go hook if processes is nil.
func playAll(t *testing.T, modes []mode, processes *nodes) {
	t.Helper()
	natsURL, stream := startNATS(t)
	names := map[string]bool{}
	rows := [][]string{{"SCENARIO", "EXPECTED", "FOUND"}}
	for i, s := range scenarios {
		if names[s.name] {
			t.Errorf("two scenarios named %q", s.name)
		}
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			var wrong, got []string
			for _, m := range modes {
				w := newWorld(t, natsURL, stream, fmt.Sprintf("scenario-%d-%s", i, m.name), m, s.says)
				w.nodes = processes
				s.loop(w.process(s.model))
				out := w.analyze()
				if m == modes[0] {
					got = found(out)
				}
				for _, p := range s.check(out, m) {
					wrong = append(wrong, m.name+": "+p)
				}
			}
			rows = append(rows, []string{s.name, expected(s.want), strings.Join(got, "; ")})
			if len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n\t"))
			}
		})
	}
	t.Logf("%d scenarios\n%s", len(scenarios), columns(rows))
}

// Every root cause has a scenario.
func TestRootCauses(t *testing.T) {
	for _, id := range session.RootCauses {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return slices.ContainsFunc(s.want, func(w want) bool { return w.is(id) }) }) {
			t.Errorf("no scenario has the root cause %s", id)
		}
	}
	for _, s := range scenarios {
		for _, w := range s.want {
			for id := range strings.SplitSeq(w.root, "|") {
				if id != "" && !slices.Contains(session.RootCauses, id) {
					t.Errorf("%s: unknown root cause %q", s.name, id)
				}
			}
		}
	}
}

// columns formats rows of cells; the first row is the header.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

func expected(wants []want) string {
	if len(wants) == 0 {
		return "nothing"
	}
	var list []string
	for _, w := range wants {
		list = append(list, w.String())
	}
	return strings.Join(list, "; ")
}

// newest returns the last row of each finding, in the order of the first ones.
func newest(out *analyzer.Output) []analyzer.Finding {
	var list []analyzer.Finding
	at := map[string]int{}
	for _, f := range out.Findings {
		if i, ok := at[f.ID]; ok {
			list[i] = f
			continue
		}
		at[f.ID] = len(list)
		list = append(list, f)
	}
	return list
}

// found returns the findings with a root cause or a predicted rejection.
func found(out *analyzer.Output) []string {
	count := map[string]int{}
	var order []string
	for _, f := range newest(out) {
		if f.RootCause == "" && f.Predicted != check.Reject {
			continue
		}
		line := fmt.Sprintf("%s: %s (%s)", f.Rule, f.RootCause, f.Confidence)
		if count[line]++; count[line] == 1 {
			order = append(order, line)
		}
	}
	for i, line := range order {
		order[i] = fmt.Sprintf("%d %s", count[line], line)
	}
	return order
}

// check compares the findings with the expected ones. If the scenario needs ids, a mode without them may find nothing.
func (s *scenario) check(out *analyzer.Output, m mode) (wrong []string) {
	optional := s.needsID && !m.ids || s.inText && m.capture == event.CaptureShape
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	findings := newest(out)
	for _, w := range s.want {
		if w.rule == "" {
			continue
		}
		n := 0
		for _, f := range findings {
			if f.Rule == w.rule && w.is(f.RootCause) && slices.Index(degrees, f.Confidence) >= slices.Index(degrees, w.confidence) {
				n++
			}
		}
		if n != max(w.n, 1) && (!optional || n > 0) {
			add("want %v, got %d", w, n)
		}
	}
	known := func(root string) bool {
		return optional && (root == "" || root == noHistory) || slices.ContainsFunc(s.want, func(w want) bool { return w.is(root) })
	}
	for _, f := range findings {
		says := fmt.Sprintf("%s at message %d (%s): %q %s: %s", f.Rule, f.Message, f.Summary, f.RootCause, f.Confidence, f.Evidence)
		wanted := slices.ContainsFunc(s.want, func(w want) bool {
			return w.rule == f.Rule && (w.is(f.RootCause) || optional && (f.RootCause == "" || f.RootCause == noHistory))
		})
		switch {
		case f.Severity == check.Signal:
			if len(s.want) == 0 && !slices.Contains(s.signals, f.Rule) {
				add("signal: %s", says)
			}
		case wanted && f.RootCause != "" && f.RootCause != noHistory && (f.Evidence == "" || f.Fix == ""):
			add("no evidence or no fix: %s", says)
		case wanted:
		case f.RootCause != "" && f.RootCause != noHistory:
			add("wrong root cause: %s", says)
		case f.Predicted == check.Reject:
			add("unexpected: %s", says)
		}
	}
	failed := 0
	for _, e := range out.Exchanges {
		if !e.Failed {
			continue
		}
		failed++
		if !known(e.RootCause) {
			add("a call failed with %d %q (%s): root cause %q", e.Status, e.ErrorText, e.Cause, e.RootCause)
		}
	}
	if want := s.failures(); failed != want {
		add("%d calls failed, want %d", failed, want)
	}
	return wrong
}
