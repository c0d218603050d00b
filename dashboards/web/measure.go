package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// A measureInfo says how to show a measure that a problem is about.
type measureInfo struct {
	what  string // follows "calls that", with a verb for the usual value; empty if stored calls do not tell which are meant
	ended string // follows "answers that", if what is empty
	share string // metric of the tallies, whose share of all calls is the measure; empty if it is no share, or stored calls tell it
	of    string // metric whose share it is, if not of calls
}

// measures are the values of Problem.Measure about single calls: they are larger than usual, or end like this.
var measures = map[string]measureInfo{
	"duration":        {what: "took more than %s"},
	"first_token":     {what: "had to wait more than %s for the first token"},
	"input_tokens":    {what: "read more than %s"},
	"output_tokens":   {what: "wrote more than %s"},
	"history":         {what: "sent more than %s"},
	"answer_limit":    {what: "were cut off at the token limit"},
	"answer_filtered": {what: "were withheld by a filter"},
	"answer_empty":    {ended: "are empty", share: `llmtap_odd_answers_total{ended="empty"}`},
	"answer_refused":  {ended: "are refusals", share: `llmtap_odd_answers_total{ended="refused"}`},
	"tool_errors":     {share: "llmtap_tool_errors_total{}", of: "llmtap_tool_replies_total"},
}

// A measured is the measure that a page is about.
type measured struct {
	measureInfo
	name  string
	since time.Time // when it became unusual, by estimate
	above float64   // the value above which calls are unusual; 0 if that is not known, or it has none
}

// curve returns the curve of the measure; nil if it is a share that has none.
func (m *measured) curve() *curve {
	name := m.name
	if name == "cost" {
		name = "spend" // the rows have no percentile of it
	}
	for _, list := range [][]curve{allTrends, problemTrends} {
		for i := range list {
			if list[i].measure == name {
				return &list[i]
			}
		}
	}
	return nil
}

// hits reports whether the rows tell which calls are unusual.
func (m *measured) hits() bool {
	return m.what != "" && (m.above > 0 || !strings.Contains(m.what, "%s"))
}

// words returns what is unusual of the calls.
func (m *measured) words() string {
	if !strings.Contains(m.what, "%s") {
		return m.what
	}
	return fmt.Sprintf(m.what, m.curve().text(m.above))
}

// maxEarlier is how long before its alert a measure may have become unusual: sums of a day are tested, too.
const maxEarlier = 48 * time.Hour

// measured returns what is known of the measure of x.
func (s incidentPage) measured(ctx context.Context, x *incident) *measured {
	p := x.problem
	m := &measured{measureInfo: measures[p.Measure], name: p.Measure, since: p.FirstSeen}
	if len(p.Alerts) > 0 {
		m.since = slices.MinFunc(p.Alerts, func(a, b Alert) int { return a.StartsAt.Compare(b.StartsAt) }).StartsAt
	}
	expr := fmt.Sprintf("llmtap_unusual_since_seconds%s", selector(map[string][]string{"service": {p.Service}, "stage": {p.Stage}, "environment": {p.Environment}, "measure": {p.Measure}}, "measure"))
	if series, err := s.tallies.read(ctx, expr, x.view.Now, x.view.Now, time.Minute); err == nil && len(series) > 0 && len(series[0].Points) > 0 {
		if at := time.Unix(int64(series[0].Points[0].Value), 0).UTC(); at.Before(m.since) && at.After(m.since.Add(-maxEarlier)) {
			m.since = at
		}
	}
	if c := m.curve(); c != nil && s.usual != nil {
		if known, err := s.usual(ctx, p.Service, p.Environment, p.Stage, []time.Time{m.since}, p.Measure); err == nil && len(known[p.Measure]) > 0 {
			m.above = known[p.Measure][0].High
		}
	}
	return m
}

// measureSections are the sections about what is unusual.
func (s incidentPage) measureSections(x *incident) []section {
	sections := []section{
		{id: "timeline", template: "measure-timeline", title: "Since when, and how much", load: func(ctx context.Context) (any, error) { return s.measureOverTime(ctx, x) }},
		{id: "change", template: "measure-change", title: "What changed?", load: func(ctx context.Context) (any, error) { return s.measureChange(ctx, x) }},
	}
	differs := section{id: "differs", template: "incident-differs", title: "What differs?", load: func(ctx context.Context) (any, error) { return s.differs(ctx, x) }}
	if x.measured.hits() {
		return append(sections, differs,
			section{id: "proof", template: "measure-examples", title: "Examples", load: func(ctx context.Context) (any, error) { return s.measuredCalls(ctx, x) }},
			section{id: "versions", template: "problem-versions", title: x.Hit() + ", by version", load: func(ctx context.Context) (any, error) { return s.versions(ctx, x) }},
			section{id: "hit", template: "problem-hit", title: "Who is hit?", load: func(ctx context.Context) (any, error) { return s.harm(ctx, x) }},
		)
	}
	if c := x.measured.curve(); c != nil && (c.measure == "calls" || c.measure == "spend") {
		sections = append(sections, differs)
	}
	return sections
}

