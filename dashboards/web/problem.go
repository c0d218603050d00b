package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// ofProblem serves the page about a problem.
func (s incidentPage) ofProblem(w http.ResponseWriter, r *http.Request) {
	s.serveProblem(w, r, http.StatusOK, "")
}

// serveProblem serves the page with the reason why a form was refused, if any.
func (s incidentPage) serveProblem(w http.ResponseWriter, r *http.Request, status int, refused string) {
	p := s.page(r, "Problem", problemsPath)
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	err := errNoProblems
	known := await(s.site, w, r, p, func() (known *Problem) {
		if s.problems != nil {
			known, err = s.problems.Problem(ctx, r.PathValue("id"))
		}
		return known
	})
	if err != nil {
		s.missing(w, r, p, err)
		return
	}
	p.Title = known.Subject
	if refused != "" {
		p.Problem, p.Still = "Not done: "+refused+".", true
	}
	x := &incident{view: p.View, problem: known, Why: known.Cause}
	ended := known.LastSeen
	if known.Firing {
		ended = time.Time{}
	}
	window := time.Duration(0)
	if known.Measure != "" {
		window = 3 * time.Hour // to see what was usual
	}
	x.setRange(known.FirstSeen, ended, window)
	x.filter(known.labels())
	x.known = change{FirstBad: known.FirstBad, LastClean: known.LastClean, First: p.At(known.FirstAt)}
	x.marks = []Mark{{known.FirstSeen, "first seen"}}
	if d := known.Fixed; d != nil {
		x.marks = append(x.marks, Mark{d.At, "fixed" + in(d.Version)})
	}
	if d := known.Regressed; d != nil {
		x.marks = append(x.marks, Mark{d.At, "regressed" + in(d.Version)})
	}
	if known.Measure != "" {
		x.measured = await(s.site, w, r, p, func() *measured { return s.measured(ctx, x) })
		x.marks = nil
	} else if known.Findings || len(known.Alerts) == 0 && !s.failedWith(ctx, w, r, p, x) {
		if x.Rules = []string{known.Cause}; known.Kind == "cause" {
			known.Kind = "rule"
		}
	}
	calls := s.callSections(x)
	calls[len(calls)-1] = section{id: "hit", template: "problem-hit", title: "Who is hit?", load: func(ctx context.Context) (any, error) { return s.harm(ctx, x) }}
	if x.measured != nil {
		calls = s.measureSections(x)
	}
	sections := []section{
		{id: "now", template: "problem-now", load: func(ctx context.Context) (any, error) { return s.problemNow(ctx, x) }},
		{id: "act", template: "problem-act", title: "What you can do", load: func(context.Context) (any, error) { return p.problemRow(*known), nil }},
	}
	if x.measured == nil {
		sections = append(sections, section{id: "versions", template: "problem-versions", title: x.Hit() + " by version", load: func(ctx context.Context) (any, error) { return s.versions(ctx, x) }})
	}
	s.serveStatus(w, r, status, p, append(append(sections, calls...),
		section{id: "found", template: "problem-found", title: "Found by", load: func(ctx context.Context) (any, error) { return s.foundBy(ctx, x) }},
		section{id: "history", template: "problem-history", title: "Who did what", load: func(ctx context.Context) (any, error) { return s.history(ctx, x) }},
		s.moreSection(x),
	)...)
}

// problemNow is the answer to "what is it, what is its state, and how large is it?".
type problemNow struct {
	problemRow
	callCounts
	Measured bool   // the page is about an unusual measure, or the prompt cache
	Whole    string // URL of this page for the whole time of the problem; empty if it is shown
}

func (s incidentPage) problemNow(ctx context.Context, x *incident) (*problemNow, error) {
	out := &problemNow{problemRow: x.view.problemRow(*x.problem), Whole: x.view.whole(), Measured: x.measured != nil || x.ofCache()}
	out.callCounts, _ = s.counts(ctx, x) // its error is out.Missing
	return out, nil
}

// A versionLine is a version with calls in the time shown.
type versionLine struct {
	Version     string
	Hits, Calls int64
	URL         string
	Bars        []sparkBar
	Most        float64 // hit calls in the highest bar
	began       time.Time
	values      []float64
}

// A sparkBar is a bar of a line of sparkWidth by sparkHeight.
type sparkBar struct{ X, Y, W, H float64 }

const (
	sparkWidth, sparkHeight = 240.0, 28.0
	maxVersionLines         = 10
)

// versionLines are the versions, the newest first.
type versionLines struct {
	Lines   []*versionLine
	Step    string // time of a bar
	Tallies string // see totals.Tallies
	Omitted int
}

