package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
)

// evaluate counts the tallies of one step and evaluates the rules. Errors of individual rules are counted and logged.
func (e *Engine) evaluate(ctx context.Context, step int64, tallies []tally) {
	began := time.Now()
	gauges := e.expected
	if !e.health {
		observed := e.steps.observed()
		e.samples.usuals.recorded = observed
		e.samples.usuals.accept(e.groups.decisions.Accepts(), step)
		e.quiet.observe(step, tallies, observed)
		gauges = slices.Concat(gauges, []Gauge{{Metric: rules.MetricCollected, Value: boolValue(observed)}}, e.quiet.gauges(), e.firingGauges())
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

// firingGauges returns rules.MetricAlerts of the alerts whose rules query it.
func (e *Engine) firingGauges() (out []Gauge) {
	for _, r := range e.rules {
		if !r.Queries(rules.MetricAlerts) {
			continue
		}
		for _, o := range e.groups.open {
			for _, a := range o.alerts {
				if a.State == alerts.Firing && a.Name == r.Name && r.Instance(a.Labels) != nil {
					kv := maps.Clone(a.Labels)
					kv["alertname"], kv["alertstate"] = a.Name, string(alerts.Firing)
					out = append(out, Gauge{rules.MetricAlerts, kv, 1})
				}
			}
		}
	}
	return out
}

// evaluateRules evaluates rules at step, up to e.concurrent at a time: each reads the samples and changes only itself. Errors
// are counted and logged in the order of the rules.
func (e *Engine) evaluateRules(ctx context.Context, list []*rules.Rule, step int64) {
	errs := make([]error, len(list))
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
			errs[i] = list[i].Eval(ctx, time.Unix(step, 0).UTC(), e.samples.Query)
		}
	}
	var others sync.WaitGroup
	for range e.concurrent - 1 {
		others.Go(work)
	}
	work() // not in a goroutine for each rule: growing their stacks took a fifth of an evaluation
	others.Wait()
	for _, err := range errs {
		if err != nil {
			e.m.failed(e.log, "evaluate", err, "step", step)
		}
	}
}
