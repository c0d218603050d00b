package otlp

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Any payload that can be decoded becomes pairs of events that can be encoded and decoded, in every capture mode, and an
// analyzer reports no finding about them.
func FuzzMapper(f *testing.F) {
	for _, a := range []m{current, openLLMetry, openInference, vercel} {
		q := ptraceotlp.NewExportRequestFromTraces(payload(f, testSpan{id: 2, parent: 1, name: "chat", attrs: a, failed: python400}, testSpan{id: 1, attrs: a}))
		b := must.Get(q.MarshalJSON())(f)
		f.Add(b)
	}
	f.Add([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","eventName":"gen_ai.client.inference.operation.details"}]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		traces, logs := ptraceotlp.NewExportRequest(), plogotlp.NewExportRequest()
		inJSON, inLogs := traces.UnmarshalJSON(body) == nil, logs.UnmarshalJSON(body) == nil
		for _, capture := range []string{event.CaptureShape, event.CaptureFull, event.CaptureNone} {
			mapper := NewMapper(Config{Capture: capture})
			var events []*event.Event
			if inJSON {
				events = append(events, mapper.Traces(traces.Traces()).Events...)
			}
			if inLogs {
				events = append(events, mapper.Logs(logs.Logs()).Events...)
			}
			if len(events)%2 != 0 {
				t.Fatalf("%d events", len(events))
			}
			for _, x := range analyze(t, events...).Findings {
				t.Errorf("%s: %s", x.Rule, x.Summary)
			}
		}
	})
}
