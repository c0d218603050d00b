package gate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// maxCauses bounds the causes of a report.
const maxCauses = 5

// failures is what a worse version is worse in, unless it is a measure.
const failures = "failures"

// minShown is the evidence from which a measure is in the text.
const minShown = 10

// A Report is the verdict. Its JSON is documented in the help of the command; fields may be added.
type Report struct {
	Verdict     string     `json:"verdict"` // Good, Worse, TooFew
	Service     string     `json:"service"`
	Version     string     `json:"version"`
	Baseline    string     `json:"baseline"` // "" if there is none
	Start       *time.Time `json:"start"`    // of the compared calls; null if the new version has none
	WorseAt     *time.Time `json:"worse_at"` // null unless the verdict is Worse
	Evidence    float64    `json:"evidence"`
	Threshold   float64    `json:"threshold"`
	Compared    uint64     `json:"compared_calls"` // of the new version
	MinCalls    uint64     `json:"min_calls"`
	StoppedAt   uint64     `json:"stopped_at_call,omitempty"` // calls of the new version that counted until WorseAt
	WorseIn     string     `json:"worse_in,omitempty"`        // failures, or the measure with the highest evidence, if the verdict is Worse
	Stages      []Stage    `json:"stages"`
	Causes      []Cause    `json:"causes"` // new, or more frequent in the new version
	explanation string     // why there are too few calls
}

// Counts are calls of a version.
type Counts struct {
	Calls  uint64 `json:"calls"`
	Failed uint64 `json:"failed"`
}

// A Stage contains the calls of both versions in one stage.
type Stage struct {
	Environment    string    `json:"environment"`
	Stage          string    `json:"stage"`
	New            Counts    `json:"new"` // all calls since the start
	Old            Counts    `json:"old"` // all calls since an hour before the start
	ComparedNew    Counts    `json:"compared_new"`
	ComparedOld    Counts    `json:"compared_old"`
	ComparedBefore uint64    `json:"compared_with_earlier_calls"` // of ComparedNew.Calls; the others were compared with calls of the same time
	Evidence       float64   `json:"evidence"`
	RuledOut       float64   `json:"ruled_out_odds_ratio,omitempty"`
	Measures       []Measure `json:"measures,omitempty"` // that of the highest evidence first
}

// A Cause is a cause of failed calls.
type Cause struct {
	Environment string `json:"environment"`
	Stage       string `json:"stage"`
	Cause       string `json:"cause"`
	RootCause   string `json:"root_cause,omitempty"`
	New         uint64 `json:"new_failed"`
	Old         uint64 `json:"old_failed"`
	Reason      string `json:"reason"`
	Fix         string `json:"fix"`
	Example     string `json:"example"` // exchange ID
	Page        string `json:"page,omitempty"`
}

// report returns the verdict on r with its reasons.
func (g *gate) report(ctx context.Context, r regression.Result) (*Report, error) {
	x := &Report{
		Verdict: Good, Service: g.Service, Version: g.Version, Baseline: g.rollout.baseline, Evidence: r.Evidence, Threshold: 1 / g.Alpha,
		Compared: compared(r), MinCalls: g.MinCalls, Stages: []Stage{}, Causes: []Cause{},
	}
	if !g.rollout.start.IsZero() {
		x.Start = &g.rollout.start
	}
	switch {
	case r.Worse:
		x.Verdict, x.WorseAt, x.StoppedAt = Worse, &r.WorseAt, r.Calls
		x.WorseIn = cmp.Or(r.Groups[0].Measure, failures)
	case x.Start == nil:
		x.Verdict, x.explanation = TooFew, "it has no calls in the last "+g.For.String()
		return x, nil
	case x.Baseline == "":
		x.Verdict, x.explanation = TooFew, "no other version had calls within an hour before"
	case x.Compared < g.MinCalls:
		x.Verdict = TooFew
		x.explanation = fmt.Sprintf("%s could be compared with %s, at least %d are wanted", quantity.Plural(x.Compared, "call"), x.Baseline, g.MinCalls)
	}
	found, err := rows.Read(ctx, g.q, "stages", stagesSQL, g.rolloutParams(g.rollout))
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		x.Stages = append(x.Stages, newStage(s, r))
	}
	if err := g.addMeasures(ctx, x, r); err != nil {
		return nil, err
	}
	slices.SortStableFunc(x.Stages, func(a, b Stage) int { return cmp.Compare(b.Evidence, a.Evidence) })
	return x, g.addCauses(ctx, x)
}