// draw sets the bars of all lines, on the same scale.
func (l *versionLines) draw() {
	highest := 0.0
	for _, line := range l.Lines {
		for _, v := range line.values {
			line.Most = max(line.Most, v)
		}
		highest = max(highest, line.Most)
	}
	for _, line := range l.Lines {
		width := sparkWidth / float64(max(1, len(line.values)))
		for i, v := range line.values {
			if v > 0 {
				h := max(2, v/highest*sparkHeight)
				line.Bars = append(line.Bars, sparkBar{float64(i) * width, sparkHeight - h, max(1, width-0.5), h})
			}
		}
	}
	slices.SortStableFunc(l.Lines, func(a, b *versionLine) int {
		return cmp.Or(b.began.Compare(a.began), cmp.Compare(b.Version, a.Version))
	})
	if len(l.Lines) > maxVersionLines {
		l.Omitted = len(l.Lines) - maxVersionLines
		l.Lines = l.Lines[:maxVersionLines]
	}
}

// versions returns the calls that a problem hits by version, over time.
func (s incidentPage) versions(ctx context.Context, x *incident) (*versionLines, error) {
	v := x.view
	c := v.newChart("", "")
	out := &versionLines{Step: quantity.Span(c.Step)}
	line := func(version string, at time.Time) *versionLine {
		i := slices.IndexFunc(out.Lines, func(l *versionLine) bool { return l.Version == version })
		if i < 0 {
			i = len(out.Lines)
			out.Lines = append(out.Lines, &versionLine{Version: version, began: at, values: make([]float64, len(c.Starts)), URL: v.Here("version", version)})
		}
		return out.Lines[i]
	}
	rows, err := s.query(ctx, "problem_versions", x.hits("step", strconv.Itoa(int(c.Step.Seconds()))), v.Now)
	if err != nil {
		if !down(err) || !s.versionsByTallies(ctx, x, c, line) {
			return nil, err
		}
		out.Tallies = downText(err)
	}
	for _, r := range rows {
		l := line(r.Text("version"), r.Time("time"))
		l.Hits += r.Int64("hits")
		l.Calls += r.Int64("calls")
		if i := c.bar(r.Time("time")); i >= 0 {
			l.values[i] += r.Float("hits")
		}
	}
	out.draw()
	return out, nil
}

// versionsByTallies adds what the tallies know, and reports whether they answered.
func (s incidentPage) versionsByTallies(ctx context.Context, x *incident, c *Chart, line func(version string, at time.Time) *versionLine) bool {
	hit, by := "llmtap_failed_calls_total", "cause"
	if len(x.Rules) > 0 {
		hit, by = "llmtap_findings_total", "rule"
	}
	step := int(c.Step.Seconds())
	increase := func(metric string, labels ...string) string {
		values := x.with()
		for _, l := range labels {
			values[l] = []string{x.Why}
		}
		return fmt.Sprintf("increase(%s%s[%ds])", metric, selector(values, labels...), step)
	}
	for i, expr := range []string{increase("llmtap_calls_total"), increase(hit, by) + " or " + increase(hit, "root_cause")} {
		series, err := s.tallies.read(ctx, "sum by (service_version) ("+expr+")", c.Starts[0].Add(c.Step), c.Starts[len(c.Starts)-1].Add(c.Step), c.Step)
		if err != nil {
			return false
		}
		for _, one := range series {
			for _, p := range one.Points {
				n, at := math.Round(p.Value), c.bar(p.At.Add(-c.Step))
				if n == 0 || at < 0 {
					continue
				}
				l := line(one.Labels["service_version"], p.At)
				if i == 0 {
					l.Calls += int64(n)
					continue
				}
				l.Hits += int64(n)
				l.values[at] += n
			}
		}
	}
	return true
}

// A harm is what a problem does to users, and what it costs.
type harm struct {
	conversationsHit
	Measured                                         bool // nothing failed
	Calls, Tenants, Input, Output, Unreported, About int64
	Reported, AtMost                                 *float64 // USD of Input and Output, and of About; nil if unknown
	Unpriced                                         []string // models without a price
}

func (s incidentPage) harm(ctx context.Context, x *incident) (*harm, error) {
	out := &harm{Measured: x.measured != nil || x.ofCache()}
	hit, err := s.conversations(ctx, x)
	if err != nil {
		return nil, err
	}
	out.conversationsHit = *hit
	rows, err := s.query(ctx, "problem_harm", x.hitsNow(), x.view.Now)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		out.Calls, out.Users, out.Tenants = r.Int64("calls"), r.Int64("users"), r.Int64("tenants")
		out.Input, out.Output, out.Unreported, out.About = r.Int64("input_tokens"), r.Int64("output_tokens"), r.Int64("unreported_calls"), int64(r.Float("about_tokens"))
		out.Reported, out.AtMost, out.Unpriced = known(r, "reported_usd"), known(r, "at_most_usd"), r.Texts("unpriced")
	}
	return out, nil
}

