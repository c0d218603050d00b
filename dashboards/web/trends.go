package web

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// trends draw measures over time, beside what is usual of them.
type trends struct {
	store
	usual Usual // nil: this process does not know it
}

// A curve is a measure over time.
type curve struct {
	measure string // of Usual; empty: it has no usual range
	title   string
	unit    string // in words; empty if the title says it
	lines   []curveLine
	text    func(v float64) string // a value in words
	factor  float64                // of Usual to the unit of the chart
}

// A curveLine is a line of a curve. of returns NaN if there is no value; minutes is the length of the bar.
type curveLine struct {
	name, class string
	of          func(r stored.Row, minutes float64) float64
}

// column returns the value of a column of a bar with calls.
func column(name string) func(stored.Row, float64) float64 {
	return func(r stored.Row, _ float64) float64 {
		if r[name] == nil {
			return math.NaN()
		}
		return r.Float(name)
	}
}

// lasting is column without zeros: a call that took no time did not say how long it took.
func lasting(name string) func(stored.Row, float64) float64 {
	return func(r stored.Row, minutes float64) float64 {
		if v := column(name)(r, minutes); v > 0 {
			return v
		}
		return math.NaN()
	}
}

func tokens(v float64) string { return quantity.Plural(int64(math.Round(v)), "token") }

// percentile is the usual line of measures of calls.
func percentile(name string) []curveLine {
	return []curveLine{{"95% of calls have at most", "c3", column(name)}}
}

// allTrends are the curves of the first page.
var allTrends = []curve{
	{"calls", "Calls a minute", "", []curveLine{{"", "c3", callsPerMinute}}, measure, 1},
	{"", "Failed calls", "percent", []curveLine{{"", "c1", failedShare}}, percentText, 1},
	{"duration", "Latency", "seconds", []curveLine{{"95% of calls take at most", "c3", lasting("slow")}, {"half of them", "c6", lasting("median")}}, quantity.Latency, 1},
	{"input_tokens", "Input tokens of a call", "", percentile("many_input"), tokens, 1},
	{"output_tokens", "Output tokens of a call", "", percentile("many_output"), tokens, 1},
	{"spend", "Cost an hour", "dollars", []curveLine{{"", "c3", costPerHour}}, dollars, 60},
}

// problemTrends are further curves, which are shown on the page of a problem.
var problemTrends = []curve{
	{"first_token", "Time to the first token", "seconds", []curveLine{{"95% of streamed calls take at most", "c3", lasting("slow_first_token")}}, quantity.Latency, 1},
	{"history", "Messages of a request", "", percentile("many_messages"), func(v float64) string { return quantity.Plural(int64(math.Round(v)), "message") }, 1},
}

func callsPerMinute(r stored.Row, minutes float64) float64 { return r.Float("calls") / minutes }

func failedShare(r stored.Row, _ float64) float64 { return 100 * r.Float("failed") / r.Float("calls") }

func costPerHour(r stored.Row, minutes float64) float64 {
	return column("cost")(r, minutes) / minutes * 60
}

func percentText(v float64) string {
	if v > 0 && v < 10 {
		return measure(v) + "%"
	}
	return fmt.Sprintf("%.0f%%", v)
}

// dollars returns small amounts with two digits.
func dollars(usd float64) string {
	if usd == 0 || usd >= 0.1 {
		return quantity.Money(usd)
	}
	return "$" + strconv.FormatFloat(usd, 'g', 2, 64)
}

// trendCharts are charts with the same times.
type trendCharts struct {
	Charts   []*Chart
	Note     string // on what is usual
	Unpriced int64  // calls that are not in the cost, because their price or their usage is unknown
}

// all returns the curves of the first page.
func (s trends) all(ctx context.Context, v *View) (*trendCharts, error) {
	out, rows, err := s.charts(ctx, v, v.values(), allTrends)
	for _, r := range rows {
		out.Unpriced += r.Int64("unpriced")
	}
	return out, err
}

// charts returns a chart of each curve, and the rows that it was drawn from.
func (s trends) charts(ctx context.Context, v *View, of queries.Values, list []curve) (*trendCharts, []stored.Row, error) {
	out := &trendCharts{}
	_, step := v.bars()
	values := maps.Clone(of)
	values["step"] = []string{strconv.Itoa(int(step.Seconds()))}
	rows, err := s.query(ctx, "trends", values, v.Now)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range list {
		c := v.newChart(t.title, t.unit)
		c.Lines, c.Text = true, t.text
		for _, l := range t.lines {
			c.Series = append(c.Series, ChartSeries{Name: l.name, Class: l.class, Values: c.line(rows, l.of)})
		}
		if t.measure == "calls" {
			for j, at := range c.Starts { // no rows are no calls
				if v.covered(at, c.Step) > 0 && math.IsNaN(c.Series[0].Values[j]) {
					c.Series[0].Values[j] = 0
				}
			}
		}
		out.Charts = append(out.Charts, c)
	}
	out.Note = s.setBands(ctx, v, of, out.Charts, list)
	return out, rows, nil
}

