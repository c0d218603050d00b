package repair

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// What providers refuse since 2026 is repaired if nothing must be made up.
func TestProviders(t *testing.T) {
	f := func(target wire.Target, body, want string, lost ...string) {
		t.Helper()
		r := must.Get(Repair(target, []byte(body), Options{Lenient: target.Dialect == wire.Gemini}))(t)
		if string(r.Body) != want || strings.Join(r.Lost(), "; ") != strings.Join(lost, "; ") || len(r.Left) > 0 {
			t.Errorf("%s: %s, lost %q, left %v", body, r.Body, r.Lost(), r.Left)
		}
	}
	claude := wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI}
	bedrock := wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI, Model: "anthropic.claude-opus-4-8"}
	responses := wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI}
	f(claude, `{"model":"claude-opus-4-8","messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"}]},{"role":"user","content":"q"}]}`,
		`{"model":"claude-opus-4-8","messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":"q"}]}`,
		"the thinking of message 1")
	f(bedrock, `{"messages":[{"role":"user","content":[{"text":"q"}]},{"role":"assistant","content":[{"text":"a"},{"reasoningContent":{"reasoningText":{"text":"t","signature":null}}}]},{"role":"user","content":[{"text":"q"}]}]}`,
		`{"messages":[{"role":"user","content":[{"text":"q"}]},{"role":"assistant","content":[{"text":"a"}]},{"role":"user","content":[{"text":"q"}]}]}`,
		"the thinking of message 1")
	f(claude, `{"model":"claude-opus-4-8","messages":[{"role":"user","content":"q"},{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
		`{"model":"claude-opus-4-8","messages":[{"role":"user","content":"q"},{"role":"user","content":"s"},{"role":"user","content":"q"}]}`)
	f(claude, `{"model":"claude-opus-4-7","messages":[{"role":"user","content":"q"},{"role":"system","content":"s"}]}`,
		`{"model":"claude-opus-4-7","messages":[{"role":"user","content":"q"},{"role":"user","content":"s"}]}`)
	gemini := wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI}
	f(gemini, `{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"toolCall":{"id":"a"}},{"toolResponse":{"id":"a"}},{"toolResponse":{"id":"b"}},{"text":"t"}]},{"role":"user","parts":[{"text":"q"}]}]}`,
		`{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"toolCall":{"id":"a"}},{"toolResponse":{"id":"a"}},{"text":"t"}]},{"role":"user","parts":[{"text":"q"}]}]}`,
		"the toolResponse b in message 1")
	const call, output = `{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"`, `},{"type":"function_call_output","call_id":"c","output":"o"}]}`
	spaces := `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],"input":[`
	f(responses, spaces+call+output, spaces+call+`,"namespace":"n"`+output)
}
