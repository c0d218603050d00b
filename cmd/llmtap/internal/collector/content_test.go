package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The storage mode of a body depends on its service; redaction covers the whole body.
func TestContentPolicy(t *testing.T) {
	t.Parallel()
	cfg := config.Default().Content
	cfg.Services = map[string]string{"shaped": "shape", "silent": "none"}
	cfg.RedactPatterns = []string{`EMP-\d{6}`}
	policy := must.Get(newContentPolicy(cfg, "key"))(t)
	request := `{"model":"gpt-5","messages":[{"role":"user","content":"I am EMP-123456, jane@example.com, of call_Ab3dEf6hIj9kLm2n"}],"user":"a@example.com"}`
	for service, want := range map[string]string{
		"other":  `{"model":"gpt-5","messages":[],"user":"***@***"}{"role":"user","content":"I am ***, ***@***, of call_Ab3dEf6hIj9kLm2n"}`,
		"silent": ``,
		"shaped": `{"role":"user","content":"~59:`,
	} {
		a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
		policy.apply(a)
		var out analyzer.Output
		now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
		a.Process(&event.Event{
			Kind: event.Request, Exchange: "0197a0b0-0000-7000-8000-000000000001", Time: now, Capture: event.CaptureFull, Origin: event.OriginHook, Part: 1, Parts: 1,
			URL: "https://api.openai.com/v1/chat/completions", Method: "POST", Instance: "i", Seq: 1, Labels: event.Labels{Service: service, Conversation: "c"}, Body: []byte(request), BodyBytes: len(request),
		}, analyzer.Position{Seq: 1, Time: now}, true, &out)
		a.AdvanceTo(now.Add(time.Minute), true, &out)
		got := ""
		for _, c := range out.Contents {
			got += c.Body
		}
		if service == "shaped" && (strings.Contains(got, "example.com") || !strings.Contains(got, want)) || service != "shaped" && got != want {
			t.Errorf("%s: %s\nwant %s", service, got, want)
		}
	}
}
