package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// One step of a large fleet with calls every second: 500 stages in two versions, a tenth of them with failures, and 2,500 stages
// of which 1,000 fire, with 10,000 series.
func BenchmarkStep(b *testing.B) {
	b.Run("1100 series", func(b *testing.B) { benchmarkStep(b, 50, 10, 10) })
	b.Run("10000 series", func(b *testing.B) { benchmarkStep(b, 100, 40, 4) })
}

// benchmarkStep measures steps with calls of all stages of all services, in two versions. Every n-th series of calls has failures.
func benchmarkStep(b *testing.B, services, stages, n int) {
	cfg := Default()
	e := must.Get(New(b.Context(), cfg, Options{}))(b)
	defer e.Close()
	var counts []analyzer.Count
	m := new(analyzer.Measured)
	for i := range uint64(10) {
		m.Duration.Add(1000 + 300*i)
		m.FirstToken.Add(400 + 30*i)
		m.InputTokens.Add(2000 + 500*i)
		m.OutputTokens.Add(100 + 40*i)
		m.Cost.Add(4000 + 900*i)
	}
	for i := range 2 * services * stages {
		kv := map[string]string{
			"service": fmt.Sprint("svc-", i/(2*stages)), "environment": "prod", "stage": fmt.Sprint("stage-", i/2%stages), "service_version": fmt.Sprint(i % 2),
			"agent": "a", "provider": "openai", "model": "m",
		}
		counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 10, Measured: m})
		if i%n == 0 {
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400", "cause", "orphan_tool_reply"), N: 5})
		}
	}
	second := time.Now().Unix() - 3600
	step := func() {
		for range int64(cfg.EvaluationInterval / time.Second) {
			must.Do(b, e.Add(b.Context(), &analyzer.Tally{Second: second, Counts: counts}))
			second++
		}
	}
	for range 610 / int64(cfg.EvaluationInterval/time.Second) { // the window is full
		step()
	}
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(len(e.samples.series)), "series")
	b.ReportMetric(float64(len(e.Active())), "firing")
}

// BenchmarkCompareVersions compares two versions of a busy service.
func BenchmarkCompareVersions(b *testing.B) {
	v := newVersions()
	s := newSamples(Default(), time.Hour, v, newMetrics(nil))
	const start = 1_000_000
	for second := int64(start - 1800); second < start+1800; second++ {
		var counts []analyzer.Count
		for i := range 20 {
			version := "1"
			if second >= start && i%2 == 1 {
				version = "2"
			}
			kv := with(planner(version), "model", fmt.Sprint(i))
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 20})
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "cause", "auth"), N: 1})
		}
		must.Do(b, s.apply(second+1, []tally{{Tally: &analyzer.Tally{Second: second, Counts: counts}}}, nil))
	}
	for b.Loop() {
		s.comparedAt = 0
		s.compareVersions(start + 1800)
	}
}
