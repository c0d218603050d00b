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

	"github.com/llmtap/llmtap/alerts"
)

// diffAlerts is how the alerts that fire at ts differ from those that want says. Nil: not at all.
func diffAlerts(want *alertTest, active []alerts.RuleAlert, ts time.Time) (diff []string) {
	var got, pending []alerts.RuleAlert
	for _, a := range active {
		switch {
		case a.Name != want.Alertname:
		case a.Firing:
			got = append(got, a)
		default:
			pending = append(pending, a)
		}
	}
	var missing []expAlert
	for _, w := range want.ExpAlerts {
		w.Labels = maps.Clone(w.Labels)
		delete(w.Labels, model.AlertNameLabel)
		same := func(a alerts.RuleAlert) bool {
			return maps.Equal(a.Labels, w.Labels) && maps.Equal(a.Annotations, w.Annotations)
		}
		if i := slices.IndexFunc(got, same); i >= 0 {
			got = slices.Delete(got, i, i+1)
			continue
		}
		missing = append(missing, w)
	}
	for _, w := range missing {
		about := func(a alerts.RuleAlert) bool { return maps.Equal(a.Labels, w.Labels) }
		if i := slices.IndexFunc(got, about); i >= 0 {
			diff = append(diff, "  "+text(w.Labels))
			diff = append(diff, diffTexts(w.Annotations, got[i].Annotations)...)
			got = slices.Delete(got, i, i+1)
			continue
		}
		line := "- " + text(w.Labels)
		if i := slices.IndexFunc(pending, about); i >= 0 {
			line += fmt.Sprintf(", which is pending, for %s", model.Duration(ts.Sub(pending[i].Since)))
		}
		diff = append(diff, line)
	}
	slices.SortFunc(got, func(a, b alerts.RuleAlert) int { return cmp.Compare(text(a.Labels), text(b.Labels)) })
	for _, a := range got {
		diff = append(diff, "+ "+text(a.Labels))
		diff = append(diff, diffTexts(nil, a.Annotations)...)
	}
	return diff
}

// diffTexts are the annotations that differ, by name.
func diffTexts(want, got map[string]string) (diff []string) {
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		w, wanted := want[k]
		g, there := got[k]
		if wanted && there && w == g {
			continue
		}
		if wanted {
			diff = append(diff, fmt.Sprintf("-   %s: %q", k, w))
		}
		if there {
			diff = append(diff, fmt.Sprintf("+   %s: %q", k, g))
		}
	}
	return diff
}

func text(kv map[string]string) string { return labels.FromMap(kv).String() }

// A sample is a value with the text of its labels.
type sample struct {
	labels string
	value  float64
}

func (s sample) String() string { return s.labels + " " + strconv.FormatFloat(s.value, 'g', -1, 64) }

// diffExpr is how the result of an expression differs from what want says. Nil: not at all.
func (s *store) diffExpr(ctx context.Context, want *exprTest, fuzzy bool) (diff []string, err error) {
	vec, err := s.query(ctx, want.Expr, s.start.Add(time.Duration(want.EvalTime)))
	if err != nil {
		return nil, err
	}
	var got []sample
	for _, v := range vec {
		if v.H != nil {
			return nil, errors.New("the result has histograms; llmtap counts none")
		}
		got = append(got, sample{v.Metric.String(), v.F})
	}
	slices.SortFunc(got, func(a, b sample) int { return cmp.Compare(a.labels, b.labels) })
	for _, w := range want.ExpSamples {
		if w.Histogram != "" {
			return nil, errors.New("histogram: llmtap counts none")
		}
		lset, err := newParser().ParseMetric(w.Labels)
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

// equal compares as promtool does: fuzzy takes the next float for the same.
func equal(a, b float64, fuzzy bool) bool {
	return a == b || fuzzy && (math.Nextafter(a, math.Inf(-1)) == b || math.Nextafter(a, math.Inf(1)) == b)
}
