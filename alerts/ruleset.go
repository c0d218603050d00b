package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/template"
)

// External is what templates call $externalLabels and $externalURL. An Engine has none of either.
type External struct {
	Labels map[string]string
	URL    string
}

// A RuleSet evaluates rules one step at a time over whatever series its caller has: the states and the templates of an
// Engine, without tallies and receivers. Package ruletest tests rules with it. It is not safe for concurrent use.
type RuleSet struct{ rules []*rule }

// NewRuleSet loads files, which an Engine of cfg would accept too. No files means no rules.
func NewRuleSet(files []string, cfg Config, x External) (*RuleSet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return &RuleSet{}, nil
	}
	list, err := loadRules(files, cfg)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		r.external = x
	}
	return &RuleSet{list}, nil
}

// Names are those of the alerts of all rules, in their order; one may come twice.
func (s *RuleSet) Names() []string {
	var out []string
	for _, r := range s.rules {
		out = append(out, r.name)
	}
	return out
}

// Eval moves every rule to ts, whatever the interval of its group. A rule that fails keeps its state; the others go on.
func (s *RuleSet) Eval(ctx context.Context, ts time.Time, query template.QueryFunc) error {
	var errs []error
	for _, r := range s.rules {
		vec, err := query(ctx, r.expr, ts)
		if err == nil {
			err = r.update(ctx, ts, vec, query)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", r.name, err))
		}
	}
	return errors.Join(errs...)
}

// A RuleAlert is an active alert of one rule, pending or firing.
type RuleAlert struct {
	Name        string
	Labels      map[string]string // without the name
	Annotations map[string]string // as in the file, those for llmtap itself too
	Firing      bool
	Since       time.Time // when the expression began to hold
}

// Active returns the alerts of the last step, in no order.
func (s *RuleSet) Active() []RuleAlert {
	var out []RuleAlert
	for _, r := range s.rules {
		for _, inst := range r.active {
			a := RuleAlert{r.name, maps.Clone(inst.labels), maps.Clone(inst.annotations), inst.firing, inst.activeAt}
			delete(a.Labels, model.AlertNameLabel)
			if r.windowText != "" {
				a.Annotations[windowAnnotation] = r.windowText
			}
			out = append(out, a)
		}
	}
	return out
}
