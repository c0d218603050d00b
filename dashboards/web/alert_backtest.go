package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// backtestBars is the number of values in the picture of a backtest.
const backtestBars = 120

// backtest serves the page of what a rule would have done in the time range.
func (s *server) backtest(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Backtest of "+short(60, r.URL.Query().Get("rule")), alertsPath, "6h")
	p.Still = true
	s.serve(w, r, p, section{id: "backtest", template: "backtest", load: func(ctx context.Context) (any, error) { return s.loadBacktest(ctx, p.View) }})
}

// A backtestResult is the data of the section of a backtest.
type backtestResult struct {
	*Backtest
	From   time.Time
	Cut    string // what was not replayed
	Charts []*Chart
}

func (s *server) loadBacktest(ctx context.Context, v *View) (*backtestResult, error) {
	if s.Controls == nil {
		return nil, errNoControls
	}
	b, err := s.Controls.Backtest(ctx, v.Get("rule"), v.From, v.To)
	if err != nil {
		return nil, err
	}
	out := &backtestResult{Backtest: b, From: v.From}
	if b.Until.Before(v.To.Add(-time.Minute)) {
		out.Cut = fmt.Sprintf("A page replays for %s at most; this is the beginning. The rest: llmtap alerts backtest --since %s --until %s", duration(BacktestLimit),
			argument(v.From.Format(time.RFC3339)), argument(v.To.Format(time.RFC3339)))
	}
	for i, values := range b.Values {
		out.Charts = append(out.Charts, v.levels(values, b.Thresholds[i], b.Alerts, b.Until))
	}
	return out, nil
}

// levels returns a chart of a value against its threshold, with the alerts as marks.
func (v *View) levels(values Series, threshold float64, alerts []BacktestAlert, until time.Time) *Chart {
	step := max(v.To.Sub(v.From)/backtestBars, time.Second).Truncate(time.Second)
	c := &Chart{Title: values.Labels["severity"] + ": value and threshold over time", Unit: "value", View: v, Step: step, Levels: true, Threshold: threshold}
	below, beyond := ChartSeries{Name: "not beyond the threshold", Class: "c6"}, ChartSeries{Name: "beyond it", Class: "c1"}
	points := values.Points
	for at := v.From.Truncate(step); at.Before(until); at = at.Add(step) {
		highest := 0.0
		for len(points) > 0 && points[0].At.Before(at.Add(step)) {
			highest = max(highest, points[0].Value)
			points = points[1:]
		}
		c.Starts = append(c.Starts, at)
		if highest > threshold {
			below.Values, beyond.Values = append(below.Values, 0), append(beyond.Values, highest)
		} else {
			below.Values, beyond.Values = append(below.Values, highest), append(beyond.Values, 0)
		}
	}
	c.Series = []ChartSeries{below, beyond}
	for _, a := range alerts {
		if a.Severity != values.Labels["severity"] {
			continue
		}
		c.Marks = append(c.Marks, Mark{At: a.From, Label: "fires"})
		if !a.To.IsZero() {
			c.Marks = append(c.Marks, Mark{At: a.To, Label: "ends"})
		}
	}
	slices.SortFunc(c.Marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	return c
}
