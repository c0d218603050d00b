package provider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Error texts of RULES.md 2.5 to 2.16.
func TestOtherRejections(t *testing.T) {
	f := func(path, model, messages, want string) {
		t.Helper()
		call := "/chat/completions"
		if path == AnthropicPath {
			call = "/v1/messages"
		}
		w := httptest.NewRecorder()
		body := `{"model":"` + model + `","messages":[` + messages + `]}`
		New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path+call, strings.NewReader(body)))
		switch got := w.Body.String(); {
		case want == "" && w.Code != http.StatusOK:
			t.Errorf("%s %s: status %d: %s", path, messages, w.Code, got)
		case want != "" && (w.Code != http.StatusBadRequest || !strings.Contains(got, want)):
			t.Errorf("%s %s: status %d: %s, want %s", path, messages, w.Code, got, want)
		}
	}
	const (
		q      = `{"role":"user","content":"q"},`
		orphan = `{"role":"tool","tool_call_id":"call_1","content":"ok"}`
		called = `{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},`
		cut    = `{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]},`
	)
	f(QwenPath, "m", q+called+orphan, "")
	f(QwenPath, "m", q+orphan, `InternalError.Algo.InvalidParameter: messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".`)
	f(QwenPath, "m", q+cut+orphan, `The \"function.arguments\" parameter of the code model must be in JSON format.`)
	f(QwenPath, "m", called+`{"role":"user","content":"q"}`, `did not have response messages: message[1].role`)
	f(OpenAIPath, "m", q+cut+orphan, "")
	f(GeminiPath, "gemini-2.5-flash", q+called+orphan, "")
	f(GeminiPath, "gemini-2.5-flash", q+orphan, `"status": "INVALID_ARGUMENT"`)
	f(GeminiPath, "gemini-3-pro", q+called+orphan, "Function call is missing a thought_signature in functionCall parts.")
	f(MistralPath, "m", q+called+orphan, "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.")
	f(MistralPath, "m", q+orphan, "Unexpected role 'tool' after role 'user'")
	f(MistralPath, "m", q+strings.ReplaceAll(called, "call_1", "abcdefgh1")+`{"role":"user","content":"q"}`, "Not the same number of function calls and responses")
	f(GroqPath, "m", `{"role":"user","content":"q","timestamp":1}`, "property 'timestamp' is unsupported")
	f(GroqPath, "m", q+called+orphan, "")
	f(DeepSeekPath, "deepseek-v4-pro", q+called+orphan, "The `reasoning_content` in the thinking mode must be passed back to the API.")
	f(DeepSeekPath, "deepseek-v4-pro", q+strings.Replace(called, `"content":""`, `"content":"","reasoning_content":""`, 1)+orphan, "")

	const (
		use    = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`
		result = `{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}`
	)
	f(AnthropicPath, "m", q+use+`,{"role":"user","content":[`+result+`,{"type":"text","text":"go on"}]}`, "")
	f(AnthropicPath, "m", q+use+`,{"role":"user","content":"go on"}`,
		"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.")
	f(AnthropicPath, "m", `{"role":"user","content":[`+result+`]}`,
		"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.")
	f(AnthropicPath, "m", q+use+`,{"role":"user","content":[`+result+`,`+result+`]}`,
		"each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1")
	f(AnthropicPath, "m", q+strings.ReplaceAll(use, "toolu_1", "functions.f:0")+`,{"role":"user","content":"x"}`, "String should match pattern '^[a-zA-Z0-9_-]+$'")
	f(AnthropicPath, "m", `{"role":"user","content":[{"type":"text","text":""}]}`, "messages: text content blocks must be non-empty")
	f(AnthropicPath, "m", `{"role":"user","content":[]},{"role":"user","content":"q"}`, "messages.0: all messages must have non-empty content except for the optional final assistant message")
	f(AnthropicPath, "m", q+strings.Replace(use, `"input":{}`, `"input":"{}"`, 1), "Input should be a valid dictionary")
	f(AnthropicPath, "m", `{"role":"system","content":"q"}`, "Input should be 'user' or 'assistant'")
}

// A Model of a test, its stream defects, and a lenient provider.
func TestModel(t *testing.T) {
	said := Answer{Calls: []Call{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}, {ID: "call_2", Name: "g", Arguments: `{}`}}}
	lenient := false
	p := New(Config{Model: func(Request) Answer { return said }, Lenient: func() bool { return lenient }})
	post := func(body string) string {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, OpenAIPath+"/chat/completions", strings.NewReader(body)))
		return w.Body.String()
	}
	const streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`
	if got := post(streamed); strings.Count(got, `"index":1`) != 2 || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("stream without defects: %s", got)
	}
	said.OneIndex = true
	if got := post(streamed); strings.Contains(got, `"index":1`) {
		t.Errorf("one index: %s", got)
	}
	said.LateID = true
	must.Contain(t, post(streamed), `{"index":0,"type":"function"`, "a late id")
	said.Cut = 2
	if got := post(streamed); strings.Count(got, "data: ") != 2 || strings.Contains(got, "DONE") {
		t.Errorf("a cut stream: %s", got)
	}
	const orphan = `{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`
	must.Contain(t, post(orphan), "invalid_request_error", "strict")
	lenient = true
	must.Contain(t, post(orphan), `"call_2"`, "lenient")
}
