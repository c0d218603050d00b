package engine

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/tsdb"
)

// A RuleState is a rule at its last evaluation.
type RuleState struct {
	Name, Severity string
	Expr           string // PromQL
	Every, For     time.Duration
	KeepFiringFor  time.Duration
	Labels         map[string]string // with templates
	Annotations    map[string]string // with templates
	Condition      rules.Condition   // Op is "" if the rule compares nothing with a number
	Nearest        *Sample           // series of Condition.Value that is nearest to the threshold, or farthest beyond it; nil: there is none
	Series         int               // number of these series
	Pending        int               // alerts that fire if the expression stays true
	Firing         int
	Active         []rules.Instance // the pending and the firing alerts, sorted by their labels
	Evaluated      time.Time        // zero: not yet
}

// States is Rules without Nearest and Series, which take an evaluation of each rule.
func (e *Engine) States() []RuleState {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]RuleState, len(e.rules))
	for i, r := range e.rules {
		out[i] = newRuleState(r)
	}
	return out
}

func newRuleState(r *rules.Rule) RuleState {
	out := RuleState{
		Name: r.Name, Severity: r.Severity(), Expr: r.Expr(), Every: r.Every, For: r.For, KeepFiringFor: r.KeepFiringFor(),
		Labels: r.Labels(), Annotations: r.Annotations(), Evaluated: r.Previous(time.Unix(math.MaxInt32, 0)),
	}
	for _, key := range slices.Sorted(maps.Keys(r.Active)) {
		inst := *r.Active[key]
		if inst.Firing {
			out.Firing++
		} else {
			out.Pending++
		}
		out.Active = append(out.Active, inst)
	}
	return out
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
	ctx = tsdb.WithOnly(ctx, nil) // others get the same answer
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
	e.mu.Lock()
	out := newRuleState(r)
	e.mu.Unlock()
	out.Condition, _ = r.Condition()
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
