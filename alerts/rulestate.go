package alerts

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
)

// A RuleState is a rule at its last evaluation.
type RuleState struct {
	Name, Severity string
	Expr           string // PromQL
	For            time.Duration
	Condition      rules.Condition // Op is "" if the rule compares nothing with a number
	Nearest        *Sample         // series of Condition.Value that is nearest to the threshold, or farthest beyond it; nil: there is none
	Series         int             // number of these series
	Pending        int             // alerts that fire if the expression stays true
	Firing         int
	Evaluated      time.Time // zero: not yet
}

// Rules returns the state of the rules of e, in the order of their files. An evaluation of rules waits for each value; callers that
// ask more often than rules are evaluated get the same answer.
func (e *Engine) Rules(ctx context.Context) ([]RuleState, error) {
	e.mu.Lock()
	list, step := e.rules, e.steps.last()
	if e.ruleStates.step == step && e.ruleStates.list != nil {
		defer e.mu.Unlock()
		return e.ruleStates.list, nil
	}
	e.mu.Unlock()
	out := make([]RuleState, len(list))
	for i, r := range list {
		var err error
		if out[i], err = e.ruleState(ctx, r); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ruleStates.step, e.ruleStates.list = step, out
	return out, nil
}

func (e *Engine) ruleState(ctx context.Context, r *rules.Rule) (RuleState, error) {
	out := RuleState{Name: r.Name, Severity: r.Severity(), Expr: r.Expr(), For: r.For}
	out.Condition, _ = r.Condition()
	e.mu.Lock()
	out.Evaluated = r.Previous(time.Unix(math.MaxInt32, 0))
	for _, inst := range r.Active {
		if inst.Firing {
			out.Firing++
		} else {
			out.Pending++
		}
	}
	e.mu.Unlock()
	if out.Condition.Op == "" || out.Evaluated.IsZero() {
		return out, nil
	}
	samples, err := e.Query(ctx, out.Condition.Value, out.Evaluated)
	if err != nil {
		return out, err
	}
	out.Series = len(samples)
	for i, s := range samples {
		if out.Nearest == nil || nearer(out.Condition, s.Value, out.Nearest.Value) {
			out.Nearest = &samples[i]
		}
	}
	return out, nil
}

// nearer reports whether a is nearer to the threshold than b, or farther beyond it.
func nearer(c rules.Condition, a, b float64) bool {
	switch {
	case math.IsNaN(b):
		return !math.IsNaN(a)
	case strings.HasPrefix(c.Op, "<"):
		return a < b
	case strings.HasPrefix(c.Op, ">"):
		return a > b
	}
	return math.Abs(a-c.Threshold) < math.Abs(b-c.Threshold)
}
