package facts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestCache(t *testing.T) {
	f := func(d wire.Dialect, body string, want Cache) {
		t.Helper()
		var c memoScan
		for range 2 { // the second scan knows the first
			c.scan(t, d, []byte(body))
			must.Agree(t, cmp.Diff(want, *c.after.Cache(), cmpopts.IgnoreUnexported(Cache{}), cmpopts.EquateEmpty()), body)
		}
		must.Equal(t, c.after.Cache().Marked(), (len(want.Marks) > 0 || want.Automatic), "%s: Marked()", body)
	}
	marks := func(m ...Mark) Cache { return Cache{Marks: m} }
	f(wire.Anthropic, `{"tools":[{"name":"f","input_schema":{"cache_control":{}}},{"name":"g","cache_control":{"type":"ephemeral","ttl":"1h"}}],
		"system":[{"type":"text","text":"s"},{"type":"text","text":"t","cache_control":{"ttl":"5m","type":"ephemeral"}}],
		"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r","cache_control":{}}]},{"cache_control":{"type":"ephemeral"},"type":"text","text":"x"}]}]}`,
		marks(Mark{InTools, 1, 0, true}, Mark{InSystem, 1, 0, false}, Mark{InMessages, 2, 1, false}))
	f(wire.Anthropic, `{"cache_control":{"type":"ephemeral","ttl":"1h"},"messages":[]}`, Cache{Automatic: true, AutomaticHour: true})
	f(wire.Anthropic, `{"cache_control":null,"system":[{"cache_control":null}],"messages":[{"content":[{"type":"text","cache_control":null}]}],"tools":[{"cache_control":null}]}`, Cache{})
	// The last of several values applies.
	f(wire.Anthropic, `{"messages":[{"content":[{"type":"text","cache_control":{}}]}],"system":[{"cache_control":{}}],"tools":[{"cache_control":{}}],
		"messages":[{"content":[{"type":"text","cache_control":{}}],"content":[{"type":"text"},{"type":"text","cache_control":{}}]}],"system":"s","tools":[]}`, marks(Mark{InMessages, 0, 1, false}))
	// Gateways to Anthropic, Qwen, GPT-5.6.
	f(wire.OpenAIChat, `{"messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","prompt_cache_breakpoint":{"mode":"explicit"}}]},
		{"role":"tool","tool_call_id":"c","content":"r","cache_control":{"type":"ephemeral"}}],
		"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]}`,
		marks(Mark{InMessages, 0, 0, true}, Mark{InMessages, 1, 1, false}, Mark{InMessages, 2, 0, false}, Mark{InTools, 0, 0, false}))
	f(wire.OpenAIChat, `{"prompt_cache_key":"k\u0031","prompt_cache_retention":"24h","messages":[]}`, Cache{Key: []byte("k1"), Retention: []byte("24h")})
	f(wire.OpenAIChat, `{"prompt_cache_key":null,"prompt_cache_options":{"mode":"explicit","ttl":"30m"},"messages":[]}`, Cache{OnlyMarks: true, Retention: []byte("30m")})
	f(wire.OpenAIChat, `{"prompt_cache_options":{"mode":"implicit"},"messages":[{"content":[{"type":"text","cache_control":true}],"cache_control":null}]}`, Cache{})
	f(wire.OpenAIResponses, `{"prompt_cache_key":"k","prompt_cache_options":null,"input":[{"role":"developer","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}]},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"},{"type":"input_text","prompt_cache_breakpoint":{}}]}]}`,
		Cache{Key: []byte("k"), Marks: []Mark{{InMessages, 0, 0, false}, {InMessages, 1, 1, false}}})
	f(wire.Bedrock, `{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"toolSpec":{"name":"g"}},{"cachePoint":{"type":"default","ttl":"1h"}}]},
		"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],
		"messages":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}]},{"role":"user","content":[{"text":"q"},{"cachePoint":null}]}]}`,
		marks(Mark{InTools, 1, 0, true}, Mark{InSystem, 1, 0, false}, Mark{InMessages, 0, 1, false}))
	f(wire.Gemini, `{"cachedContent":"cachedContents/x","contents":[]}`, Cache{Content: []byte("cachedContents/x")})
}

func TestBlocksTo(t *testing.T) {
	f := func(d wire.Dialect, messages string, want ...int) {
		t.Helper()
		var r Request
		must.Do(t, ScanRequest(d, []byte(`{"messages":[`+messages+`]}`), &r))
		var got []int
		for _, m := range r.Cache().Marks {
			got = append(got, r.BlocksTo(m))
		}
		must.Agree(t, cmp.Diff(want, got), messages)
	}
	f(wire.Anthropic, `{"content":"a"},{"content":[]},{"content":[{},{},{"cache_control":{}}]},{"content":[{"cache_control":{}}]}`, 5, 6)
	f(wire.Bedrock, `{"content":[{"text":"a"},{"cachePoint":{}}]},{"content":[{"text":"a"},{"text":"b"},{"cachePoint":{}}]}`, 1, 3)
}

func TestEachTool(t *testing.T) {
	f := func(d wire.Dialect, body string, names ...string) {
		t.Helper()
		var c memoScan
		for range 2 {
			c.scan(t, d, []byte(body))
			var got []string
			for _, p := range c.after.Setup().Each {
				got = append(got, ToolName(p.Of([]byte(body))))
			}
			must.Agree(t, cmp.Diff(names, got), body)
			must.Equal(t, len(got), c.after.ToolCount, "tools of %s", body)
		}
	}
	f(wire.OpenAIChat, `{"tools": [ {"type":"function","function":{"name":"f","parameters":{"name":"x"}}} , {"type":"custom","custom":{"name":"g"}},{"type":"web_search"},7]}`, "f", "g", "", "")
	f(wire.OpenAIResponses, `{"tools":[{"type":"function","name":"f","parameters":{}},{"type":"web_search"}]}`, "f", "")
	f(wire.Anthropic, `{"tools":[{"name":"f"},null,{"type":"bash_20250124","name":"bash"}],"messages":[]}`, "f", "", "bash")
	f(wire.Gemini, `{"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]},{"googleSearch":{}}]}`, "f", "g", "")
	f(wire.Bedrock, `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"name":"x"}}}},{"cachePoint":{"type":"default"}},{"toolSpec":{"name":"g"}}]}}`, "f", "g")
}

// More marks than any provider accepts are dropped, with a Memo too.
func TestMarksAreBounded(t *testing.T) {
	message := `{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","cache_control":{}},`, 100), ",") + `]}`
	body := []byte(`{"system":[{"cache_control":{}}],"messages":[` + message + `,` + message + `,` + message + `],"tools":[{"cache_control":{}}]}`)
	var c memoScan
	for range 3 {
		c.scan(t, wire.Anthropic, body)
	}
	if n, d := len(c.after.Cache().Marks), c.after.Dropped; n != maxMarks || d != 302-maxMarks {
		t.Errorf("%d marks, %d dropped", n, d)
	}
}
