package facts

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// requestSeeds are bodies that are difficult for a scanner.
var requestSeeds = []string{
	`{"prompt_cache_key":"k\u0031","prompt_cache_options":{"mode":"explicit","ttl":"30m"},"messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"r","prompt_cache_breakpoint":{"mode":"explicit"}}],"cache_control":{}}],"tools":[{"type":"function","function":{"name":"f"},"cache_control":{}}]}`,
	`{}`,
	`{"messages":[]}`,
	` { "messages" : [ { "role" : "user" , "content" : "q" } ] , "model" : "m" } `,
	`{"model":"gpt-4o","stream":true,"max_tokens":12,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
	`{"messages":[{"content":"\u003cb\u003e \ud83d\ude00 \/ \ud800","role":"assistant"},{"content":"","role":"assistant"}]}`,
	`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\\u00e9\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"ok"}]}`,
	`{"messages":[{"role":"assistant","tool_calls":[{"id":"a\u005fb","index":0,"function":{"name":"f\"g","arguments":{}}},{"id":7,"type":null,"function":null,"x":1},3,null]}]}`,
	`{"messages":[{"role":"assistant","tool_calls":[],"tool_calls":[{"id":"a","id":"b","function":{"name":"x","arguments":"1"},"function":{"arguments":""}}]}]}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}},{"type":"input_audio"},{"type":"file"},{"type":"refusal"},{"type":"video"},{"type":1},"s",null]}]}`,
	`{"messages":[{"r\u006fle":"us\u0065r","conten\u0074":{"a":[1,{"b":"}"}]}},null,"x",[1],{}]}`,
	`{"messages":{"role":"user"},"tools":{},"tool_choice":"auto","stream":"true","model":4,"max_tokens":"9"}`,
	`{"messages":[{"role":"x"}],"messages":[{"role":"tool","tool_call_id":null,"content":1.5e3,"name":"n"}],"model":"\u006d"}`,
	`{"tools":[{"type":"function","function":{"name":"a"}},{}],"tool_choice":{"type":"function","function":{"name":"fo\u0072ced"}},"max_completion_tokens":-1,"max_tokens":3}`,
	`{"tools":[],"tool_choice":{"function":{"name":"a"},"function":3},"max_tokens":1e3}`,
	`{"messages":[{"role":"assistant","content":"a","reasoning":null,"reasoning_content":"","reasoning_details":[{"x":"\\\""}],"extra":1,"extra":2}]}`,
	`{"messages":[{"role":"tool","tool_name":"f","name":null,"content":[{"type":"text","text":""},{"type":"text","text":"~0:0123456789abcdef"},{"type":"document"}]}]}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"\u0062","type":"text"},{"type":"thinking","thinking":[]}],"role":"assistant","thinking":"x","images":null}]}`,
	`{"messages":[{"role":"assistant","content":"~12:0123456789abcdef","prefix":false,"partial":true,"odd":null,"name":false,"tool_plan":"p"}]}`,
	`{"messages":[{"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"c","input":"{"}},{"type":"function","function":{"name":"f","arguments":"{}","index":0},"extra_content":{"google":{"thought_signature":"s"}}}]}]}`,
	`{"tools":[{"type":"custom","custom":{"name":"c"}},7],"tool_choice":{"custom":{"name":"c"}},"parallel_tool_calls":false,"functions":[],"function_call":null,"thinking":{"type":"enabled"},"enable_thinking":false,"think":"high"}`,
	`{"messages":[{"tool_calls":[{"":{"arguments":{}}}],"":null}]}`,
	`{"a\\":"\\","b":"\\\"","messages":[{"role":"assistant","content":"\\\\\"\\"}],"c":[[[[{"d":[true,false,null]}]]]]}`,
}

// argsSeeds are arguments, unescaped.
var argsSeeds = []string{
	``, ` `, "\n\t\r ", `{}`, ` { } `, `[]`, `[[],[{}]]`, `"s"`, `1`, `-0.5e+10`, `true`, `null`,
	`{"path":"/a/b","n":-1.5e3,"x":[true,false,null,{"k":"v\n\"q\" \\ \u00e9 \/"}]}`, "{\n\t\"a\": 1\n}",
	`{"a":"中文 😀"}`, `{'a':1}`, `{"a":NaN}`, `{"a":1,}`, `{"a":1`, `{"a`, `{"a":"\u00`, `{"a":"\`, `[1,`, `tru`, `-`, `1.`, `1e`,
	`{}{}`, `{"a":1}{"b":2} `, `{} {`, `1 2`, `01`, `truefalse`, `"a""b"`, `{}x`, `{"a":"\x"}`, "{\"a\":\"\n\"}", `{"a" 1}`, `{1:2}`, `[}`,
	`{]`, `{"a":1]`, `[1}`, `{"a":.5}`, `+1`, `1.5.5`, `nul`, `nulL`, `{"a":}`, `[,]`, "\u00a0{}", "\ufeff{}",
	`~12:0123456789abcdef:bad`, `~12:0123456789abcdef:multi`, `~0:0123456789abcdef:bad`, `<tool_call>{}</tool_call>`,
}

// Mutation characters: those with a meaning in JSON.
const meaningful = "{}[]\",:\\n1 u/-te.~"

// mutate changes a few bytes of seed.
func mutate(r *rand.Rand, seed string) []byte {
	b := []byte(seed)
	for range r.IntN(4) {
		if len(b) == 0 {
			break
		}
		c, at := meaningful[r.IntN(len(meaningful))], r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b[at] = c
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			b = append(b[:at], append([]byte{c}, b[at:]...)...)
		case 3: // move a part
			end := at + r.IntN(len(b)-at)
			piece := string(b[at:end])
			to := r.IntN(len(b))
			b = append(b[:to], append([]byte(piece), b[to:]...)...)
		}
	}
	return b
}

// An exchange is one recorded call.
type exchange struct {
	ID, API, URL string
	Status       int
	Stream       bool
	Request      json.RawMessage
	Response     json.RawMessage
	Encoding     string `json:"response_encoding"`
}

// body returns the recorded answer as it was on the wire: JSON, or the text of a string, which may be a stream.
func (e *exchange) body(tb testing.TB) []byte {
	tb.Helper()
	if !bytes.HasPrefix(e.Response, []byte(`"`)) {
		return e.Response
	}
	text := must.JSON[string](tb, e.Response)
	return []byte(text)
}
