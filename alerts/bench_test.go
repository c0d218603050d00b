package alerts

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// One step of a large fleet: 500 stages in two versions, each with calls every second, a tenth with failures.
func BenchmarkStep(b *testing.B) {
	cfg := Default()
	cfg.TSDBDir = b.TempDir()
	e, err := New(b.Context(), cfg, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	var counts []analyzer.Count
	for i := range 1000 {
		kv := map[string]string{
			"service": fmt.Sprint("svc-", i/20), "environment": "prod", "stage": fmt.Sprint("stage-", i/2%10), "service_version": fmt.Sprint(i % 2),
			"agent": "a", "provider": "openai", "model": "m",
		}
		counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 10})
		if i%10 == 0 {
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400", "cause", "orphan_tool_reply"), N: 5})
		}
	}
	second := time.Now().Unix() - 3600
	step := func() {
		for range 5 {
			if err := e.Add(b.Context(), &analyzer.Tally{Second: second, Counts: counts}); err != nil {
				b.Fatal(err)
			}
			second++
		}
	}
	for range 130 { // the window is full
		step()
	}
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(len(e.samples.series)), "series")
	b.ReportMetric(float64(len(e.Active())), "firing")
}
