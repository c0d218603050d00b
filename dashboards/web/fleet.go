package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/stored"
)

// A fleetPage is the first page.
type fleetPage struct {
	*site
	trends
	firing   Firing
	problems Problems
	tallies  Tallies
	health   func(ctx context.Context) []Part // nil: unknown
	ways     func() []Way                     // nil: unknown
	refused  func() []string                  // clients that the collector refused, in words; nil: unknown
	seen     atomic.Bool                      // a call was seen
}

// ServeHTTP serves the first page: is anything wrong now, and where?
func (s *fleetPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Fleet", "/")
	ctx := r.Context()
	if s.ways != nil && len(p.Filters()) == 0 && await(s.site, w, r, p, func() bool { return s.waiting(ctx, p.View) }) {
		p.Title, p.Timeless, p.Own = "No call yet", true, true
		s.serve(w, r, p,
			section{id: "first", template: "fleet-first", title: "Send the first call", load: func(ctx context.Context) (any, error) { return s.first(ctx, p.View), nil }},
			section{id: "health", template: "fleet-health", title: "Collector", load: s.parts})
		return
	}
	s.serve(w, r, p,
		section{id: "now", template: "fleet-now", load: func(ctx context.Context) (any, error) { return s.fleetNow(ctx, p.View) }},
		section{id: "totals", template: "fleet-totals", load: func(ctx context.Context) (any, error) { return s.totals(ctx, p.View) }},
		section{id: "causes", template: "fleet-causes", title: whyFailed, load: func(ctx context.Context) (any, error) { return s.causes(ctx, p.View) }},
		section{id: "trends", template: "fleet-trends", title: "Calls, latency, tokens and cost", load: func(ctx context.Context) (any, error) { return s.all(ctx, p.View) }},
		s.cacheSection(p, false),
		section{id: "stages", template: "fleet-stages", title: "Stages, the most harmful first", load: func(ctx context.Context) (any, error) { return s.stages(ctx, p.View) }},
		section{id: "health", template: "fleet-health", title: "Collector", load: s.parts},
	)
}

// waiting reports whether no call was ever seen. Without ClickHouse, the tallies tell it of the last hours.
func (s *fleetPage) waiting(ctx context.Context, v *View) bool {
	if s.seen.Load() {
		return false
	}
	rows, err := s.query(ctx, "newest_call", nil, v.Now)
	if len(rows) == 0 { // calls are counted some seconds before they are stored
		series, failed := s.tallies.read(ctx, "sum(increase(llmtap_calls_total[6h]))", v.Now, v.Now, time.Minute)
		if sum(series) == 0 {
			return failed == nil || err == nil
		}
	}
	s.seen.Store(true)
	return false
}

func sum(all []Series) (total float64) {
	for _, one := range all {
		for _, p := range one.Points {
			total += p.Value
		}
	}
	return total
}

// A firstCall is what a new user does first.
type firstCall struct {
	Ways       []Way
	Uncaptured []uncaptured
	Refused    []string // clients, in words
}

// An uncaptured is the number of calls of a service over a transport that hooks saw and could not record.
type uncaptured struct {
	Service, Transport string
	Calls              int64
}

func (s *fleetPage) first(ctx context.Context, v *View) *firstCall {
	out := &firstCall{Ways: s.ways()}
	if s.refused != nil && access.ScopeOf(ctx).All() {
		out.Refused = s.refused()
	}
	series, _ := s.tallies.read(ctx, "sum by (service, transport) (increase(llmtap_uncaptured_calls_total[6h]))", v.Now, v.Now, time.Minute) // a help only
	for _, one := range series {
		if n := int64(math.Round(sum([]Series{one}))); n > 0 {
			out.Uncaptured = append(out.Uncaptured, uncaptured{one.Labels["service"], one.Labels["transport"], n})
		}
	}
	return out
}

// A fleetNow is the answer to "is anything wrong now?".
type fleetNow struct {
	Alerts   []Alert // that people are notified of
	Muted    []Alert
	Critical int
}

