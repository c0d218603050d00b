package load

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkAnalyzeFleet measures an analyzer, as llmtap up configures it, for the calls of a fleet; bytes are those of the bodies. Prompts
// of different agents, histories that grow, failures and retries occur together only here.
func BenchmarkAnalyzeFleet(b *testing.B) {
	f := NewFleet(FleetConfig{Seed: 1, Shape: Mix, Services: 20, Environment: "bench"})
	f.Agents(200)
	var all []*event.Event
	bytes := int64(0)
	for bytes < 100e6 {
		_, events := f.Next()
		for _, e := range events {
			bytes += int64(len(e.Body))
		}
		all = append(all, events...)
	}
	redactor := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(b)
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		a := analyzer.New(analyzer.Default(), rules.InOrder, nil)
		a.KeepContents(func(string) bool { return true }, content.NewRedactor(redactor).Append)
		var out analyzer.Output
		for i, e := range all {
			a.Process(e, analyzer.Position{Seq: uint64(i + 1), Time: e.Time}, true, &out)
			if len(out.Exchanges) >= 500 {
				out.Reset()
			}
		}
	}
	b.ReportMetric(float64(len(all)), "events")
}
