package alerts

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Reload reads the rule files again. A rule that asks the same as before, whatever its annotations say now, goes on: since
// when its alerts hold, fire and are kept. The others begin anew with the last step, so that an alert which its changed rule
// makes at once goes on too, and one that no rule makes any more is resolved with the next step. What was counted and told
// stays, so windows and baselines reach as far back as before; only evidence over a window longer than any before fills
// from now on. After an error everything is as it was, and the metric llmtap_alerts_rules_last_reload_successful is 0 until a Reload ends
// well.
func (e *Engine) Reload(ctx context.Context) error {
	rules, err := loadRules(e.cfg.RuleFiles, e.cfg)
	if err == nil {
		rules, err = split(rules, e.health)
	}
	if err != nil {
		e.m.reloaded.Set(0)
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	before := slices.Clone(e.rules)
	e.samples.window = 0
	for _, r := range rules {
		e.samples.window = max(e.samples.window, int64(r.window.Seconds()))
		if i := slices.IndexFunc(before, r.asksAs); i >= 0 {
			r.inherit(before[i])
			before = slices.Delete(before, i, i+1)
			continue
		}
		if e.next == 0 {
			continue // nothing was evaluated yet
		}
		last := time.Unix(e.next, 0).UTC().Add(-e.cfg.EvaluationInterval)
		vec, err := e.query(ctx, r.expr, last)
		if err == nil {
			err = r.update(ctx, last, vec, e.query)
		}
		if err != nil {
			e.failed("evaluate", err, "rule", r.name, "step", last.Unix())
		}
	}
	e.rules = rules
	e.m.reloaded.Set(1)
	return nil
}

// asksAs reports whether r and o make the same alerts at the same times.
func (r *rule) asksAs(o *rule) bool {
	return r.name == o.name && canonical(r.expr) == canonical(o.expr) && r.every == o.every && r.hold == o.hold && r.keep == o.keep &&
		maps.Equal(r.labels, o.labels)
}

// inherit takes over the alerts of o.
func (r *rule) inherit(o *rule) {
	r.active = o.active
	for _, inst := range r.active {
		inst.rule = r
	}
}

// canonical is an expression without its comments and spaces.
func canonical(expr string) string {
	x, err := newParser().ParseExpr(expr)
	if err != nil {
		return expr
	}
	return x.String()
}