// line returns the value of each bar; NaN if there is none.
func (c *Chart) line(rows []stored.Row, of func(r stored.Row, minutes float64) float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, len(c.Starts))
	for _, r := range rows {
		if i := c.bar(r.Time("time")); i >= 0 && c.View.covered(c.Starts[i], c.Step) > 0 {
			out[i] = of(r, c.View.covered(c.Starts[i], c.Step).Minutes())
		}
	}
	return out
}

// covered returns how much of a bar is in the time range; 0 if it is less than half.
func (v *View) covered(start time.Time, step time.Duration) time.Duration {
	from, to := start, start.Add(step)
	if from.Before(v.From) {
		from = v.From
	}
	if to.After(v.To) {
		to = v.To
	}
	if to.Sub(from) < step/2 {
		return 0
	}
	return to.Sub(from)
}

// stageFilters are the filters that select stages. What is usual is known for stages, not for parts of one.
var stageFilters = []string{"service", "environment", "stage"}

// setBands sets what is usual of the charts of list for calls with these values of filters, and returns a sentence on it.
func (s trends) setBands(ctx context.Context, v *View, of queries.Values, charts []*Chart, list []curve) string {
	for _, name := range filterNames {
		if n := len(of[name]); n > 1 || n == 1 && !slices.Contains(stageFilters, name) {
			return "What is usual is only known for all calls of a stage, so it is not shown with this filter."
		}
	}
	if s.usual == nil {
		return "What is usual is not shown: this process does not know it."
	}
	var names []string
	for _, t := range list {
		names = append(names, t.measure)
	}
	starts, step := v.bars()
	each := max(1, int(step/time.Hour)) // a long bar has the mean of its hours
	hours := make([]time.Time, 0, each*len(starts))
	for _, at := range starts {
		for i := range each {
			hours = append(hours, at.Add(time.Duration(i)*step/time.Duration(each)))
		}
	}
	known, err := s.usual(ctx, first(of["service"]), first(of["environment"]), first(of["stage"]), hours, names...)
	switch {
	case err != nil:
		return capital(err.Error()) + "."
	case len(known) == 0:
		return "What is usual is not known yet: it is learned from the first hours of a stage on."
	}
	for i, t := range list {
		for bands := known[t.measure]; len(bands) >= each; bands = bands[each:] {
			b := meanBand(bands[:each])
			charts[i].Bands = append(charts[i].Bands, Band{b.Low * t.factor, b.High * t.factor})
		}
	}
	note := "The band is what is usual at that hour, learned from the hours, days and weeks before."
	if len(list) > 1 && known["duration"] == nil && (len(of["stage"]) == 0 || len(of["service"]) == 0) {
		note += " For latency and tokens, it is only known per stage: choose one below."
	}
	return note
}

// meanBand returns the mean of those that are known.
func meanBand(list []Band) (out Band) {
	n := 0.0
	for _, b := range list {
		if b.High > 0 {
			out.Low, out.High, n = out.Low+b.Low, out.High+b.High, n+1
		}
	}
	if n == 0 {
		return Band{}
	}
	return Band{out.Low / n, out.High / n}
}

// Columns returns the head of the table of all values.
func (t *trendCharts) Columns() []string {
	out := []string{"Time"}
	for _, c := range t.Charts {
		for _, s := range c.Series {
			name := c.Title
			if len(c.Series) > 1 {
				name += ", " + s.Name
			}
			out = append(out, name)
		}
		if c.Bands != nil {
			out = append(out, "usual")
		}
	}
	return out
}

// Rows returns the values of the bars with calls as a table.
func (t *trendCharts) Rows() [][]string {
	var out [][]string
	for i, at := range t.Charts[0].Starts {
		r, known := []string{t.Charts[0].View.At(at).Absolute()}, false
		for _, c := range t.Charts {
			for _, s := range c.Series {
				known = known || s.Values[i] > 0
				r = append(r, c.value(s.Values[i]))
			}
			if c.Bands != nil {
				r = append(r, c.band(i))
			}
		}
		if known {
			out = append(out, r)
		}
	}
	return out
}
