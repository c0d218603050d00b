package otlp

import (
	"os"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// BenchmarkTraces decodes and maps payloads of a real instrumentation, with messages and one span of another kind per LLM
// call or two.
func BenchmarkTraces(b *testing.B) {
	text, err := os.ReadFile("testdata/traceloop.json")
	if err != nil {
		b.Fatal(err)
	}
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(text)
	if err != nil {
		b.Fatal(err)
	}
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		b.Fatal(err)
	}
	mapper, calls := NewMapper(Default()), 0
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		q := ptraceotlp.NewExportRequest()
		if err := unmarshal(body, mediaProto, q.UnmarshalProto, q.UnmarshalJSON); err != nil {
			b.Fatal(err)
		}
		calls += len(mapper.Traces(q.Traces()).Events) / 2
	}
	b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "calls/s")
}
