package facts

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An unmistakable body decides if the URL does not.
func TestDetectBody(t *testing.T) {
	f := func(url, body string, want wire.Target) {
		t.Helper()
		must.Equal(t, Detect(url, "", []byte(body)), want, "%s %s", url, body)
	}
	other := wire.Target{Dialect: wire.Other, Variant: wire.OtherVariant}
	chat := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OtherVariant}
	messages := wire.Target{Dialect: wire.Anthropic, Variant: wire.OtherVariant}
	for _, url := range []string{"", "<MASKED>", "https://llm.example/invocations"} {
		f(url, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[]}]}`, chat)
		f(url, `{"messages":[{"role":"tool","content":"ok"}]}`, chat)
		f(url, `{"input":[{"role":"user","content":"q"},{"type":"function_call_output","call_id":"c"}]}`, wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OtherVariant})
		f(url, `{"input":[{"type":"user_input","content":[]},{"type":"function_call","id":"c","call_id":"c"}]}`, wire.Target{Dialect: wire.Interactions, Variant: wire.GeminiAPI})
		f(url, `{"input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c"}]}`, wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OtherVariant})
		f(url, `{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, messages)
		f(url, `{"anthropic_version":"bedrock-2023-05-31","messages":[]}`, messages)
		f(url, `{"contents":[{"parts":[{"text":"q"}]}],"toolConfig":{}}`, wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI})
		f(url, `{"messages":[{"role":"user","content":[{"text":"q"},{"toolResult":{}}]}]}`, wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI})
		f(url, `{"toolConfig":{"tools":[]},"messages":[{"role":"user","content":[{"text":"q"}]}]}`, wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI})
		f(url, `{"messages":[{"role":"tool"}],"more":"is cut he`, chat)

		f(url, `{"messages":[{"role":"user","content":"q"}]}`, other)
		f(url, `{"messages":[{"role":"tool"},{"role":"user","content":[{"type":"tool_result"}]}]}`, other)
		f(url, `{"messages":[{"role":"assistant","tool_plan":"p","tool_calls":[]}]}`, other) // Cohere's, or a copy of it
		f(url, `{"messages":[{"role":"assistant","tool_calls":null}]}`, other)
		f(url, `{"input":["text"]}`, other)
		f(url, `{"input":[{"type":"image_url"}]}`, other)
		f(url, `{"contents":["text"]}`, other)
		f(url, `{"messages":{"role":"tool"}}`, other)
		f(url, `[]`, other)
		f(url, ``, other)
	}
	// At a provider's host and at the paths of other APIs the URL decides.
	const tool = `{"messages":[{"role":"tool"}]}`
	f("https://api.openai.com/v1/conversations", tool, other)
	f("https://llm.example/tokenize", tool, other)
	f("https://llm.example/v1/messages/count_tokens", tool, other)
	// Ollama's own API at an unknown host.
	f("https://llm.example/api/chat", `{"model":"m","messages":[{"role":"tool"}]}`, wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Ollama, Native: true, Model: "m"})
	f("https://llm.example/api/chat", `{"messages":[{"role":"user"}]}`, other)
	// Bedrock's invoke takes the model's own body: only Claude's is unmistakable.
	const arn = "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3A1/invoke"
	messages.Model, other.Model = "arn:aws:bedrock:1", "arn:aws:bedrock:1"
	f(arn, `{"anthropic_version":"bedrock-2023-05-31"}`, messages)
	f(arn, `{"toolConfig":{},"messages":[]}`, other)

	// The body names the model if neither the caller nor the path does.
	const completions = "https://api.openai.com/v1/chat/completions"
	f(completions, ` {"messages":[{"model":"x"}],"model":"a\/b"}`, wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI, Model: "a/b"})
	f(completions, `[]`, wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI})
}

// Recorded exchanges name their API.
func TestDetectRecorded(t *testing.T) {
	apis := map[string]wire.Dialect{
		"openai.chat": wire.OpenAIChat, "openai.responses": wire.OpenAIResponses, "anthropic.messages": wire.Anthropic, "gemini.generateContent": wire.Gemini,
		"bedrock.converse": wire.Bedrock, "cohere.chat": wire.Cohere, "ollama.chat": wire.OpenAIChat,
	}
	n := map[wire.Target]int{}
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		e := must.JSON[exchange](t, line)
		got := Detect(e.URL, "", e.Request)
		want, ok := apis[e.API]
		switch {
		case e.API == "bedrock.invoke":
			if want = wire.Other; bytes.Contains(e.Request, []byte(`"anthropic_version"`)) {
				want = wire.Anthropic
			}
		case !ok, strings.HasSuffix(e.URL, "/v1/chat"):
			want = wire.Other
		}
		if got.Dialect != want || got.Native != (e.API == "ollama.chat") || got.Model == "" && want != wire.Other && got.Variant != wire.Azure {
			t.Errorf("%s: %s is %+v, want %s", e.ID, e.URL, got, want)
		}
		if d := Detect(e.URL, "", nil).Dialect; d != want && d != wire.Other {
			t.Errorf("%s: %s alone is %s", e.ID, e.URL, d)
		}
		got.Model = "" // Azure's URLs name a deployment
		n[got]++
	})
	for target, count := range n {
		t.Logf("%5d %s/%s", count, target.Dialect, target.Variant)
	}
}

func FuzzDetect(f *testing.F) {
	for _, url := range []string{
		"https://api.openai.com/v1/chat/completions", "/vllm/v1/chat/completions", "http://webui/ollama/api/chat", "https://llm.example/v1/messages",
		"http://127.0.0.1:4000/v1beta/models/g%3agenerateContent", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m%zz/converse", "a/cohere/v2/chat",
	} {
		f.Add(url, "", []byte(`{"messages":[{"role":"tool"}]}`))
	}
	f.Add("", "vertex_ai/x", []byte(`{"contents":[{"parts":[]}],"input":[{"type":"message"}],"anthropic_version":""}`))
	f.Fuzz(func(t *testing.T, url, model string, body []byte) {
		got := Detect(url, model, body)
		if got.Dialect != wire.Other && !slices.Contains(got.Dialect.Variants(), got.Variant) || got.Dialect == wire.Other && got.Variant != wire.OtherVariant {
			t.Errorf("%+v", got)
		}
		if model != "" && got.Model != model || got.Provider() == "" {
			t.Errorf("%+v, model %q", got, model)
		}
		if alone := Detect(url, model, nil); alone.Dialect != wire.Other && alone.Dialect != got.Dialect {
			t.Errorf("%+v, without the body %+v", got, alone)
		}
	})
}
