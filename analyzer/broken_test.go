package analyzer_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/agenttest"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	seed = flag.Uint64("seed", 0, "play other broken and healthy runs")
	cell = flag.String("cell", "", `play only "kind", "kind/dialect" or "kind/dialect/number" of the broken runs, and print what is said about each`)
)

// neutralRuns returns the recorded conversations with tools.
func neutralRuns(t *testing.T) (pool []*agenttest.Run) {
	t.Helper()
	known := map[string]bool{}
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
		r, ok := agenttest.Parse(line)
		if !ok {
			return
		}
		// Recordings of one test differ only in their ids.
		key := fmt.Sprint(r.System, r.Steps[0].Before[0].Text, len(r.Steps), r.Steps[len(r.Steps)-1].Answer.Text)
		if !known[key] {
			known[key] = true
			pool = append(pool, r)
		}
	})
	return pool
}

// said is what the analyzer says about a run.
type said struct {
	rule, root, confidence string
	evidence               string
	reject                 bool
}

func (s said) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s (%s)", s.rule, s.root, s.confidence, s.evidence))
}

// watched are signals that say that an agent is broken.
var watched = []string{signals.ReplyNeverArrived, signals.LatentViolation}

// observe plays a run and returns what the analyzer says about it, without what it said of the exchanges before p.Judged.
func observe(t *testing.T, p *agenttest.Played, s *shape.Shaper) []said {
	var steps []step
	dialect := map[string]wire.Dialect{} // of exchanges
	for i, ev := range p.Events {
		if p.Shape {
			if ev.Kind == event.Request {
				u, _ := url.Parse(ev.URL)
				dialect[ev.Exchange] = wire.PathDialect(u.Path)
				ev.Body = s.Request(dialect[ev.Exchange], ev.Body, 1<<20)
			} else {
				ev.Body = s.Response(dialect[ev.Exchange], ev.Body, 1<<20)
			}
			ev.Body, ev.Capture = bytes.Clone(ev.Body), event.CaptureShape
		}
		steps = append(steps, step{ev, analyzer.Position{Seq: uint64(i + 1), Time: ev.Time}})
	}
	_, findings, _ := latest(run(t, analyzer.Default(), steps))
	var list []said
	for _, f := range findings {
		var n int
		fmt.Sscanf(f.Exchange[24:], "%d", &n)
		if n <= p.Judged || f.Severity == check.Signal && !slices.Contains(watched, f.Rule) {
			continue
		}
		list = append(list, said{rule: f.Rule, root: f.RootCause, confidence: f.Confidence, evidence: f.Evidence, reject: f.Predicted == check.Reject})
	}
	slices.SortFunc(list, func(a, b said) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// agentRun identifies a run in the tables.
type agentRun struct {
	kind    *agenttest.Kind
	dialect *agenttest.Dialect
	n       int
}

func (r agentRun) String() string { return fmt.Sprintf("%s/%s/%d", r.kind.Name, r.dialect.Name, r.n) }

func (r agentRun) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.String()))
	return h.Sum64() + *seed
}

func (r agentRun) selected() bool {
	name := r.String()
	return *cell == "" || name == *cell || strings.HasPrefix(name, *cell+"/")
}

// A result is what was said about a run.
type result struct {
	agentRun
	*agenttest.Played
	said    []said
	right   bool
	unknown bool // the root cause of a broken run is not stated, and Kind.Unknown says why it cannot be known
}

// play plays a run; false if no recorded run fits.
func (r agentRun) play(t *testing.T, pool []*agenttest.Run, s *shape.Shaper) (result, bool) {
	p, ok := agenttest.Play(r.kind, r.dialect, pool, r.seed())
	if !ok {
		return result{}, false
	}
	x := result{agentRun: r, Played: p, said: observe(t, p, s)}
	causes, named, untrue, wrong := r.kind.TrueOf(r.dialect), false, false, false
	for _, s := range x.said {
		stated := s.root != "" && s.root != session.NoHistory
		untrue = untrue || stated && !x.isTrue(s)
		named = named || slices.Contains(causes, s.root)
		switch {
		case len(causes) > 0:
			wrong = wrong || stated && s.confidence == session.High && !x.isTrue(s)
		default:
			wrong = wrong || s.reject || stated && !x.isTrue(s) || slices.Contains(watched, s.rule)
		}
	}
	p.Events = nil // only what is said is kept
	may := r.kind.Unknown != nil && r.kind.Unknown(&p.Variant) != ""
	x.unknown = len(causes) > 0 && !named && !untrue && may
	x.right = !wrong && (len(causes) == 0 || named)
	return x, true
}

// isTrue reports whether a root cause is true of the agent.
func (x *result) isTrue(s said) bool {
	return slices.Contains(x.kind.TrueOf(x.dialect), s.root) || slices.Contains(x.kind.Also, s.root)
}

// playAll plays n runs of each kind in each dialect.
func playAll(t *testing.T, kinds []*agenttest.Kind, n int) (list []result) {
	t.Helper()
	pool := neutralRuns(t)
	todo := make(chan agentRun)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			s := shape.New([]byte("key"))
			for r := range todo {
				x, ok := r.play(t, pool, s)
				mu.Lock()
				if ok {
					list = append(list, x)
				}
				mu.Unlock()
			}
		})
	}
	for _, k := range kinds {
		for _, d := range agenttest.Dialects {
			for i := range n {
				if r := (agentRun{k, d, i}); k.In(d) && r.selected() {
					todo <- r
				}
			}
		}
	}
	close(todo)
	all.Wait()
	return list
}

