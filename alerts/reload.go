package alerts

import (
	"context"
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
	list, err := e.cfg.loadRules(e.health)
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
	for _, r := range list {
		e.samples.window = max(e.samples.window, int64(r.Window.Seconds()))
		if i := slices.IndexFunc(before, r.Inherit); i >= 0 {
			before = slices.Delete(before, i, i+1)
			continue
		}
		if e.next == 0 {
			continue // nothing was evaluated yet
		}
		last := time.Unix(e.next, 0).UTC().Add(-e.cfg.EvaluationInterval)
		if err := r.Eval(ctx, last, e.samples.Query); err != nil {
			e.failed("evaluate", err, "step", last.Unix())
		}
	}
	e.rules = list
	e.m.reloaded.Set(1)
	return nil
}
