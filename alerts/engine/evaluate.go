package engine

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts/rules"
)

// evaluate counts the tallies of one step and evaluates the rules. Errors of individual rules are counted and logged.
func (e *Engine) evaluate(ctx context.Context, step int64, tallies []tally) {
	began := time.Now()
	gauges := e.expected
	if !e.health {
		e.samples.usuals.recorded = e.steps.observed()
		gauges = append(slices.Clip(gauges), Gauge{Metric: rules.MetricCollected, Value: boolValue(e.samples.usuals.recorded)})
	}
	if err := e.samples.apply(step, tallies, gauges); err != nil {
		e.m.failed(e.log, "evaluate", err, "step", step)
	}
	due := slices.DeleteFunc(slices.Clone(e.rules), func(r *rules.Rule) bool { return step%int64(r.Every.Seconds()) != 0 })
	e.evaluateRules(ctx, due, step)
	e.m.evaluation.Observe(time.Since(began).Seconds())
	e.m.lastEvaluation.Set(float64(step))
	if e.groups.update(e.result(step)) {
		e.state.changed.raise()
		e.dispatcher.wake()
	}
}

// evaluateRules evaluates rules at step, up to e.concurrent at a time: each reads the samples and changes only itself. Errors
// are counted and logged in the order of the rules.
func (e *Engine) evaluateRules(ctx context.Context, list []*rules.Rule, step int64) {
	errs := make([]error, len(list))
	var g errgroup.Group
	g.SetLimit(e.concurrent)
	for i, r := range list {
		g.Go(func() error {
			errs[i] = r.Eval(ctx, time.Unix(step, 0).UTC(), e.samples.Query)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	for _, err := range errs {
		if err != nil {
			e.m.failed(e.log, "evaluate", err, "step", step)
		}
	}
}