func newStage(row rows.Row, r regression.Result) Stage {
	s := Stage{Environment: row.Text("environment"), Stage: row.Text("stage"), New: allOf(row, "new"), Old: allOf(row, "old"), Evidence: 1}
	for _, x := range r.Groups {
		if x.Environment == s.Environment && x.Stage == s.Stage && x.Measure == "" {
			s.ComparedNew, s.ComparedOld = Counts{x.New.Calls, x.New.Failed}, Counts{x.Old.Calls, x.Old.Failed}
			s.ComparedBefore, s.Evidence, s.RuledOut = x.Before, x.Evidence, x.RuledOut
		}
	}
	return s
}

func allOf(row rows.Row, version string) Counts {
	c := counts(row, version)
	return Counts{c.Calls, c.Failed}
}

// addCauses adds the causes that are new in the new version, or more frequent, those with the most failures first.
func (g *gate) addCauses(ctx context.Context, x *Report) error {
	found, err := rows.Read(ctx, g.q, "causes", causesSQL, g.rolloutParams(g.rollout))
	if err != nil {
		return err
	}
	for _, row := range found {
		c := Cause{
			Environment: row.Text("environment"), Stage: row.Text("stage"), Cause: row.Text("cause"), RootCause: row.Text("root_cause"),
			New: uint64(row.Int("new_failed")), Old: uint64(row.Int("old_failed")), Example: row.Text("example"),
		}
		i := slices.IndexFunc(x.Stages, func(s Stage) bool { return s.Stage == c.Stage && s.Environment == c.Environment })
		if i < 0 || len(x.Causes) == maxCauses {
			continue
		}
		// An outage of the provider that hits both versions also makes its causes more frequent than before.
		s, outage := x.Stages[i], row.Int("provider") != 0 && x.Verdict != Worse
		if outage || share(c.New, s.New.Calls) <= regression.Tolerance*share(c.Old, s.Old.Calls) {
			continue
		}
		c.Reason, c.Fix = cause.Meaning(c.Cause)
		if err := g.explain(ctx, &c); err != nil {
			return err
		}
		if base := g.Pages(); base != "" {
			c.Page = base + "/exchange/" + url.PathEscape(c.Example)
		}
		x.Causes = append(x.Causes, c)
	}
	return nil
}

// findingSQL selects the finding that explains a failed call: of those in its history, one with a known root cause.
const findingSQL = `SELECT summary, fix FROM findings FINAL WHERE exchange_id = {id:String} AND predicted = 'reject'
	ORDER BY root_cause = {root:String} DESC, root_cause != '' DESC, message_index LIMIT 1`

// explain replaces the general reason and fix of c by those of its example, if it has a finding.
func (g *gate) explain(ctx context.Context, c *Cause) error {
	found, err := rows.Read(ctx, g.q, "findings", findingSQL, map[string]string{"id": c.Example, "root": c.RootCause})
	if err != nil || len(found) == 0 {
		return err
	}
	c.Reason, c.Fix = cmp.Or(found[0].Text("summary"), c.Reason), cmp.Or(found[0].Text("fix"), c.Fix)
	return nil
}

