package rules

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Compaction that keeps the result of a server tool and drops its call is refused. A call anywhere before may be the result's.
func TestServerToolResult(t *testing.T) {
	const (
		use    = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`
		result = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`
		text   = `{"type":"text","text":"a"}`
	)
	f := func(want int, messages string) {
		t.Helper()
		var q facts.Request
		must.Do(t, facts.ScanRequest(wire.Anthropic, []byte(`{"model":"claude-opus-4-8","messages":[`+messages+`]}`), &q))
		n := 0
		for _, v := range check.NewChecker(InOrder).Check(&q, wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI}, nil) {
			if v.Rule == OrphanToolReply && v.Detail == "server_tool" && v.Predicted == check.Reject {
				n++
			}
		}
		must.Equal(t, n, want, "findings: %s", messages)
	}
	user, said := `{"role":"user","content":"q"}`, func(blocks string) string { return `,{"role":"assistant","content":[` + blocks + `]},` }
	f(0, user+said(use+","+result+","+text)+user)
	f(0, user+said(use)+user+said(result+","+text)+user)
	f(1, user+said(result+","+text)+user)
	f(1, user+said(result+","+text)+user+said(use+","+result)+user)
	f(1, user+said(result+","+use)+user)
	f(0, user+said(`{"type":"compaction","content":"s"},`+result)+user)
}

// Whether Gemini refuses a toolResponse without its toolCall is unknown.
func TestGeminiServerToolResult(t *testing.T) {
	f := func(want int, parts string) {
		t.Helper()
		var q facts.Request
		body := `{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[` + parts + `]},{"role":"user","parts":[{"text":"q"}]}]}`
		must.Do(t, facts.ScanRequest(wire.Gemini, []byte(body), &q))
		n := 0
		for _, v := range check.NewChecker(InOrder).Check(&q, wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI}, nil) {
			if v.Rule == OrphanToolReply && v.Detail == "server_tool" && v.Predicted == check.Lenient {
				n++
			}
		}
		must.Equal(t, n, want, "findings: %s", parts)
	}
	f(0, `{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"a"}},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","id":"a"}},{"text":"a"}`)
	f(1, `{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","id":"a"}},{"text":"a"}`)
}