// MoneyNote says what is not known of the money.
func (h *harm) MoneyNote() string {
	var notes []string
	switch {
	case h.AtMost != nil && h.Reported != nil:
		notes = append(notes, "at most "+quantity.Money(*h.AtMost)+" more if calls without usage are charged")
	case h.AtMost != nil:
		notes = append(notes, "if calls without usage are charged")
	case h.Reported == nil && len(h.Unpriced) == 0:
		notes = append(notes, "tokens unknown")
	}
	if len(h.Unpriced) > 0 {
		notes = append(notes, "no price for "+strings.Join(h.Unpriced, ", "))
	}
	return strings.Join(notes, "; ")
}

// known returns a number, nil for NULL.
func known(r stored.Row, name string) *float64 {
	if r[name] == nil {
		return nil
	}
	n := r.Float(name)
	return &n
}

// A foundRule is an alert rule that found a problem.
type foundRule struct {
	Name, Severity string
	Alerts         int
	First, Last    Time // begin of its first and of its last alert
	Firing         bool
}

// A foundBy is the data of the section on alerts and silences.
type foundBy struct {
	Rules    []foundRule
	Now      []Alert
	Silences []Silence
	Missing  string // why earlier alerts are not known
}

// alertsOf returns the alerts about a problem: those that are remembered and those that are stored, the last first. err is the reason
// why those that are only stored are missing.
func (s incidentPage) alertsOf(ctx context.Context, x *incident) (list []Alert, err error) {
	list = slices.Clone(x.problem.Alerts)
	rows, err := s.query(ctx, "problem_alerts", queries.Values{"id": {x.problem.ID}}, x.view.Now)
	for _, r := range rows {
		if id := r.Text("alert_id"); !slices.ContainsFunc(list, func(a Alert) bool { return a.ID == id }) {
			labels, _ := r["labels"].(map[string]string)
			list = append(list, Alert{
				ID: id, Name: r.Text("name"), Severity: r.Text("severity"), Summary: withoutSubject(labels, r.Text("summary")), StartsAt: r.Time("started_at"), EndsAt: r.Time("ended_at"),
			})
		}
	}
	slices.SortStableFunc(list, func(a, b Alert) int { return b.StartsAt.Compare(a.StartsAt) })
	return list, err
}

func (s incidentPage) foundBy(ctx context.Context, x *incident) (*foundBy, error) {
	out := &foundBy{Silences: x.problem.Silences}
	list, err := s.alertsOf(ctx, x)
	if err != nil {
		out.Missing = err.Error()
	}
	for _, a := range slices.Backward(list) {
		i := slices.IndexFunc(out.Rules, func(r foundRule) bool { return r.Name == a.Name })
		if i < 0 {
			i = len(out.Rules)
			out.Rules = append(out.Rules, foundRule{Name: a.Name, First: x.view.At(a.StartsAt)})
		}
		r := &out.Rules[i]
		r.Alerts++
		r.Severity, r.Last, r.Firing = a.Severity, x.view.At(a.StartsAt), r.Firing || a.EndsAt.IsZero()
	}
	for _, name := range x.problem.Rules { // whose alerts are forgotten
		if !slices.ContainsFunc(out.Rules, func(r foundRule) bool { return r.Name == name }) {
			out.Rules = append(out.Rules, foundRule{Name: name})
		}
	}
	for _, a := range x.problem.Alerts {
		if a.EndsAt.IsZero() {
			out.Now = append(out.Now, a)
		}
	}
	return out, nil
}

// A historyLine is something that happened to a problem.
type historyLine struct {
	At             Time
	Who, Text, Via string // Who is empty for an alert
}

// maxHistory is the maximum number of listed lines.
const maxHistory = 60

// problemHistory is what happened, the last first.
type problemHistory struct {
	Lines   []historyLine
	Missing string // why rows are missing
	Omitted int
}

