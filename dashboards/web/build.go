package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A buildMeasure is a measure of the calls of a group.
type buildMeasure struct {
	column, title string
	sort          string                 // of calls_by
	unit          string                 // noun of a value that can be added up; empty: it cannot
	text          func(v float64) string // a value that cannot be added up in words
}

var buildMeasures = []buildMeasure{
	{"calls", "Calls", "calls", "call", nil},
	{"failed_calls", "Failed calls", "failed", "failed call", nil},
	{"failed_percent", "Failed share", "failed_percent", "", percentText},
	{"p50", "Latency, median", "p50", "", latency},
	{"p95", "Latency, 95%", "p95", "", latency},
	{"first_token", "First token, 95%", "first_token", "", latency},
	{"seconds", "Time in all", "seconds", "", latency},
	{"input_tokens", "Input tokens", "input_tokens", "input token", nil},
	{"cached_tokens", "Cached tokens", "cached_tokens", "cached token", nil},
	{"output_tokens", "Output tokens", "output_tokens", "output token", nil},
	{"cost", "Cost", "cost", "", cents},
	{"tool_calls", "Tool calls", "tool_calls", "tool call", nil},
	{"conversations", "Conversations", "conversations", "", counted},
}

func counted(v float64) string { return quantity.Count(int64(math.Round(v))) }

// buildGroups are what calls can be grouped by, as in the parameter by of calls_by; attr is any attribute.
var buildGroups = []string{"stage", "service", "environment", "version", "provider", "model", "status", "cause", "tool", "user", "conversation", "run", "attr", "all"}

// buildSteps are the lengths of a step that are offered.
var buildSteps = []string{"auto", "1 minute", "5 minutes", "15 minutes", "1 hour", "6 hours", "1 day"}

// maxSteps is the maximum number of steps of a chart.
const maxSteps = 400

// A builder is a query that a viewer builds: a measure of calls by a property, over time. All of it is in the URL.
type builder struct {
	*trafficList
	measure buildMeasure
	step    time.Duration // 0: chosen by the length of the time range
}

// serveBuilder serves the page that builds a query of calls_by and calls_over_time.
func (s explorePage) serveBuilder(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Explore", explorePath)
	p.Still = true
	b, err := newBuilder(p.View)
	if err != nil {
		p.Problem = cmp.Or(p.Problem, err.Error())
	}
	list := trafficPage{site: s.site, store: s.store, write: s.write}
	if list.exported(w, r, p, b.trafficList) {
		return
	}
	s.serve(w, r, p,
		section{id: "build", template: "explore-build", title: "Query", load: func(context.Context) (any, error) { return b, nil }},
		section{id: "list", template: "traffic", title: "Result", load: func(ctx context.Context) (any, error) { return list.built(ctx, b) }},
	)
}

// newBuilder returns the query that a URL says. The values of an error are the defaults.
func newBuilder(v *View) (*builder, error) {
	q, err := queries.Get(groupedBy.query)
	if err != nil {
		return nil, err
	}
	b := &builder{trafficList: &trafficList{traffic: groupedBy, exploration: &exploration{Query: q, View: v}}, measure: buildMeasures[0]}
	b.kind, b.by = "explore", cmp.Or(v.Get("by"), buildGroups[0])
	if name := v.Get("measure"); name != "" {
		i := slices.IndexFunc(buildMeasures, func(m buildMeasure) bool { return m.column == name })
		if i < 0 {
			err = fmt.Errorf("there is no measure %q", name)
		} else {
			b.measure = buildMeasures[i]
		}
	}
	key, isAttribute := strings.CutPrefix(b.by, "attr.")
	switch {
	case b.by == "attr":
		if b.by = "attr." + v.Get("key"); v.Get("key") == "" {
			b.by, err = buildGroups[0], fmt.Errorf("enter the name of the attribute to group by")
		}
	case !slices.Contains(buildGroups, b.by) && (!isAttribute || key == ""):
		b.by, err = buildGroups[0], fmt.Errorf("there is no property %q to group by", b.by)
	}
	if text := v.Get("step"); text != "" && text != buildSteps[0] {
		from, parseErr := queries.ParseTime(text, v.To)
		b.step = v.To.Sub(from)
		if parseErr != nil || b.step < time.Second || v.To.Sub(v.From)/b.step > maxSteps {
			b.step, err = 0, fmt.Errorf("a step of %s does not cut the time range into 1 to %d parts", text, maxSteps)
		}
	}
	b.order, b.sorts = b.measure.sort, map[string]string{}
	b.shown, b.more = []string{"group", b.measure.column}, []string{"main_reason", "last_call"}
	for _, m := range buildMeasures {
		b.sorts[m.column] = m.sort
		switch {
		case m.column == b.measure.column:
		case slices.Contains([]string{"calls", "failed_calls", "p95", "input_tokens", "cost"}, m.column):
			b.shown = append(b.shown, m.column)
		default:
			b.more = append(b.more, m.column)
		}
	}
	return b, err
}

// An option is a choice of a form.
type option struct {
	Value, Label string
	Chosen       bool
}

