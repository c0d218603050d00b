package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/template"

	"github.com/llmtap/llmtap/analyzer"
)

// A Rule is one alert rule and its active instances. It is not safe for concurrent use.
type Rule struct {
	Name       string
	Every      time.Duration // interval between evaluations
	For        time.Duration
	Window     time.Duration // window of the evidence
	WindowText string        // text of the annotation llmtap_window; empty if there is none
	Health     bool          // the rule is about llmtap itself
	Active     map[string]*Instance

	evaluated [2]time.Time // times of the last two evaluations, newest first

	expr          string // expression in canonical form
	keepFiringFor time.Duration
	labels        map[string]string
	annotations   map[string]string
	grouping      []string                     // labels that aggregations in expr group by
	selectors     map[string][]*labels.Matcher // metric name to the matchers of its first selector in expr
	failures      string                       // see Failures
	external      External
}

// An Instance is one series for which a rule's expression is true, or was true less than keep_firing_for ago.
type Instance struct {
	Rule        *Rule
	Labels      map[string]string // labels of the series and of the rule
	Annotations map[string]string
	Value       float64
	ActiveAt    time.Time // time since which the expression has been true without interruption
	Firing      bool
	KeptSince   time.Time // start of keep_firing_for; zero while the expression is true
	Before      time.Time // time of the rule's evaluation before ActiveAt; zero if there was none

	series map[string]string // labels of the expression's result
}

// Key returns a string that identifies the alert of a rule with labels kv.
func Key(rule string, kv map[string]string) string {
	b := make([]byte, 0, 128)
	b = append(b, rule...)
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		b = append(append(append(b, ','), k...), '=')
		b = strconv.AppendQuote(b, kv[k])
	}
	return string(b)
}

// SeriesKey is Key without the severity: the alerts of a series escalate from one to another.
func SeriesKey(rule string, kv map[string]string) string {
	kv = maps.Clone(kv)
	delete(kv, "severity")
	return Key(rule, kv)
}

// Rank orders severities. An alert inhibits alerts of lower rank on the same series.
func Rank(severity string) int {
	switch severity {
	case "critical", "page":
		return 3
	case "error":
		return 2
	case "warning":
		return 1
	}
	return 0
}

// Expr returns the expression, in lines of at most 100 characters where possible.
func (r *Rule) Expr() string {
	expr, err := promqlParser.ParseExpr(r.expr)
	if err != nil {
		return r.expr
	}
	return expr.Pretty(0)
}

// Metrics returns the names of the metrics that the expression queries, sorted.
func (r *Rule) Metrics() []string { return slices.Sorted(maps.Keys(r.selectors)) }

// Eval evaluates r at ts and updates the state of every instance. An instance is inactive, then pending for r.For, then
// firing; once the expression is no longer true, it fires for keep_firing_for and is inactive again. If Eval fails, the
// states do not change.
func (r *Rule) Eval(ctx context.Context, ts time.Time, query template.QueryFunc) error {
	vec, err := query(ctx, r.expr, ts)
	if err != nil {
		return fmt.Errorf("rule %s: %w", r.Name, err)
	}
	current := make(map[string]*Instance, len(vec))
	for _, inst := range r.expand(ctx, ts, vec, query) {
		inst.Before = r.evaluated[0]
		key := Key(r.Name, inst.Labels)
		if current[key] != nil {
			return fmt.Errorf("rule %s: two series of the result have the labels of the same alert: %s", r.Name, key)
		}
		current[key] = inst
	}
	r.evaluated = [2]time.Time{ts, r.evaluated[0]}
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

// Previous returns the time of the last evaluation before ts, or the zero time if there was none. ts must not be before
// the last evaluation.
func (r *Rule) Previous(ts time.Time) time.Time {
	if r.evaluated[0].Before(ts) {
		return r.evaluated[0]
	}
	return r.evaluated[1]
}

// Inherit moves the instances of old to r if both rules produce the same alerts at the same times, and reports whether
// they do.
func (r *Rule) Inherit(old *Rule) bool {
	if r.Name != old.Name || r.expr != old.expr || r.Every != old.Every || r.For != old.For || r.keepFiringFor != old.keepFiringFor ||
		!maps.Equal(r.labels, old.labels) {
		return false
	}
	r.Active, r.evaluated = old.Active, old.evaluated
	for _, inst := range r.Active {
		inst.Rule = r
	}
	return true
}

// CountsFailures reports whether a metric counts what an alert can be about: failed calls, findings, odd answers, errors of tools, or
// calls that missed the prompt cache.
func CountsFailures(metric string) bool {
	switch metric {
	case analyzer.MetricFailed, analyzer.MetricFindings, analyzer.MetricOdd, analyzer.MetricToolErrors, analyzer.MetricCacheBroken:
		return true
	}
	return false
}

// Failures returns the metric of the failures that the alert is about, see CountsFailures: whichever the
// expression queries first. It returns "" if it queries none of them.
func (r *Rule) Failures() string { return r.failures }

// Queries reports whether the expression queries a metric.
func (r *Rule) Queries(metric string) bool {
	_, ok := r.selectors[metric]
	return ok
}

// Instance returns the instance of an alert of r from its labels, without a state. It returns nil if an alert of r
// cannot have these labels.
func (r *Rule) Instance(kv map[string]string) *Instance {
	series := maps.Clone(kv)
	for k, v := range r.labels {
		if v != kv[k] && !strings.Contains(v, "{{") {
			return nil
		}
		delete(series, k)
	}
	return &Instance{Rule: r, Labels: kv, series: series}
}

// Required returns the value that a label has in every series of the evidence of inst, or "" if the series lack the label. ok is
// false if the series may have different values.
func (inst *Instance) Required(label string) (value string, ok bool) {
	value, ok = inst.series[label]
	return value, ok || slices.Contains(inst.Rule.grouping, label)
}

// Matcher returns a function that reports whether a series belongs to the evidence of inst. Such a series has the
// labels of inst, lacks labels that the expression groups by but inst lacks, and matches the expression's selector for
// its metric. Matcher returns nil without Failures.
func (inst *Instance) Matcher() func(metric string, kv map[string]string) bool {
	failures := inst.Rule.Failures()
	if failures == "" {
		return nil
	}
	var required []string
	for _, l := range labelsOf(failures) {
		if _, ok := inst.Required(l); ok {
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