func (s incidentPage) history(ctx context.Context, x *incident) (*problemHistory, error) {
	v, p := x.view, x.problem
	out := &problemHistory{}
	list, err := s.alertsOf(ctx, x)
	for _, a := range list {
		out.Lines = append(out.Lines, historyLine{At: v.At(a.StartsAt), Text: a.Name + " began to fire: " + a.Summary})
		if !a.EndsAt.IsZero() {
			out.Lines = append(out.Lines, historyLine{At: v.At(a.EndsAt), Text: a.Name + " ended after " + quantity.Span(a.EndsAt.Sub(a.StartsAt))})
		}
	}
	var rows []stored.Row
	if err == nil {
		rows, err = s.query(ctx, "problem_actions", queries.Values{"group": {p.Key}}, v.Now)
	}
	if err != nil {
		out.Missing = err.Error()
		out.Lines = append(out.Lines, p.decisions(v)...)
	}
	for _, r := range rows {
		text := did(r.Text("action"), r.Text("comment"), v.At(r.Time("ends_at")))
		if r["refused"] == true {
			text = "was refused: " + r.Text("action") + ", " + r.Text("comment")
		}
		out.Lines = append(out.Lines, historyLine{v.At(r.Time("at")), r.Text("who"), text, r.Text("via")})
	}
	out.Lines = append(out.Lines, historyLine{At: v.At(p.FirstSeen), Text: "First seen"})
	slices.SortStableFunc(out.Lines, func(a, b historyLine) int { return b.At.T.Compare(a.At.T) })
	if len(out.Lines) > maxHistory {
		out.Omitted = len(out.Lines) - maxHistory
		out.Lines = out.Lines[:maxHistory]
	}
	return out, nil
}

// decisions returns what people have decided, without rows.
func (p Problem) decisions(v *View) []historyLine {
	var out []historyLine
	add := func(d *Decision, action, comment string) {
		if d != nil && !d.At.IsZero() {
			out = append(out, historyLine{At: v.At(d.At), Who: cmp.Or(d.By, "llmtap"), Text: did(action, comment, v.At(d.Until))})
		}
	}
	add(p.Acked, "acknowledge", "")
	add(p.Assigned, "assign", "to "+p.Assignee)
	if p.Fixed != nil && p.Fixed.Version != "" {
		add(p.Fixed, "resolve", "fixed"+in(p.Fixed.Version))
	} else {
		add(p.Fixed, "resolve", "")
	}
	if p.Regressed != nil {
		add(p.Regressed, "regress", "seen again"+in(p.Regressed.Version))
	}
	add(p.Ignored, "ignore", "")
	return out
}

// ignoreForEver is the choice of ignoring a problem without an end.
const ignoreForEver = "ever"

// ignoreChoices are the offered times of ignoring a problem.
var ignoreChoices = []Field{{"1 day", "24h"}, {"1 week", "168h"}, {"30 days", "720h"}, {"for ever", ignoreForEver}}

// IgnoreChoices returns the offered times of ignoring a problem, as labels and values.
func (p *page) IgnoreChoices() []Field { return ignoreChoices }

// act returns a handler of a form about a problem.
func (s incidentPage) act(action, done string, read func(r *http.Request, d *ProblemDecision) error) http.HandlerFunc {
	do := func(ctx context.Context, r *http.Request, by string) (outcome, error) {
		if s.problems == nil {
			return outcome{}, errNoProblems
		}
		out := outcome{done: done}
		d := ProblemDecision{Action: action, Note: field(r, "comment")}
		if read != nil {
			if err := read(r, &d); err != nil {
				return out, err
			}
		}
		if action == "ignore" {
			if out.end = d.Until; d.Until.IsZero() {
				out.done += "-for-ever"
			}
		}
		return out, s.problems.Decide(ctx, r.PathValue("id"), d, by)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		page := "/problem/" + url.PathEscape(r.PathValue("id"))
		s.site.act(w, r, page, do, func(w http.ResponseWriter, r *http.Request, status int, reason string) {
			s.serveProblem(w, r, status, reason)
		})
	}
}

func (s incidentPage) assign(r *http.Request, d *ProblemDecision) error {
	d.Assignee = field(r, "assignee")
	if len(d.Assignee) > maxName {
		return fmt.Errorf("the assignee has more than %d characters", maxName)
	}
	return nil
}

func (s incidentPage) resolve(r *http.Request, d *ProblemDecision) error {
	d.Version = field(r, "version")
	if len(d.Version) > maxName {
		return fmt.Errorf("the version has more than %d characters", maxName)
	}
	return nil
}

func (s incidentPage) ignore(r *http.Request, d *ProblemDecision) (err error) {
	if users := field(r, "users"); users != "" {
		if d.Users, err = strconv.Atoi(users); err != nil || d.Users < 1 {
			return errors.New("the number of users is not a whole number above 0")
		}
	}
	if field(r, "for") != ignoreForEver || s.controls == nil {
		d.Until, err = s.silenceEnd(r, s.controls)
		return err
	}
	return silencesWork(s.controls)
}