func (f Firing) now(ctx context.Context, v *View) (fleetNow, error) {
	var out fleetNow
	if f == nil {
		return out, fmt.Errorf("alerts are %w in this process: it does not run the role alert", ErrUnavailable)
	}
	all, err := f(ctx)
	if err != nil {
		return out, err
	}
	for _, a := range all {
		if !v.shows(a.Labels) {
			continue
		}
		if a.Muted {
			out.Muted = append(out.Muted, a)
			continue
		}
		out.Alerts = append(out.Alerts, a)
		if severe(a.Severity) {
			out.Critical++
		}
	}
	return out, nil
}

// fleetProblems are the open problems, and the alerts that are about none of them.
type fleetProblems struct {
	fleetNow
	Worst []problemRow
	Now   int // problems that fire, and people are notified of them
	Open  int
	Idle  bool   // there was no call in the last hour
	URL   string // of the list of all
}

// More returns the number of open problems that are not shown.
func (f *fleetProblems) More() int { return f.Open - len(f.Worst) }

// maxWorst is the maximum number of problems on the first page, so that its numbers stay above the fold.
const maxWorst = 3

func (s *fleetPage) fleetNow(ctx context.Context, v *View) (*fleetProblems, error) {
	now, err := s.firing.now(ctx, v)
	if err != nil {
		return nil, err
	}
	out := &fleetProblems{fleetNow: now, URL: v.With(problemsPath)}
	series, err := s.tallies.read(ctx, "sum(increase(llmtap_calls_total"+selector(v.params)+"[1h]))", v.Now, v.Now, time.Minute)
	out.Idle = err == nil && sum(series) == 0
	if s.problems == nil {
		return out, nil
	}
	all, err := s.problems.All(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, p := range all {
		known[p.ID] = true
	}
	out.Critical = 0
	out.Alerts = slices.DeleteFunc(now.Alerts, func(a Alert) bool { return known[a.Problem] })
	for _, a := range out.Alerts {
		if severe(a.Severity) {
			out.Critical++
		}
	}
	all = slices.DeleteFunc(all, func(p Problem) bool { return !p.Open() || p.Firing && p.Muted || !v.shows(p.labels()) })
	worstFirst(all)
	out.Open = len(all)
	for _, p := range all {
		if p.Firing {
			out.Now++
			if severe(p.Severity) {
				out.Critical++
			}
		}
		if len(out.Worst) < maxWorst {
			out.Worst = append(out.Worst, v.problemRow(p))
		}
	}
	return out, nil
}

// shows reports whether labels pass the filters of v. A label that is absent passes: an alert about a whole service concerns each
// of its stages.
func (v *View) shows(labels map[string]string) bool {
	for _, name := range filterNames {
		want := v.params[name]
		have, ok := labels[name]
		if !ok || len(want) == 0 {
			continue
		}
		match := false
		for _, w := range want {
			match = match || w == have || w == ""
		}
		if !match {
			return false
		}
	}
	return true
}

// totals are the numbers of the time range, and of the one before.
type totals struct {
	Calls, Failed, Input, Output, Unpriced, Conversations int64
	Cost, Median, Slow                                    float64
	Before                                                *totals
	Tallies                                               string // why the numbers are from the tallies, see downText; "": they are not
}

// Priced reports whether the cost of a call is known.
func (t *totals) Priced() bool { return t.Calls > t.Unpriced }

func (s *fleetPage) totals(ctx context.Context, v *View) (*totals, error) {
	now, err := s.totalsOf(ctx, v)
	if err != nil {
		return s.totalsByTallies(ctx, v, err)
	}
	before := *v
	before.Range, before.From, before.To = "", v.From.Add(-v.To.Sub(v.From)), v.From
	if now.Before, err = s.totalsOf(ctx, &before); err != nil || now.Before.Calls == 0 {
		now.Before = nil // only a comparison
	}
	return now, nil
}

func (s *fleetPage) totalsOf(ctx context.Context, v *View) (*totals, error) {
	rows, err := s.query(ctx, "totals", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return &totals{}, nil
	}
	r := rows[0]
	t := &totals{
		Calls: r.Int64("calls"), Failed: r.Int64("failed"), Input: r.Int64("input_tokens"), Output: r.Int64("output_tokens"), Unpriced: r.Int64("unpriced"),
		Conversations: r.Int64("conversations"), Cost: r.Float("cost"), Median: r.Float("median"), Slow: r.Float("slow"),
	}
	if math.IsNaN(t.Median) {
		t.Median, t.Slow = 0, 0
	}
	return t, nil
}

// totalsByTallies returns what the tallies know, or err if they know nothing either.
func (s *fleetPage) totalsByTallies(ctx context.Context, v *View, err error) (*totals, error) {
	if !down(err) {
		return nil, err
	}
	t := &totals{Tallies: downText(err)}
	for name, to := range map[string]*int64{"llmtap_calls_total": &t.Calls, "llmtap_failed_calls_total": &t.Failed} {
		expr := fmt.Sprintf("sum(increase(%s%s[%ds]))", name, selector(v.params), int(v.To.Sub(v.From).Seconds()))
		series, failed := s.tallies.read(ctx, expr, v.To, v.To, time.Minute)
		if failed != nil {
			return nil, err
		}
		for _, one := range series {
			for _, p := range one.Points {
				*to = int64(math.Round(p.Value))
			}
		}
	}
	return t, nil
}

// down reports whether err means that ClickHouse does not answer, so that other sources are of help.
func down(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// downText returns err, for which down is true, as a sentence about ClickHouse.
func downText(err error) string {
	if errors.Is(err, ErrNoStore) {
		return strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ") + "."
	}
	return "ClickHouse does not answer."
}

var errNoTallies = errors.New("this process does not read the tallies")

func (t Tallies) read(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	if t == nil {
		return nil, errNoTallies
	}
	return t(ctx, expr, from, to, step)
}

// tallyLabels are the filters that tallies have as labels, which have the same names, except for service_version.
var tallyLabels = []string{"service", "stage", "environment", "version", "provider", "model"}

// selector returns filters as a PromQL selector: those of tallyLabels, and more.
func selector(filters map[string][]string, more ...string) string {
	var matchers []string
	for _, name := range append(slices.Clone(tallyLabels), more...) {
		if value := first(filters[name]); value != "" {
			if name == "version" {
				name = "service_version"
			}
			matchers = append(matchers, name+"="+strconv.Quote(value))
		}
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// barSteps are the lengths of a bar.
var barSteps = []time.Duration{
	15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// bars returns the starts of about 45 bars that cover the time range of v, and their length.
func (v *View) bars() ([]time.Time, time.Duration) {
	const most = 60
	step := barSteps[len(barSteps)-1]
	for _, d := range barSteps {
		if v.To.Sub(v.From) <= most*d {
			step = d
			break
		}
	}
	var out []time.Time
	for t := v.From.Truncate(step); t.Before(v.To) && len(out) < 2*most; t = t.Add(step) {
		out = append(out, t)
	}
	return out, step
}

// newChart returns an empty chart of the time range of v.
func (v *View) newChart(title, unit string) *Chart {
	c := &Chart{Title: title, Unit: unit, View: v}
	c.Starts, c.Step = v.bars()
	return c
}

// collect adds the values of a statement with the columns time, a name and a number.
func (c *Chart) collect(rows []stored.Row, name, value string) []ChartSeries {
	index := map[string]int{}
	var all []ChartSeries
	for _, r := range rows {
		i := c.bar(r.Time("time"))
		if i < 0 {
			continue
		}
		label := r.Text(name)
		j, ok := index[label]
		if !ok {
			j = len(all)
			index[label] = j
			all = append(all, ChartSeries{Name: label, Values: make([]float64, len(c.Starts))})
		}
		all[j].Values[i] += r.Float(value)
	}
	return all
}

// bar returns the index of the bar that contains t, or -1.
func (c *Chart) bar(t time.Time) int {
	if len(c.Starts) == 0 {
		return -1
	}
	if i := int(t.Sub(c.Starts[0]) / c.Step); !t.Before(c.Starts[0]) && i < len(c.Starts) {
		return i
	}
	return -1
}

// failedCalls returns the failed calls over time by a column of a statement, with the new versions.
func (s store) failedCalls(ctx context.Context, v *View, statement, column, title string) (*Chart, error) {
	c := v.newChart(title, "failed call")
	values := v.values()
	values["step"] = []string{strconv.Itoa(int(c.Step.Seconds()))}
	rows, err := s.query(ctx, statement, values, v.Now)
	if err != nil {
		return nil, err
	}
	c.addSeries(c.collect(rows, column, "n"))
	if began, err := s.query(ctx, "versions_began", v.values(), v.Now); err == nil { // marks are a help only
		for _, r := range slices.Backward(began) {
			c.Marks = append(c.Marks, Mark{r.Time("began"), r.Text("service") + " " + r.Text("new_version")})
		}
	}
	return c, nil
}

const whyFailed = "Why calls fail"

func (s *fleetPage) causes(ctx context.Context, v *View) (any, error) {
	c, err := s.failedCalls(ctx, v, "causes_over_time", "why", whyFailed+", over time")
	if err == nil {
		return map[string]any{"Chart": c}, nil
	}
	if !down(err) {
		return nil, err
	}
	if c := s.causesByTallies(ctx, v); c != nil {
		return map[string]any{"Chart": c, "Tallies": downText(err)}, nil
	}
	return nil, err
}

// causesByTallies returns the failed calls by cause, or nil if the tallies do not answer.
func (s *fleetPage) causesByTallies(ctx context.Context, v *View) *Chart {
	c := v.newChart(whyFailed+", over time", "failed call")
	expr := fmt.Sprintf("sum by (cause, root_cause) (increase(llmtap_failed_calls_total%s[%ds]))", selector(v.params), int(c.Step.Seconds()))
	series, err := s.tallies.read(ctx, expr, c.Starts[0].Add(c.Step), c.Starts[len(c.Starts)-1].Add(c.Step), c.Step)
	if err != nil {
		return nil
	}
	var all []ChartSeries
	for _, one := range series {
		x := ChartSeries{Name: reasonOf(one.Labels["cause"], one.Labels["root_cause"]).String(), Values: make([]float64, len(c.Starts))}
		for _, p := range one.Points {
			if i := c.bar(p.At.Add(-c.Step)); i >= 0 {
				x.Values[i] = math.Round(p.Value)
			}
		}
		all = append(all, x)
	}
	c.addSeries(all)
	return c
}

// A reason is why a call failed.
type reason struct {
	Kind string // root cause, or cause if it is not known, or probably cause if that is a guess
	ID   string
}

func (r reason) String() string { return strings.TrimSpace(r.Kind + " " + r.ID) }

// short returns r without what kind of reason it is.
func (r reason) short() string {
	if strings.HasPrefix(r.Kind, "probably ") {
		return "probably " + r.ID
	}
	return r.ID
}

// reasonOf returns the reason of calls with a cause and a root cause, as {reason} in statements.
func reasonOf(cause, rootCause string) reason {
	if rootCause == "" || rootCause == "unknown_no_history" {
		return reason{"cause", cause}
	}
	return reason{"root cause", rootCause}
}

// parseReason returns the reason with a text, which a statement returns.
func parseReason(text string) reason {
	kind, id, ok := strings.Cut(text, "cause ")
	if !ok {
		return reason{ID: text}
	}
	return reason{kind + "cause", id}
}

// A stage is a row of the list of stages.
type stage struct {
	Service, Stage, Environment, Version   string
	Why                                    reason
	Calls, Failed, WhyCalls, Conversations int64
	Tokens                                 int64
	Slow                                   float64
	Last                                   Time
	Incident                               string // URL of the page about its main cause
}

func (s *fleetPage) stages(ctx context.Context, v *View) ([]stage, error) {
	rows, err := s.query(ctx, "stages", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := make([]stage, len(rows))
	for i, r := range rows {
		x := stage{
			Service: r.Text("service"), Stage: r.Text("stage"), Environment: r.Text("environment"), Why: parseReason(r.Text("reason")), Version: r.Text("worst_version"),
			Calls: r.Int64("calls"), Failed: r.Int64("failed_calls"), WhyCalls: r.Int64("reason_calls"), Conversations: r.Int64("conversations"),
			Tokens: r.Int64("tokens"), Slow: r.Float("p95"), Last: v.At(r.Time("last_failure")),
		}
		x.Incident = v.With("/incident", "service", x.Service, "stage", x.Stage, "environment", x.Environment, "why", x.Why.ID)
		out[i] = x
	}
	return out, nil
}

func (s *fleetPage) parts(ctx context.Context) (any, error) {
	if s.health == nil {
		return []Part(nil), nil
	}
	return s.health(ctx), nil
}