// enough is the number of runs that a cell must have.
const enough = 10

// table prints the right runs of each kind in each dialect, of those whose root cause can be known, and returns the cells below
// the floor, in percent. A cell with too few runs counts as below it.
func table(t *testing.T, kinds []*agenttest.Kind, list []result, floor int) (below []string) {
	t.Helper()
	type key struct {
		k *agenttest.Kind
		d *agenttest.Dialect
	}
	right, runs, unknown := map[key]int{}, map[key]int{}, 0
	for i := range list {
		if list[i].unknown {
			unknown++
			continue
		}
		runs[key{list[i].kind, list[i].dialect}]++
		if list[i].right {
			right[key{list[i].kind, list[i].dialect}]++
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "kind")
	for _, d := range agenttest.Dialects {
		fmt.Fprint(w, "\t", d.Name)
	}
	fmt.Fprintln(w)
	for _, k := range kinds {
		fmt.Fprint(w, k.Name)
		for _, d := range agenttest.Dialects {
			if !k.In(d) {
				fmt.Fprint(w, "\t-")
				continue
			}
			x := key{k, d}
			n := runs[x]
			fmt.Fprintf(w, "\t%d/%d", right[x], n)
			if right[x]*100 < floor*n || n < enough && !testing.Short() && *cell == "" {
				below = append(below, k.Name+"/"+d.Name)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	t.Logf("right runs of each kind:\n%s%d further runs have a root cause that cannot be known, and none is stated", &b, unknown)
	return below
}

// examples prints up to three wrong runs of each cell.
func examples(t *testing.T, list []result) {
	slices.SortFunc(list, func(a, b result) int { return strings.Compare(a.String(), b.String()) })
	shown := map[string]int{}
	for _, x := range list {
		name := x.kind.Name + "/" + x.dialect.Name
		if (x.right || x.unknown) && *cell == "" || shown[name] == 3 && *cell == "" {
			continue
		}
		shown[name]++
		var lines []string
		for _, s := range x.said {
			lines = append(lines, "\n\t"+s.String())
		}
		t.Logf("%s right=%v unknown=%v (%s; %s): %d findings%s", x, x.right, x.unknown, x.Source, x.Variant.String(), len(x.said), strings.Join(lines, ""))
	}
}

// untrue prints which root causes are stated of agents without them, most frequent first.
func untrue(t *testing.T, list []result) {
	count := map[string]int{}
	for i := range list {
		for _, s := range list[i].said {
			if s.root != "" && s.root != session.NoHistory && !list[i].isTrue(s) {
				count[fmt.Sprintf("%s, %s: %s, %s", s.confidence, s.root, list[i].kind.Name, list[i].dialect.Name)]++
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	for _, name := range names {
		t.Logf("not true: %3d %s", count[name], name)
	}
}

// precision is how many of the root causes stated with a confidence must be true, in percent.
var precision = map[string]float64{session.High: 99.5, session.Medium: 97}

// Agents with a bug are told which one it is. The table has the runs for which the analyzer states the root cause and no wrong
// one with high confidence.
func TestBrokenRuns(t *testing.T) {
	slowtest.Skip(t)
	list := playAll(t, agenttest.Broken, runsPerCell())
	below := table(t, agenttest.Broken, list, 99)
	count := map[string]*[2]int{session.High: {}, session.Medium: {}, session.Low: {}}
	for i := range list {
		for _, s := range list[i].said {
			if n := count[s.confidence]; n != nil && s.root != session.NoHistory {
				n[1]++
				if list[i].isTrue(s) {
					n[0]++
				}
			}
		}
	}
	for _, c := range []string{session.High, session.Medium, session.Low} {
		n := count[c]
		percent := 100 * float64(n[0]) / float64(max(1, n[1]))
		t.Logf("root causes stated with %s confidence: %d, of which %d are true (%.2f %%)", c, n[1], n[0], percent)
		if n[1] >= 100 && percent < precision[c] {
			t.Errorf("less than %.1f %% of the root causes stated with %s confidence are true", precision[c], c)
		}
	}
	untrue(t, list)
	examples(t, list)
	if len(below) > 0 {
		t.Errorf("below 99 %%: %s", strings.Join(below, ", "))
	}
}

// Agents without a bug are not accused.
func TestHealthyRuns(t *testing.T) {
	list := playAll(t, agenttest.Healthy, runsPerCell())
	below := table(t, agenttest.Healthy, list, 100)
	examples(t, list)
	if len(below) > 0 {
		t.Errorf("accused: %s", strings.Join(below, ", "))
	}
}

// Every root cause is one of an agent that is played.
func TestBrokenRunsHaveEveryRootCause(t *testing.T) {
	played := map[string]bool{session.NoHistory: true}
	for _, k := range agenttest.Broken {
		for _, d := range agenttest.Dialects {
			for _, id := range k.TrueOf(d) {
				played[id] = played[id] || k.In(d)
			}
		}
	}
	for _, id := range session.RootCauses {
		if !played[id] {
			t.Errorf("no agent has the root cause %s", id)
		}
	}
}

func runsPerCell() int {
	if testing.Short() {
		return 1 // fewer than enough: the race detector takes ten times as long
	}
	return 40
}
