package otlp

import (
	"os"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkTraces decodes and maps payloads of a real instrumentation, with messages and one span of another kind per LLM
// call or two.
func BenchmarkTraces(b *testing.B) {
	text := must.Get(os.ReadFile("testdata/traceloop.json"))(b)
	td := must.Get((&ptrace.JSONUnmarshaler{}).UnmarshalTraces(text))(b)
	body := must.Get(ptraceotlp.NewExportRequestFromTraces(td).MarshalProto())(b)
	mapper, calls := NewMapper(defaultConfig()), 0
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		td := must.Get(decode(body, mediaProto, (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces, nil))(b)
		calls += len(mapper.Traces(td).Events) / 2
	}
	b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "calls/s")
}