// measureOverTime returns the chart of the measure of x with what is usual.
func (s incidentPage) measureOverTime(ctx context.Context, x *incident) (*trendCharts, error) {
	v, m := x.view, x.measured
	var charts *trendCharts
	c := m.curve()
	if c != nil {
		var err error
		if charts, _, err = s.charts(ctx, v, x.values, []curve{*c}); err != nil {
			return nil, err
		}
	} else {
		c = &curve{m.name, "Answers that " + cmp.Or(m.what, m.ended), "percent", []curveLine{{class: "c3"}}, percentText, 100}
		if m.of != "" {
			c.title = "Replies of tools that are errors"
		}
		line, err := s.shareOverTime(ctx, x, c)
		if err != nil {
			return nil, err
		}
		charts = &trendCharts{Charts: []*Chart{line}}
		charts.Note = s.setBands(ctx, v, x.values, charts.Charts, []curve{*c})
	}
	chart := charts.Charts[0]
	chart.Spans = append(chart.Spans, Span{m.since, s.endOf(x)})
	if began, err := s.query(ctx, "versions_began", x.values, v.Now); err == nil { // marks are a help only
		for _, r := range began {
			chart.Marks = append(chart.Marks, Mark{r.Time("began"), r.Text("new_version")})
		}
	}
	return charts, nil
}

// endOf returns when what x is about has ended, or now.
func (s incidentPage) endOf(x *incident) time.Time {
	if x.problem.Firing {
		return x.view.Now
	}
	end := x.problem.LastSeen
	for _, a := range x.problem.Alerts {
		if a.EndsAt.After(end) {
			end = a.EndsAt
		}
	}
	return end
}

// shareOverTime returns the share of calls that end or fail as the measure says: from the rows, if they know it.
func (s incidentPage) shareOverTime(ctx context.Context, x *incident, of *curve) (*Chart, error) {
	c := x.view.newChart(of.title, of.unit)
	c.Lines, c.Text = true, of.text
	part, whole := make([]float64, len(c.Starts)), make([]float64, len(c.Starts))
	m := x.measured
	if m.share == "" {
		rows, err := s.query(ctx, "incident_over_time", x.hits("step", strconv.Itoa(int(c.Step.Seconds()))), x.view.Now)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if i := c.bar(r.Time("time")); i >= 0 {
				part[i] += r.Float("hits")
				whole[i] += r.Float("hits") + r.Float("others")
			}
		}
	} else {
		stage := selector(x.values)
		both := strings.TrimSuffix(m.share, "}") + "," + strings.TrimPrefix(stage, "{")
		for expr, to := range map[string][]float64{strings.Replace(both, "{,", "{", 1): part, cmp.Or(m.of, "llmtap_calls_total") + stage: whole} {
			series, err := s.tallies.read(ctx, fmt.Sprintf("sum(increase(%s[%ds]))", expr, int(c.Step.Seconds())), c.Starts[0].Add(c.Step), c.Starts[len(c.Starts)-1].Add(c.Step), c.Step)
			if err != nil {
				return nil, err
			}
			for _, one := range series {
				for _, p := range one.Points {
					if i := c.bar(p.At.Add(-c.Step)); i >= 0 {
						to[i] += p.Value
					}
				}
			}
		}
	}
	values := slices.Repeat([]float64{math.NaN()}, len(c.Starts))
	for i := range values {
		if whole[i] > 0 {
			values[i] = 100 * part[i] / whole[i]
		}
	}
	c.Series = []ChartSeries{{Name: of.lines[0].name, Class: of.lines[0].class, Values: values}}
	return c, nil
}

// measureChange returns what changed before the measure became unusual.
func (s incidentPage) measureChange(ctx context.Context, x *incident) (*change, error) {
	since := x.measured.since
	out := &change{First: x.view.At(since)}
	values := x.with("since", since.Add(-changeBefore).Format(time.RFC3339Nano), "until", since.Add(changeAfter).Format(time.RFC3339Nano))
	delete(values, "version")
	rows, err := s.query(ctx, "what_changed", values, x.view.Now)
	if err != nil {
		return nil, err
	}
	for _, r := range rows[:min(8, len(rows))] {
		out.Changes = append(out.Changes, changeRow{x.view.At(r.Time("changed_at")), r.Text("change"), relative(since, r.Time("changed_at"))})
	}
	return out, nil
}

// changeAfter is how much later than estimated something may have become unusual.
const changeAfter = 10 * time.Minute

// relative says how long before or after since at is.
func relative(since, at time.Time) string {
	if at.After(since) {
		return quantity.Span(at.Sub(since)) + " after"
	}
	return quantity.Span(since.Sub(at)) + " before"
}

// A measuredCall is a call with much of a measure.
type measuredCall struct {
	Exchange, Conversation, Model, Version, Finish string
	At                                             Time
	Took, FirstToken                               float64
	Input, Output, Messages                        int64
}

// measuredCalls returns the calls with the most.
func (s incidentPage) measuredCalls(ctx context.Context, x *incident) ([]measuredCall, error) {
	rows, err := s.query(ctx, "measured_calls", x.hitsNow(), x.view.Now)
	if err != nil {
		return nil, err
	}
	var out []measuredCall
	for _, r := range rows {
		out = append(out, measuredCall{
			Exchange: r.Text("exchange_id"), Conversation: r.Text("conversation_id"), Model: r.Text("model"), Version: r.Text("version"), Finish: r.Text("finish_reason"),
			At: x.view.At(r.Time("started_at")), Took: r.Float("duration"), FirstToken: r.Float("first_byte"), Input: r.Int64("input"), Output: r.Int64("output"), Messages: r.Int64("messages"),
		})
	}
	return out, nil
}
