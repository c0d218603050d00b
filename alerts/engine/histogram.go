package engine

import (
	"errors"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
)

// histograms are the measures of calls that PromQL can query, with their unit in that of the samples.
var histograms = [...]struct {
	metric string
	unit   float64
	of     func(m *analyzer.Measured) *dist.Dist
}{
	{rules.MetricDuration, 1000, func(m *analyzer.Measured) *dist.Dist { return &m.Duration }},
	{rules.MetricFirstToken, 1000, func(m *analyzer.Measured) *dist.Dist { return &m.FirstToken }},
	{rules.MetricInputTokens, 1, func(m *analyzer.Measured) *dist.Dist { return &m.InputTokens }},
	{rules.MetricOutputTokens, 1, func(m *analyzer.Measured) *dist.Dist { return &m.OutputTokens }},
	{rules.MetricCallCost, 1e6, func(m *analyzer.Measured) *dist.Dist { return &m.Cost }},
}

// A histogramMinute is what a stage has of a measure in a minute.
type histogramMinute struct {
	stage  stageKey
	of     *stage
	metric int // index of histograms
	at     time.Time
	values dist.Dist
}

// appendTo appends the histograms of the minutes that end. One that had values before has a sample of each minute.
func (s *stage) appendTo(out []histogramMinute, k stageKey, open int64, minutes int) []histogramMinute {
	for i := range histograms {
		d := histograms[i].of(&s.measured)
		if d.N > 0 || s.histograms[i] != 0 && open-s.seen < histogramIdle {
			out = append(out, histogramMinute{k, s, i, time.Unix(60*(open+int64(minutes)), 0), d.Clone()})
		}
	}
	return out
}

// histogramIdle is the number of minutes without calls after which a histogram has no more samples.
const histogramIdle = 60

// appendHistograms appends the minutes that have ended.
func (s *samples) appendHistograms() error {
	if s.usuals == nil {
		return nil
	}
	var errs []error
	for i := range s.usuals.histograms {
		x := &s.usuals.histograms[i]
		h := &histograms[x.metric]
		b := labels.NewBuilder(labels.EmptyLabels()).Set(model.MetricNameLabel, h.metric) // which omits empty labels
		lset := b.Set("service", x.stage.service).Set("environment", x.stage.environment).Set("stage", x.stage.stage).Labels()
		ref, err := s.AppendHistogram(x.of.histograms[x.metric], lset, x.at, time.Minute, &x.values, h.unit)
		x.of.histograms[x.metric] = ref
		errs = append(errs, err)
	}
	s.usuals.histograms = s.usuals.histograms[:0]
	return errors.Join(errs...)
}