func share(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

// write writes the report as text.
func (x *Report) write(w io.Writer, style *terminal.Style) error {
	var b strings.Builder
	line := func(first, format string, args ...any) {
		spaces := len(first) - len(strings.TrimLeft(first, " "))
		fmt.Fprintln(&b, style.Wrap(first, terminal.Line(fmt.Sprintf(format, args...)), strings.Repeat(" ", spaces+2)))
	}
	name := x.Service + " " + x.Version
	switch x.Verdict {
	case Worse:
		does := "fails more often"
		if x.WorseIn != failures {
			does = measureByName(x.WorseIn).worse
		}
		fmt.Fprintln(&b, style.Bold(style.Red("WORSE: "+terminal.Line(name+" "+does+" than "+x.Baseline+"; stop the rollout"))))
		line("", "Found after %s of %s, at %s.", quantity.Plural(x.StoppedAt, "call"), x.Version, style.Clock(*x.WorseAt))
	case Good:
		fmt.Fprintln(&b, style.Bold(style.Green("GOOD: "+terminal.Line(name+" is not worse than "+x.Baseline))))
		line("", "%s of %s compared.", quantity.Plural(x.Compared, "call"), x.Version)
	default:
		fmt.Fprintln(&b, style.Bold(style.Yellow("TOO FEW CALLS: no verdict on "+terminal.Line(name))))
		line("", "Reason: %s.", x.explanation)
	}
	if len(x.Stages) > 0 {
		line("", "Evidence that it is worse: %s, proven at %s. A conversation counts as failed once.", round(x.Evidence), round(x.Threshold))
	}
	for _, s := range x.Stages {
		b.WriteByte('\n')
		fmt.Fprintln(&b, style.Bold(terminal.Line(strings.Trim(cmp.Or(s.Stage, "no stage")+", "+s.Environment, ", "))))
		line("  ", "%s: %s", x.Version, s.New)
		line("  ", "%s: %s", cmp.Or(x.Baseline, "before"), s.Old)
		if s.ComparedNew.Calls == 0 {
			line("  ", "nothing to compare")
		} else {
			line("  ", "compared: %s, %s%s; evidence %s%s", s.ComparedNew, s.ComparedOld, s.with(), round(s.Evidence), s.ruledOut())
		}
		for _, m := range s.Measures {
			if m.Evidence >= minShown {
				line("  ", "%s", m.String())
			}
		}
	}
	for _, c := range x.Causes {
		b.WriteByte('\n')
		fmt.Fprintln(&b, style.Bold(terminal.Line(cmp.Or(c.Cause, "no cause")+c.root()+" in "+cmp.Or(c.Stage, "no stage"))))
		line("  ", "%s of %s failed, %d of %s", quantity.Plural(c.New, "call"), x.Version, c.Old, x.Baseline)
		line("  Why: ", "%s", c.Reason)
		line("  Fix: ", "%s", c.Fix)
		line("  Example: ", "llmtap show %s", c.Example)
		if c.Page != "" {
			line("  Page: ", "%s", c.Page)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Counts) String() string {
	return fmt.Sprintf("%s of %s failed", quantity.Count(c.Failed), quantity.Plural(c.Calls, "call"))
}

func (c *Cause) root() string {
	if c.RootCause == "" {
		return ""
	}
	return " (" + c.RootCause + ")"
}

func (s *Stage) with() string {
	switch s.ComparedBefore {
	case 0:
		return " of the version before at the same time"
	case s.ComparedNew.Calls:
		return " of the version before until then, without faults of the provider"
	}
	return fmt.Sprintf(" of the version before; %d with earlier calls, without faults of the provider", s.ComparedBefore)
}

func (s *Stage) ruledOut() string {
	if s.RuledOut == 0 {
		return ""
	}
	return fmt.Sprintf("; %g times the odds of a failure, or more, are ruled out (95%%)", s.RuledOut)
}

// round formats evidence.
func round(e float64) string {
	switch {
	case e > 1e6:
		return "over 1,000,000"
	case e >= 100:
		return quantity.Count(int(e))
	}
	return strconv.FormatFloat(e, 'g', 3, 64)
}
