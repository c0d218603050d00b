package ruletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llmtap/llmtap/alerts/rules"
)

// observed is an active alert. Its labels do not include the alert's name. Its annotations are the same as in the rule
// file, including llmtap_window.
type observed struct {
	labels, annotations map[string]string
	activeAt            time.Time
}

// diffAlerts returns the differences between the expected alerts and the alerts that fire at ts, or nil.
func diffAlerts(want *alertTest, active []*rules.Instance, ts time.Time) (diff []string) {
	var got, pending []observed
	for _, inst := range active {
		a := observed{maps.Clone(inst.Labels), maps.Clone(inst.Annotations), inst.ActiveAt}
		delete(a.labels, model.AlertNameLabel)
		if w := inst.Rule.WindowText; w != "" {
			a.annotations[rules.WindowAnnotation] = w
		}
		switch {
		case inst.Rule.Name != want.Alertname:
		case inst.Firing:
			got = append(got, a)
		default:
			pending = append(pending, a)
		}
	}
	var missing []expAlert
	for _, w := range want.ExpAlerts {
		w.Labels = maps.Clone(w.Labels)
		delete(w.Labels, model.AlertNameLabel)
		same := func(a observed) bool {
			return maps.Equal(a.labels, w.Labels) && maps.Equal(a.annotations, w.Annotations)
		}
		if i := slices.IndexFunc(got, same); i >= 0 {
			got = slices.Delete(got, i, i+1)
			continue
		}
		missing = append(missing, w)
	}
	for _, w := range missing {
		sameLabels := func(a observed) bool { return maps.Equal(a.labels, w.Labels) }
		if i := slices.IndexFunc(got, sameLabels); i >= 0 {
			diff = append(diff, "  "+text(w.Labels))
			diff = append(diff, diffTexts(w.Annotations, got[i].annotations)...)
			got = slices.Delete(got, i, i+1)
			continue
		}
		line := "- " + text(w.Labels)
		if i := slices.IndexFunc(pending, sameLabels); i >= 0 {
			line += fmt.Sprintf(" has been pending for %s", model.Duration(ts.Sub(pending[i].activeAt)))
		}
		diff = append(diff, line)
	}
	slices.SortFunc(got, func(a, b observed) int { return cmp.Compare(text(a.labels), text(b.labels)) })
	for _, a := range got {
		diff = append(diff, "+ "+text(a.labels))
		diff = append(diff, diffTexts(nil, a.annotations)...)
	}
	return diff
}

// diffTexts returns the differences between two sets of annotations, sorted by name.
func diffTexts(want, got map[string]string) (diff []string) {
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		w, wanted := want[k]
		g, found := got[k]
		if wanted && found && w == g {
			continue
		}
		if wanted {
			diff = append(diff, fmt.Sprintf("-   %s: %q", k, w))
		}
		if found {
			diff = append(diff, fmt.Sprintf("+   %s: %q", k, g))
		}
	}
	return diff
}

func text(kv map[string]string) string { return labels.FromMap(kv).String() }

// A sample is a value and its labels as text.
type sample struct {
	labels string
	value  float64
}

func (s sample) String() string { return s.labels + " " + strconv.FormatFloat(s.value, 'g', -1, 64) }

// diffExpr returns the differences between the expected and the actual result of an expression, or nil.
func (s *store) diffExpr(ctx context.Context, want *exprTest, fuzzy bool) (diff []string, err error) {
	vec, err := s.Query(ctx, want.Expr, s.start.Add(time.Duration(want.EvalTime)))
	if err != nil {
		return nil, err
	}
	var got []sample
	for _, v := range vec {
		if v.H != nil {
			return nil, errors.New("the result has histograms, which llmtap does not support")
		}
		got = append(got, sample{v.Metric.String(), v.F})
	}
	slices.SortFunc(got, func(a, b sample) int { return cmp.Compare(a.labels, b.labels) })
	for _, w := range want.ExpSamples {
		if w.Histogram != "" {
			return nil, errors.New("histogram: not supported")
		}
		lset, err := promql.ParseMetric(w.Labels)
		if err != nil {
			return nil, fmt.Errorf("labels %q: %w", w.Labels, err)
		}
		x := sample{lset.String(), w.Value}
		i := slices.IndexFunc(got, func(g sample) bool { return g.labels == x.labels && equal(g.value, x.value, fuzzy) })
		if i < 0 {
			diff = append(diff, "- "+x.String())
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, g := range got {
		diff = append(diff, "+ "+g.String())
	}
	return diff, nil
}

// equal reports whether a and b are equal. As in promtool, adjacent floats are also equal if fuzzy is set.
func equal(a, b float64, fuzzy bool) bool {
	return a == b || fuzzy && (math.Nextafter(a, math.Inf(-1)) == b || math.Nextafter(a, math.Inf(1)) == b)
}
