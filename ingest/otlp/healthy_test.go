package otlp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// 1,000 healthy calls yield no finding, whatever an instrumentation drops: messages, calls, replies, ids, finish reasons, or
// the end of a text.
func TestHealthyCallsYieldNoFinding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mapper := NewMapper(Config{Capture: event.CaptureFull})
	providers := []string{"openai", "anthropic", "gcp.gemini", "aws.bedrock", "cohere", "deepseek", "mistral_ai", "acme"}
	var events []*event.Event
	for i := range 1000 {
		a := maps.Clone([]m{current, openLLMetry, openInference, vercel}[i%4])
		a["gen_ai.conversation.id"] = fmt.Sprint("c", i/10)
		for _, k := range slices.Sorted(maps.Keys(a)) {
			s, isText := a[k].(string)
			switch message := strings.Contains(k, "message") || strings.Contains(k, "prompt.") || strings.Contains(k, "completion."); {
			case k == "gen_ai.system" || k == "gen_ai.provider.name":
				a[k] = providers[rng.IntN(len(providers))]
			case message && rng.IntN(4) == 0:
				delete(a, k)
			case message && isText && rng.IntN(4) == 0:
				a[k] = s[:rng.IntN(len(s)+1)]
			case (strings.Contains(k, "finish") || strings.Contains(k, "response.id")) && rng.IntN(3) == 0:
				delete(a, k)
			}
		}
		td := payload(t, testSpan{id: 2, name: "chat", attrs: a})
		s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		s.SetTraceID(pcommon.TraceID{0: 1, 14: byte(i >> 8), 15: byte(i)})
		r := mapper.Traces(td)
		if len(r.Events) != 2 {
			t.Fatalf("call %d: %+v", i, r)
		}
		events = append(events, r.Events...)
	}
	out := analyze(t, events...)
	if len(out.Exchanges) != 1000 || len(out.Findings) > 0 || len(out.ToolCalls) > 0 {
		t.Errorf("%d exchanges, %d tool calls, findings: %+v", len(out.Exchanges), len(out.ToolCalls), out.Findings)
	}
	for _, x := range out.Exchanges {
		if x.Failed || x.InputTokens != 120 || x.OutputTokens != 7 || x.Conversation == "" {
			t.Fatalf("%s %s", x.Conversation, summary(&x))
		}
	}
}
