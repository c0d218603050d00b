package otlp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The spans of real instrumentations, six healthy calls and one that was refused each, yield rows with tokens and no
// finding. cmd/llmtap/internal/oteltest records them.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b := must.Get(os.ReadFile(file))(t)
		td := must.Get((&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b))(t)
		// Two of the instrumentations never end the span of a failed call, and do not report the tokens of streams.
		partial := strings.Contains(file, "node-traceloop") || strings.Contains(file, "node-openinference")
		for _, capture := range []string{event.CaptureShape, event.CaptureFull, event.CaptureNone} {
			out := analyze(t, NewMapper(Config{Capture: capture}).Traces(td).Events...)
			failed, counted := 0, 0
			for _, x := range out.Exchanges {
				switch {
				case x.Failed && (x.Status != 400 || x.Cause != "orphan_tool_reply" || !strings.Contains(x.ErrorText, "tool_calls")):
					t.Errorf("%s: %s: %s", file, summary(&x), x.ErrorText)
				case x.Failed:
					failed++
				case x.InputTokens > 0 && x.OutputTokens > 0:
					counted++
				}
				if x.Provider != "openai" || x.Model != "gpt-4.1" || !strings.HasPrefix(x.Conversation, "conversation-") || x.Duration <= 0 || x.Labels.Agent != "planner" {
					t.Errorf("%s: %s %+v", file, summary(&x), x.Labels)
				}
			}
			if len(out.Findings) > 0 || !partial && (failed != 1 || counted != 6) || partial && (failed != 0 || counted < 2 || len(out.Exchanges) != 6) {
				t.Errorf("%s: %d exchanges, %d failed, %d with tokens, findings: %+v", file, len(out.Exchanges), failed, counted, out.Findings)
			}
		}
	}
}
