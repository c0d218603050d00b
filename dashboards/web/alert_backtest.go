package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// backtestBars is the number of values in the picture of a backtest.
const backtestBars = 120

// A backtestPage shows what a rule would have done in the time range.
type backtestPage struct {
	*site
	controls Controls
}

// ServeHTTP serves the page of what a rule would have done in the time range.
func (s backtestPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Backtest of "+short(60, r.URL.Query().Get("rule")), alertsPath, "6h")
	p.Still = true
	s.serve(w, r, p, section{id: "backtest", template: "backtest", load: func(ctx context.Context) (any, error) { return s.result(ctx, p.View) }})
}

// A backtestResult is the data of the section of a backtest.
type backtestResult struct {
	*Backtest
	From   time.Time
	Cut    string // what was not replayed
	Empty  bool   // nothing of the time range was replayed: only the calls before it, to which rules look back
	Charts []*Chart
}

func (s backtestPage) result(ctx context.Context, v *View) (*backtestResult, error) {
	if s.controls == nil {
		return nil, errNoControls
	}
	b, err := s.controls.Backtest(ctx, v.Get("rule"), v.From, v.To)
	if err != nil {
		return nil, err
	}
	out := &backtestResult{Backtest: b, From: v.From, Empty: !b.Until.After(v.From)}
	if b.Until.Before(v.To.Add(-time.Minute)) {
		shown := "this is the beginning"
		if out.Empty {
			shown = "reading the calls before this time took longer"
		}
		out.Cut = fmt.Sprintf("A page replays for %s at most; %s. All of it: llmtap alerts backtest --since %s --until %s", quantity.Span(BacktestLimit), shown,
			argument(v.From.Format(time.RFC3339)), argument(v.To.Format(time.RFC3339)))
	}
	if out.Empty || b.NotTested != "" {
		return out, nil
	}
	for i, values := range b.Values {
		out.Charts = append(out.Charts, v.levels(values, b.Thresholds[i], b.Alerts, b.Until))
	}
	return out, nil
}

// levels returns a chart of a value against its threshold, with the alerts as spans. A bar is the value that is nearest to the
// threshold, or farthest beyond it.
func (v *View) levels(values Series, threshold Threshold, alerts []BacktestAlert, until time.Time) *Chart {
	step := max(v.To.Sub(v.From)/backtestBars, time.Second).Truncate(time.Second)
	c := &Chart{Title: values.Labels["severity"] + ": value and threshold over time", Unit: "value", View: v, Step: step, Levels: true, Threshold: threshold.Value}
	quiet, met := ChartSeries{Name: "condition not met", Class: "c6"}, ChartSeries{Name: "condition met (" + threshold.Op + " " + measure(threshold.Value) + ")", Class: "c1"}
	points := values.Points
	for at := v.From.Truncate(step); at.Before(until); at = at.Add(step) {
		value, known := 0.0, false
		for ; len(points) > 0 && points[0].At.Before(at.Add(step)); points = points[1:] {
			x := points[0].Value
			if !math.IsNaN(x) && !math.IsInf(x, 0) && (!known || threshold.nearer(x, value)) { // an infinite bar would hide the others
				value, known = x, true
			}
		}
		c.Starts = append(c.Starts, at)
		if known && threshold.Met(value) {
			quiet.Values, met.Values = append(quiet.Values, 0), append(met.Values, value)
		} else {
			quiet.Values, met.Values = append(quiet.Values, value), append(met.Values, 0)
		}
	}
	c.Series = []ChartSeries{quiet, met}
	for _, a := range alerts {
		if a.Severity != values.Labels["severity"] {
			continue
		}
		c.Marks = append(c.Marks, Mark{At: a.From, Label: "fires"})
		end := until
		if !a.To.IsZero() {
			end = a.To
			c.Marks = append(c.Marks, Mark{At: a.To, Label: "ends"})
		}
		c.Spans = append(c.Spans, Span{a.From, end})
	}
	slices.SortFunc(c.Marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	return c
}
