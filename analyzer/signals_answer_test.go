package analyzer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	anthropicURL = "https://api.anthropic.com/v1/messages"
	geminiURL    = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
	ollamaURL    = "http://localhost:11434/api/chat"
)

// sse returns an event stream with these data.
func sse(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// Each signal of an answer, and cases that resemble it.
func TestSignalsOfAnswers(t *testing.T) {
	f := func(name, url, request, response string, change func(*event.Event), want ...string) {
		t.Helper()
		s := newStream("c1")
		s.url = url
		for range 2 { // asked again, it is still one
			id := s.exchange()
			s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: []byte(request)})
			r := s.response(id, 200, []byte(response))
			if strings.HasPrefix(response, "data:") {
				r.ContentType = "text/event-stream"
			}
			if change != nil {
				change(r)
			}
		}
		must.Agree(t, cmp.Diff(want, signalsOf(t, s)), name)
		must.Agree(t, cmp.Diff(want, signalsOf(t, shaped(s))), name, "its shape")
	}
	const (
		streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`
		limited  = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"q"}]}`
		unary    = `{"model":"m","messages":[{"role":"user","content":"q"}]}`
		forced   = `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"messages":[{"role":"user","content":"q"}]}`

		head = `{"id":"r","choices":[{"index":0,"delta":{"role":"assistant","content":"The port"}}]}`
		stop = `{"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		open = `{"id":"r","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"pa"}}]}}]}`
	)
	calls := func(arguments, finish, tokens string) string {
		return `{"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"` +
			arguments + `"}}]},"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":9,"completion_tokens":` + tokens + `}}`
	}
	whole := `{\"path\":1}`

	f("an error in a stream", openAIURL, streamed, sse(head, `{"error":{"type":"server_error","message":"boom"}}`), nil, "stream_error_in_200 stream_error")
	f("an error in a body", openAIURL, unary, `{"error":{"code":429,"message":"slow down"}}`, nil, "stream_error_in_200 rate_limit")
	f("a comment in a stream", openAIURL, streamed, ": PROCESSING\n\n"+sse(head, stop, "[DONE]"), nil)

	f("a stream without an end", openAIURL, streamed, sse(head), nil, "stream_cut")
	f("the connection broke", openAIURL, streamed, sse(head), func(e *event.Event) { e.Error = "unexpected EOF" }, "stream_cut")
	f("no [DONE]", openAIURL, streamed, sse(head, stop), nil)
	f("the agent called it off", openAIURL, streamed, sse(head), func(e *event.Event) { e.Error = event.ErrorCancelled })
	f("the agent read no further", openAIURL, streamed, sse(head), func(e *event.Event) { e.Error = "closed before the end of the body" })
	f("not captured", openAIURL, streamed, "", func(e *event.Event) { e.Capture = event.CaptureNone })
	f("captured in part", openAIURL, streamed, sse(head), func(e *event.Event) { e.Capture = event.CaptureCut })
	f("degraded", openAIURL, streamed, sse(head), func(e *event.Event) { e.Degraded = true })
	f("Anthropic, no message_stop", anthropicURL, streamed,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n", func(e *event.Event) { e.ContentType = "text/event-stream" }, "stream_cut")

	f("arguments end with the tokens", openAIURL, unary, calls(`{\"pa`, "length", "9"), nil, "truncated_tool_call length")
	f("no argument was begun", openAIURL, unary, calls(``, "length", "9"), nil, "truncated_tool_call length")
	f("the finish reason denies it", openAIURL, limited, calls(`{\"pa`, "tool_calls", "5"), nil, "truncated_tool_call max_tokens")
	f("whole arguments at the limit", openAIURL, limited, calls(whole, "tool_calls", "5"), nil)
	f("broken arguments, tokens left", openAIURL, limited, calls(`{\"pa`, "tool_calls", "4"), nil)
	f("cut and called off", openAIURL, streamed, sse(open), func(e *event.Event) { e.Error = event.ErrorCancelled })

	f("calls, and stop", openAIURL, unary, calls(whole, "stop", "4"), nil, "finish_mismatch calls")
	f("a forced call, and stop", openAIURL, forced, calls(whole, "stop", "4"), nil)
	f("Gemini's copy of the API", geminiCopyURL, unary, calls(whole, "stop", "4"), nil)
	f("no calls, and tool_calls", openAIURL, unary, `{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"tool_calls"}]}`, nil, "finish_mismatch no_calls")
	f("calls and tool_calls", openAIURL, unary, calls(whole, "tool_calls", "4"), nil)
	f("Gemini", geminiURL, `{"contents":[{"role":"user","parts":[{"text":"q"}]}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}`, nil)
	f("Ollama", ollamaURL, unary, `{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},"done":true,"done_reason":"stop"}`, nil)
	f("Anthropic", anthropicURL, unary, `{"id":"m","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"end_turn"}`, nil, "finish_mismatch calls")
	f("Anthropic, a server's tool", anthropicURL, unary, `{"id":"m","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`, nil)
}

const geminiCopyURL = "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
