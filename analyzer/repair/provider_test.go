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

// Steps of Gemini's Interactions API: a thought comes back with the call that needs its signature.
func TestInteractions(t *testing.T) {
	target := wire.Target{Dialect: wire.Interactions, Variant: wire.GeminiAPI}
	f := func(o Options, body, want, lost string) {
		t.Helper()
		r := must.Get(Repair(target, []byte(body), o))(t)
		if string(r.Body) != want || strings.Join(r.Lost(), "; ") != lost || len(r.Left) > 0 {
			t.Errorf("%s: %s, lost %q, left %v", body, r.Body, r.Lost(), r.Left)
		}
	}
	const (
		start   = `{"model":"gemini-3.6-flash","input":[{"type":"user_input","content":[{"type":"text","text":"q"}]}`
		thought = `{"type":"thought","signature":"AA=="}`
		call    = `{"type":"function_call","id":"c","name":"f","arguments":{}}`
		second  = `{"type":"function_call","id":"d","name":"f","arguments":{}}`
		reply   = `,{"type":"function_result","call_id":"c","name":"f","result":"r"}`
		replies = reply + `,{"type":"function_result","call_id":"d","name":"f","result":"r"}]}`
	)
	one, two := Options{Answers: [][]byte{[]byte(thought), []byte(call)}}, Options{Answers: [][]byte{[]byte(thought), []byte(call), []byte(second)}}
	f(one, start+reply+`]}`, start+`,`+thought+`,`+call+reply+`]}`, "")
	f(one, start+`,`+call+reply+`]}`, start+`,`+thought+`,`+call+reply+`]}`, "")
	f(two, start+`,`+call+`,`+second+replies, start+`,`+thought+`,`+call+`,`+second+replies, "")
	named := func(call, reply string) string {
		return strings.ReplaceAll(start, "3.6", "2.5") + `,{"type":"function_call",` + call + `,"name":"f","arguments":{}},{"type":"function_result",` + reply + `,"name":"f","result":"r"}]}`
	}
	moved := strings.NewReplacer(`"id":"c",`, "", `"call_id":"c",`, "", `"arguments":{}}`, `"arguments":{},"id":"c"}`, `"result":"r"}`, `"result":"r","call_id":"c"}`).Replace(named(`"id":"c"`, `"call_id":"c"`))
	f(Options{}, named(`"call_id":"c"`, `"id":"c"`), moved, "")
	f(Options{}, named(`"id":"c","call_id":"c"`, `"call_id":"c"`), named(`"id":"c"`, `"call_id":"c"`), "")
	f(Options{}, named(`"id":"c","call_id":"d"`, `"call_id":"c","id":"r"`), named(`"id":"c"`, `"call_id":"c"`), "call_id of message 1; id of message 2")
	result := `,{"type":"google_search_result","call_id":"s"},{"type":"model_output","content":[{"type":"text","text":"a"}]},{"type":"user_input","content":[]}]}`
	f(Options{Lenient: true}, start+result, start+strings.TrimPrefix(result, `,{"type":"google_search_result","call_id":"s"}`), "the result in step 1")

	r := must.Get(Repair(target, []byte(start+`,`+call+reply+`]}`), Options{}))(t)
	must.Equal(t, len(r.Left), 1, "without the answer")
}
