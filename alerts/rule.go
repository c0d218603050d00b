package alerts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// A rule is one alert rule and its active instances.
type rule struct {
	name        string
	expr        string
	every       time.Duration
	hold        time.Duration // for
	keep        time.Duration // keep_firing_for
	window      time.Duration // of evidence
	windowText  string        // as the annotation says it; empty without
	labels      map[string]string
	annotations map[string]string

	grouping  []string                     // labels that any aggregation of expr keeps
	selectors map[string][]*labels.Matcher // by metric: what the first selector of expr asks of it
	external  External                     // for templates

	active map[string]*instance // by labels
}

// An instance is one series for which a rule's expression holds, or held until keep_firing_for.
type instance struct {
	rule        *rule
	series      map[string]string // labels of the expression's result
	labels      map[string]string // and the rule's own
	annotations map[string]string
	value       float64
	activeAt    time.Time // since when the expression holds without a break
	firing      bool
	keptSince   time.Time // since when it only fires because of keep_firing_for; zero while the expression holds
}

// key names the alert of labels kv of a rule.
func alertKey(name string, kv map[string]string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		fmt.Fprintf(&b, ",%s=%q", k, kv[k])
	}
	return b.String()
}

// update moves the state machine of every instance to ts, at which the expression gave vec: inactive, pending for
// r.hold, firing, firing for r.keep without the expression, inactive.
func (r *rule) update(ctx context.Context, ts time.Time, vec promql.Vector, query template.QueryFunc) error {
	held := make(map[string]bool, len(vec))
	for _, s := range vec {
		inst := r.expand(ctx, ts, s, query)
		key := alertKey(r.name, inst.labels)
		if held[key] {
			return fmt.Errorf("two series of the result have the labels of the same alert: %s", key)
		}
		held[key] = true
		if old := r.active[key]; old != nil {
			old.value, old.annotations, old.keptSince = inst.value, inst.annotations, time.Time{}
			inst = old
		}
		r.active[key] = inst
		inst.firing = inst.firing || ts.Sub(inst.activeAt) >= r.hold
	}
	for key, inst := range r.active {
		if held[key] {
			continue
		}
		if inst.firing && inst.keptSince.IsZero() {
			inst.keptSince = ts
		}
		if !inst.firing || ts.Sub(inst.keptSince) >= r.keep {
			delete(r.active, key)
		}
	}
	return nil
}

// finite keeps what JSON cannot hold out of alerts; a ratio over zero is as large as it gets.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}

// expand makes an instance of one sample of the expression's result.
func (r *rule) expand(ctx context.Context, ts time.Time, s promql.Sample, query template.QueryFunc) *instance {
	inst := &instance{rule: r, series: s.Metric.Map(), annotations: map[string]string{}, value: finite(s.F), activeAt: ts}
	delete(inst.series, model.MetricNameLabel)
	text := func(t string) string {
		out, err := expandTemplate(ctx, r.name, t, inst.series, r.external, s, ts, query)
		if err != nil {
			return fmt.Sprintf("<error expanding template: %v>", err)
		}
		return out
	}
	inst.labels = maps.Clone(inst.series)
	for k, v := range r.labels {
		if inst.labels[k] = text(v); inst.labels[k] == "" {
			delete(inst.labels, k)
		}
	}
	for k, v := range r.annotations {
		inst.annotations[k] = text(v)
	}
	return inst
}
