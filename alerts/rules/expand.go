package rules

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// finite replaces values that JSON cannot represent: NaN by 0, and an infinite value, such as a ratio with a zero
// denominator, by the largest number.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}

// expand returns the instances for the samples of the expression's result.
func (r *Rule) expand(ctx context.Context, ts time.Time, vec promql.Vector, query template.QueryFunc) []*Instance {
	if len(vec) == 0 {
		return nil
	}
	e := &expansion{ctx: ctx, rule: r, ts: ts, query: query}
	texts := func(all map[string]string) (names []string) {
		for name, text := range all {
			if strings.Contains(text, "{{") {
				names, e.texts = append(names, name), append(e.texts, text)
			}
		}
		return names
	}
	labels, annotations := texts(r.labels), texts(r.annotations)
	list := make([]*Instance, len(vec))
	for i, s := range vec {
		inst := &Instance{Rule: r, series: s.Metric.Map(), Value: finite(s.F), ActiveAt: ts}
		delete(inst.series, model.MetricNameLabel)
		list[i] = inst
		e.data = append(e.data, template.AlertTemplateData(inst.series, r.external.Labels, r.external.URL, s))
	}
	expanded := e.all()
	for i, inst := range list {
		inst.Labels, inst.Annotations = maps.Clone(inst.series), make(map[string]string, len(r.annotations))
		maps.Copy(inst.Labels, r.labels)
		maps.Copy(inst.Annotations, r.annotations)
		for j, name := range labels {
			inst.Labels[name] = expanded[i][j]
		}
		for name := range r.labels {
			if inst.Labels[name] == "" {
				delete(inst.Labels, name)
			}
		}
		for j, name := range annotations {
			inst.Annotations[name] = expanded[i][len(labels)+j]
		}
	}
	return list
}

// An expansion expands templates of a rule, as Prometheus does.
type expansion struct {
	ctx   context.Context //nolint:containedctx // of one evaluation
	rule  *Rule
	ts    time.Time
	query template.QueryFunc
	texts []string
	data  []any // of each sample
}

// variables declares the variables of a template.
const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"

// all returns the expanded texts for each sample.
func (e *expansion) all() [][]string {
	if out := e.together(); out != nil {
		return out
	}
	return e.each()
}

// together expands all texts for all samples in one template, because parsing a template takes much longer than executing
// it, and a rule may fire for a thousand series. It returns nil if a text fails, requires a template of its own, or contains
// the separator.
func (e *expansion) together() [][]string {
	const separator = "\x00"
	var b strings.Builder
	b.WriteString("{{range .}}" + variables)
	for _, t := range e.texts { // t cannot end the block around it, because Load has parsed it on its own
		b.WriteString("{{if true}}" + t + "{{end}}" + separator)
	}
	b.WriteString("{{end}}")
	text, err := e.execute(b.String(), e.data)
	parts := strings.Split(text, separator)
	if n := len(e.texts); err == nil && len(parts) == len(e.data)*n+1 {
		out := make([][]string, len(e.data))
		for i := range out {
			out[i] = parts[i*n : (i+1)*n]
		}
		return out
	}
	return nil
}

// each expands each text for each sample.
func (e *expansion) each() [][]string {
	out := make([][]string, len(e.data))
	for i, data := range e.data {
		for _, t := range e.texts {
			text, err := e.execute(variables+t, data)
			if err != nil {
				text = fmt.Sprintf("<error expanding template: %v>", err)
			}
			out[i] = append(out[i], text)
		}
	}
	return out
}

func (e *expansion) execute(text string, data any) (string, error) {
	return template.NewTemplateExpander(e.ctx, text, "alert "+e.rule.Name, data, model.TimeFromUnixNano(e.ts.UnixNano()), e.query, nil, nil).Expand()
}
