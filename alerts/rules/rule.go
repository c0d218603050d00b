package rules

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

	"github.com/llmtap/llmtap/analyzer"
)

// A Rule is one alert rule and its active instances. It is not safe for concurrent use.
type Rule struct {
	Name       string
	Every      time.Duration // between evaluations
	For        time.Duration
	Window     time.Duration // of evidence
	WindowText string        // as in the annotation llmtap_window; empty without
	Health     bool          // it is about llmtap itself
	Active     map[string]*Instance

	expr          string // canonical
	keepFiringFor time.Duration
	labels        map[string]string
	annotations   map[string]string
	grouping      []string                     // labels that some aggregation of expr keeps
	selectors     map[string][]*labels.Matcher // by metric: those of its first selector in expr
	external      External
}

// An Instance is one series for which a rule's expression is true, or was until keep_firing_for.
type Instance struct {
	Rule        *Rule
	Labels      map[string]string // of the series, and the rule's own
	Annotations map[string]string
	Value       float64
	ActiveAt    time.Time // start of the time for which the expression has been true without a break
	Firing      bool
	KeptSince   time.Time // start of keep_firing_for; zero while the expression is true

	series map[string]string // labels of the expression's result
}

// Key identifies the alert of a rule with these labels.
func Key(rule string, kv map[string]string) string {
	var b strings.Builder
	b.WriteString(rule)
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		fmt.Fprintf(&b, ",%s=%q", k, kv[k])
	}
	return b.String()
}

// Metrics returns the names of the metrics that the expression queries, sorted.
func (r *Rule) Metrics() []string { return slices.Sorted(maps.Keys(r.selectors)) }

// Eval evaluates r at ts and moves the state of every instance: inactive, pending for r.For, firing, firing for
// keep_firing_for without the expression, inactive. After an error, states are unchanged.
func (r *Rule) Eval(ctx context.Context, ts time.Time, query template.QueryFunc) error {
	vec, err := query(ctx, r.expr, ts)
	if err != nil {
		return fmt.Errorf("rule %s: %w", r.Name, err)
	}
	current := make(map[string]*Instance, len(vec))
	for _, s := range vec {
		inst := r.expand(ctx, ts, s, query)
		key := Key(r.Name, inst.Labels)
		if current[key] != nil {
			return fmt.Errorf("rule %s: two series of the result have the labels of the same alert: %s", r.Name, key)
		}
		current[key] = inst
	}
	for key, inst := range current {
		if old := r.Active[key]; old != nil {
			old.Value, old.Annotations, old.KeptSince = inst.Value, inst.Annotations, time.Time{}
			inst = old
		}
		r.Active[key] = inst
		inst.Firing = inst.Firing || ts.Sub(inst.ActiveAt) >= r.For
	}
	for key, inst := range r.Active {
		if current[key] != nil {
			continue
		}
		if inst.Firing && inst.KeptSince.IsZero() {
			inst.KeptSince = ts
		}
		if !inst.Firing || ts.Sub(inst.KeptSince) >= r.keepFiringFor {
			delete(r.Active, key)
		}
	}
	return nil
}

// Inherit moves the instances of old to r if both make the same alerts at the same times, and reports whether they do.
func (r *Rule) Inherit(old *Rule) bool {
	if r.Name != old.Name || r.expr != old.expr || r.Every != old.Every || r.For != old.For || r.keepFiringFor != old.keepFiringFor ||
		!maps.Equal(r.labels, old.labels) {
		return false
	}
	r.Active = old.Active
	for _, inst := range r.Active {
		inst.Rule = r
	}
	return true
}

// finite replaces values that JSON cannot represent; a ratio over zero becomes the largest number.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}

// expand makes an instance of one sample of the expression's result.
func (r *Rule) expand(ctx context.Context, ts time.Time, s promql.Sample, query template.QueryFunc) *Instance {
	inst := &Instance{Rule: r, series: s.Metric.Map(), Annotations: map[string]string{}, Value: finite(s.F), ActiveAt: ts}
	delete(inst.series, model.MetricNameLabel)
	text := func(t string) string {
		out, err := r.expandTemplate(ctx, t, inst.series, s, ts, query)
		if err != nil {
			return fmt.Sprintf("<error expanding template: %v>", err)
		}
		return out
	}
	inst.Labels = maps.Clone(inst.series)
	for k, v := range r.labels {
		if inst.Labels[k] = text(v); inst.Labels[k] == "" {
			delete(inst.Labels, k)
		}
	}
	for k, v := range r.annotations {
		inst.Annotations[k] = text(v)
	}
	return inst
}

// expandTemplate expands a label or annotation of an alert as Prometheus does.
func (r *Rule) expandTemplate(ctx context.Context, text string, series map[string]string, s promql.Sample, ts time.Time, query template.QueryFunc) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	text = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}" + text
	data := template.AlertTemplateData(series, r.external.Labels, r.external.URL, s)
	return template.NewTemplateExpander(ctx, text, "alert "+r.Name, data, model.TimeFromUnixNano(ts.UnixNano()), query, nil, nil).Expand()
}

// Matcher returns the test for series that count in the evidence of inst. They have its labels, lack those that the
// expression groups by and inst lacks, and match the expression's selector of their metric. It is nil if the expression
// does not query failed calls.
func (inst *Instance) Matcher() func(metric string, kv map[string]string) bool {
	if _, ok := inst.Rule.selectors[analyzer.MetricFailed]; !ok {
		return nil
	}
	var required []string
	for _, l := range failedLabels {
		if _, ok := inst.series[l]; ok || slices.Contains(inst.Rule.grouping, l) {
			required = append(required, l)
		}
	}
	return func(metric string, kv map[string]string) bool {
		has := labelsOf(metric)
		for _, l := range required {
			if kv[l] != inst.series[l] && slices.Contains(has, l) { // only failed calls have a cause
				return false
			}
		}
		for _, m := range inst.Rule.selectors[metric] {
			if !m.Matches(kv[m.Name]) {
				return false
			}
		}
		return true
	}
}