// Measures are the measures to choose from.
func (b *builder) Measures() []option {
	var out []option
	for _, m := range buildMeasures {
		out = append(out, option{m.column, m.title, m.column == b.measure.column})
	}
	return out
}

// Groups are the properties to group by.
func (b *builder) Groups() []option {
	var out []option
	for _, name := range buildGroups {
		label := map[string]string{"attr": "attribute", "all": "nothing: all calls"}[name]
		out = append(out, option{name, cmp.Or(label, name), name == b.by || name == "attr" && b.Key() != ""})
	}
	return out
}

// Key is the attribute to group by, or "".
func (b *builder) Key() string {
	key, ok := strings.CutPrefix(b.by, "attr.")
	if !ok {
		return ""
	}
	return key
}

// Steps are the lengths of a step to choose from.
func (b *builder) Steps() []option {
	var out []option
	steps := buildSteps
	if text := b.View.Get("step"); text != "" && !slices.Contains(steps, text) {
		steps = append(slices.Clone(steps), text)
	}
	for _, text := range steps {
		out = append(out, option{text, text, text == cmp.Or(b.View.Get("step"), steps[0])})
	}
	return out
}

// Others returns the parameters of the URL that the form does not contain.
func (b *builder) Others() []Field {
	return b.View.Fields("measure", "by", "key", "step", "sort", "col", "after", "format")
}

// Queries are the stored queries with these parameters, with the command and the SQL.
func (b *builder) Queries() []Link {
	return []Link{
		{Text: "calls_by", URL: b.View.With(explorePath+"/calls_by", "by", b.by, "sort", b.measure.sort)},
		{Text: "calls_over_time", URL: b.View.With(explorePath+"/calls_over_time", "by", b.by, "step", b.View.Get("step"), "bar", b.measure.column)},
	}
}

// built returns the list of groups, and the chart of the first ones.
func (s trafficPage) built(ctx context.Context, b *builder) (*trafficList, error) {
	l, err := s.list(ctx, b.trafficList)
	if err != nil || len(l.names) == 0 {
		return l, err
	}
	l.Chart, err = s.builtChart(ctx, b, l.names[:min(len(l.names), maxSeries)])
	if n := len(l.names); n > maxSeries || l.Next != "" {
		l.Note = fmt.Sprintf("The chart shows the first %d groups of the table.", maxSeries)
	}
	return l, err
}

// builtChart returns the measure of some groups over time.
func (s trafficPage) builtChart(ctx context.Context, b *builder, names []string) (*Chart, error) {
	q, err := queries.Get("calls_over_time")
	if err != nil {
		return nil, err
	}
	c := b.View.newChart(b.measure.title, b.measure.unit)
	if b.step > 0 {
		c.Step, c.Starts = b.step, nil
		for at := time.Unix(b.View.From.Unix()/int64(c.Step.Seconds())*int64(c.Step.Seconds()), 0).UTC(); at.Before(b.View.To); at = at.Add(c.Step) {
			c.Starts = append(c.Starts, at)
		}
	}
	only, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	over := exploration{Query: q, View: b.View}
	values := over.values()
	maps.Copy(values, queries.Values{"by": {b.by}, "groups": {string(only)}, "step": {strconv.Itoa(int(c.Step.Seconds())) + "s"}})
	t, err := s.run(ctx, q, values, b.View.Now)
	if err != nil {
		return nil, err
	}
	rows := rowsOf(t)
	if b.measure.unit != "" {
		series := c.collect(rows, "group", b.measure.column)
		slices.SortStableFunc(series, func(x, y ChartSeries) int { return slices.Index(names, x.Name) - slices.Index(names, y.Name) })
		c.addSeries(series)
		return c, nil
	}
	c.Lines, c.Text = true, b.measure.text
	for i, name := range names {
		of := slices.DeleteFunc(slices.Clone(rows), func(r stored.Row) bool { return r.Text("group") != name })
		values := slices.Repeat([]float64{math.NaN()}, len(c.Starts))
		for _, r := range of {
			if i := c.bar(r.Time("time")); i >= 0 && r[b.measure.column] != nil {
				values[i] = r.Float(b.measure.column)
			}
		}
		c.Series = append(c.Series, ChartSeries{Name: name, Class: fmt.Sprintf("c%d", i+1), Values: values})
	}
	return c, nil
}

// behind returns the URL of the calls of a group.
func (l *trafficList) behind(group string, more ...string) string {
	v := l.View
	switch key, isAttribute := strings.CutPrefix(l.by, "attr."); {
	case l.by == "all":
	case l.by == "stage" || l.by == "version":
		service, value, _ := strings.Cut(group, map[string]string{"stage": "/", "version": " "}[l.by])
		more = append(more, "service", service, l.by, value)
	case l.by == "cause":
		more = append(more, "cause", parseReason(group).ID)
	case isAttribute: // beside those of the filter
		and := *v
		and.params = maps.Clone(v.params)
		and.params["attr"] = append(slices.Clone(v.params["attr"]), key+"="+group)
		v = &and
	default:
		more = append(more, l.by, group)
	}
	return v.Calls(more...)
}
