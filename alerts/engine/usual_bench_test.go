package engine

import (
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
)

// BenchmarkUsual measures the minute of 100 stages that have learned eight days, with 60 calls each.
func BenchmarkUsual(b *testing.B) {
	const stages = 100
	u := newUsuals(Default(), newMetrics(nil))
	u.recorded = true
	m := new(analyzer.Measured)
	for i := range uint64(60) {
		m.Duration.Add(1000 + 300*i)
		m.FirstToken.Add(400 + 30*i)
		m.InputTokens.Add(2000 + 500*i)
		m.OutputTokens.Add(100 + 40*i)
		m.History.Add(i % 20)
		m.Cost.Add(700 + 90*i)
	}
	calls := make([]series, stages)
	for i := range calls {
		calls[i].labels = map[string]string{"service": fmt.Sprint(i)}
	}
	step := int64(1_790_000_000)
	minute := func(minutes int64) {
		u.begin(step)
		u.began = false // nothing is missing
		for i := range calls {
			u.count(&calls[i], &analyzer.Count{Metric: analyzer.MetricCalls, N: uint64(60 * minutes), Measured: m})
		}
		u.interval = 60 * minutes
		u.end(step)
		step += u.interval
	}
	for range 8 * 24 * 6 {
		minute(10)
	}
	for b.Loop() {
		minute(1)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(stages), "µs/stage")
}
