package analyzer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// setupOf returns the row of one request, captured in full or as a shape with a key.
func setupOf(t *testing.T, url, body, key string) analyzer.Exchange {
	t.Helper()
	s := newStream("c")
	s.url = url
	ev := &event.Event{Kind: event.Request, Exchange: s.exchange(), URL: url, Method: "POST", Body: []byte(body), SDK: "go/0.1.0"}
	ev.Attrs = map[string]string{"tenant": "acme", "contact": "ann@example.com", "token": "sk-proj-abc123DEF456ghi789"}
	if key != "" {
		_, path, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
		ev.Capture, ev.Body = event.CaptureShape, shape.New([]byte(key)).Request(wire.PathDialect("/"+path), ev.Body, 1<<20)
	}
	s.add(ev)
	s.response(ev.Exchange, 500, nil)
	out := run(t, analyzer.Default(), s.steps)
	if len(out.Exchanges) != 1 {
		t.Fatalf("%d rows", len(out.Exchanges))
	}
	return out.Exchanges[0]
}

// setupBodies are requests of each dialect. PROMPT, TOOL, ABOUT and 0.25 are the parts that the test changes.
var setupBodies = map[string]string{
	"https://api.openai.com/v1/chat/completions": `{"model":"m","temperature":0.25,"messages":[{"role":"system","content":"PROMPT"},{"role":"user","content":"MESSAGE"}],
		"tools":[{"type":"function","function":{"name":"TOOL","description":"ABOUT","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}`,
	"https://api.openai.com/v1/responses": `{"model":"m","temperature":0.25,"instructions":"PROMPT","input":[{"role":"user","content":"MESSAGE"}],
		"tools":[{"type":"function","name":"TOOL","description":"ABOUT","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]}`,
	"https://api.anthropic.com/v1/messages": `{"model":"m","temperature":0.25,"system":[{"type":"text","text":"PROMPT"}],"messages":[{"role":"user","content":"MESSAGE"}],
		"tools":[{"name":"TOOL","description":"ABOUT","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}`,
	"https://generativelanguage.googleapis.com/v1beta/models/m:generateContent": `{"generationConfig":{"temperature":0.25},
		"systemInstruction":{"parts":[{"text":"PROMPT"}]},"contents":[{"role":"user","parts":[{"text":"MESSAGE"}]}],
		"tools":[{"functionDeclarations":[{"name":"TOOL","description":"ABOUT","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]}]}`,
	"https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse": `{"inferenceConfig":{"temperature":0.25},
		"system":[{"text":"PROMPT"}],"messages":[{"role":"user","content":[{"text":"MESSAGE"}]}],
		"toolConfig":{"tools":[{"toolSpec":{"name":"TOOL","description":"ABOUT","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}}}}}}]}}`,
}

// The prompt, the tools and the parameters of a request have hashes that change with them and with nothing else. The
// hashes of a shape do not depend on the key of the process.
func TestSetup(t *testing.T) {
	for url, body := range setupBodies {
		for _, key := range []string{"", "key"} {
			with := func(key string, changes ...string) analyzer.Exchange {
				return setupOf(t, url, strings.NewReplacer(changes...).Replace(body), key)
			}
			base := with(key)
			if base.PromptHash == 0 || base.ToolsHash == 0 || !cmp.Equal(base.Tools, []string{"TOOL"}) || len(base.Settings) != 1 {
				t.Fatalf("%s, key %q: prompt %x, tools %x %q, settings %v", url, key, base.PromptHash, base.ToolsHash, base.Tools, base.Settings)
			}
			for _, value := range base.Settings {
				must.Contain(t, value, "0.25", url, "settings", base.Settings)
			}
			f := func(what string, prompt, tools, settings bool, e analyzer.Exchange) {
				t.Helper()
				if (e.PromptHash != base.PromptHash) != prompt || (e.ToolsHash != base.ToolsHash) != tools || !cmp.Equal(e.Settings, base.Settings) != settings {
					t.Errorf("%s, key %q, %s: prompt %x to %x, tools %x to %x, settings %v to %v", url, key, what,
						base.PromptHash, e.PromptHash, base.ToolsHash, e.ToolsHash, base.Settings, e.Settings)
				}
			}
			f("other message", false, false, false, with(key, "MESSAGE", "Good morning"))
			f("longer prompt", true, false, false, with(key, "PROMPT", "PROMPT, and more"))
			f("other tool", false, true, false, with(key, "TOOL", "TOOL2"))
			f("other description", false, true, false, with(key, "ABOUT", "About this"))
			f("other temperature", false, false, true, with(key, "0.25", "0.75"))
			if key != "" {
				f("other key", false, false, false, with("another key"))
			} else {
				f("prompt of the same length", true, false, false, with(key, "PROMPT", "prompt"))
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	e := setupOf(t, "https://api.openai.com/v1/chat/completions", setupBodies["https://api.openai.com/v1/chat/completions"], "")
	want := map[string]string{"tenant": "acme", "contact": "***@***", "token": "sk-***"}
	if d := cmp.Diff(want, e.Attrs); d != "" || e.SDK != "go/0.1.0" {
		t.Errorf("sdk %q, attributes (-want +got):\n%s", e.SDK, d)
	}
}
