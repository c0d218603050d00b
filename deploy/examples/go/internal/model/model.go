// Package model is a provider for the tests of the examples. It answers a question with a call of the tool weather,
// and the result of the tool with a text.
package model

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// text is the final answer.
const text = "It snows."

const (
	chatStart = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",`
	chatCall  = chatStart + `"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]},"finish_reason":"tool_calls"}]}`
	chatText  = chatStart + `"content":"` + text + `"},"finish_reason":"stop"}]}`

	streamStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`
	streamCall  = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_1","name":"weather","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Bern\"}"}}`
	streamText = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`
	streamEnd = `{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}
{"type":"message_stop"}`
)

// Ask tests the function ask of an example: without NATS the agent works and its events are queued. prefix is that of the
// variables with the key and the URL, to which path is added.
func Ask(t *testing.T, prefix, path string, ask func(context.Context, *llmtap.Hook, string) (string, error)) {
	url := start(t)
	t.Setenv(prefix+"_BASE_URL", url+path)
	t.Setenv(prefix+"_API_KEY", "sk-test")
	hook, err := llmtap.Open(llmtap.Config{
		URL: "nats://127.0.0.1:1", Capture: "full", Hosts: []string{strings.TrimPrefix(url, "http://")}, FlushTimeout: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hook.Close() }) // nothing reaches NATS
	answer, err := ask(t.Context(), hook, "What is the weather in Bern?")
	if err != nil || answer != text {
		t.Fatalf("text %q, error %v", answer, err)
	}
	// Request and response of two calls, start and end of a tool and of a run.
	if s := hook.Stats(); s.Pending != 8 || s.Open != 0 {
		t.Errorf("stats %+v", s)
	}
}

// start runs the provider until the test ends. It serves OpenAI's API at /v1/chat/completions and Anthropic's streams
// at /v1/messages. start returns the URL without a path.
func start(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		// Accept a result only after its call.
		call, result := bytes.Count(body, []byte(`"call_1"`)), bytes.Contains(body, []byte("-3 °C"))
		switch {
		case result && call != 2:
			http.Error(w, `{"error":{"message":"result without its call"}}`, http.StatusBadRequest)
		case r.URL.Path == "/v1/messages":
			w.Header().Set("Content-Type", "text/event-stream")
			middle := streamCall
			if result {
				middle = streamText
			}
			for line := range strings.SplitSeq(streamStart+"\n"+middle+"\n"+streamEnd, "\n") {
				kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
				io.WriteString(w, "event: "+kind+"\ndata: "+line+"\n\n") //nolint:errcheck // the client may have disconnected
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			answer := chatCall
			if result {
				answer = chatText
			}
			io.WriteString(w, answer) //nolint:errcheck // as above
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
