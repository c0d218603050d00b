package llmtap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	sashabaranov "github.com/sashabaranov/go-openai"

	"github.com/llmtap/llmtap/ingest/event"
)

// What the providers answer, in their wire formats: first a tool call, then, to its result, a text.
var (
	chatCall = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-5","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`
	chatText = `{"id":"chatcmpl-2","object":"chat.completion","created":1,"model":"gpt-5","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"It snows."}}]}`

	chatCallStream = sse("",
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}}]}`,
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Bern\"}"}}]}}]}`,
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`[DONE]`)
	chatTextStream = sse("",
		`{"id":"chatcmpl-2","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":"It snows."}}]}`,
		`{"id":"chatcmpl-2","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`[DONE]`)

	messagesCall = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"call_1","name":"weather","input":{"city":"Bern"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}`
	messagesText = `{"id":"msg_2","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"It snows."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}`

	messagesCallStream = messagesStream(`{"type":"tool_use","id":"call_1","name":"weather","input":{}}`,
		`{"type":"input_json_delta","partial_json":"{\"city\":\"Bern\"}"}`, "tool_use")
	messagesTextStream = messagesStream(`{"type":"text","text":""}`, `{"type":"text_delta","text":"It snows."}`, "end_turn")
)

// sse writes a stream of events; with a key, each is named by that field of its data.
func sse(key string, data ...string) string {
	var b strings.Builder
	for _, d := range data {
		if key != "" {
			var fields map[string]any
			if json.Unmarshal([]byte(d), &fields) == nil {
				fmt.Fprintf(&b, "event: %s\n", fields[key])
			}
		}
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

func messagesStream(block, delta, stop string) string {
	return sse("type",
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":`+block+`}`,
		`{"type":"ping"}`,
		`{"type":"content_block_delta","index":0,"delta":`+delta+`}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"`+stop+`","stop_sequence":null},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`)
}

// startModel answers as OpenAI at /v1/chat/completions and as Anthropic at /v1/messages, in chunks without a length.
func startModel(t *testing.T, w *traffic) string {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		first := !bytes.Contains(body, []byte("-3 °C"))
		stream := bytes.Contains(body, []byte(`"stream":true`))
		answers := [...]string{chatText, chatCall, chatTextStream, chatCallStream}
		if r.URL.Path == "/v1/messages" {
			answers = [...]string{messagesText, messagesCall, messagesTextStream, messagesCallStream}
		}
		i := 0
		if first {
			i++
		}
		rw.Header().Set("Content-Type", "application/json")
		if stream {
			i += 2
			rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		w.mu.Lock()
		w.requests, w.responses = append(w.requests, body), append(w.responses, []byte(answers[i]))
		w.mu.Unlock()
		for part := range strings.SplitAfterSeq(answers[i], "\n\n") {
			io.WriteString(rw, part)
			rw.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A turn sends a history through a client and returns the id of the tool call in the answer, or its text. With callID the
// history holds the call and its result.
type turn func(ctx context.Context, callID string) (call, text string, err error)

func openaiTurn(hc *http.Client, url string, stream bool) turn {
	c := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-secret"), option.WithHTTPClient(hc))
	return func(ctx context.Context, callID string) (string, string, error) {
		p := openai.ChatCompletionNewParams{Model: "gpt-5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("weather in Bern?")}}
		if callID != "" {
			p.Messages = append(p.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
				ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID:       callID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "weather", Arguments: `{"city":"Bern"}`},
				}}},
			}}, openai.ToolMessage("-3 °C", callID))
		}
		if !stream {
			r, err := c.Chat.Completions.New(ctx, p)
			if err != nil {
				return "", "", err
			}
			if calls := r.Choices[0].Message.ToolCalls; len(calls) > 0 {
				return calls[0].ID, "", nil
			}
			return "", r.Choices[0].Message.Content, nil
		}
		s := c.Chat.Completions.NewStreaming(ctx, p)
		defer s.Close()
		var acc openai.ChatCompletionAccumulator
		for s.Next() {
			acc.AddChunk(s.Current())
		}
		if err := s.Err(); err != nil {
			return "", "", err
		}
		if calls := acc.Choices[0].Message.ToolCalls; len(calls) > 0 {
			return calls[0].ID, "", nil
		}
		return "", acc.Choices[0].Message.Content, nil
	}
}

func anthropicTurn(hc *http.Client, url string, stream bool) turn {
	c := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("sk-secret"), anthropicoption.WithHTTPClient(hc))
	return func(ctx context.Context, callID string) (string, string, error) {
		p := anthropic.MessageNewParams{Model: "claude-sonnet-4-5", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("weather in Bern?"))}}
		if callID != "" {
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(anthropic.NewToolUseBlock(callID, map[string]string{"city": "Bern"}, "weather")),
				anthropic.NewUserMessage(anthropic.NewToolResultBlock(callID, "-3 °C", false)))
		}
		m := new(anthropic.Message)
		if stream {
			s := c.Messages.NewStreaming(ctx, p)
			defer s.Close()
			for s.Next() {
				if err := m.Accumulate(s.Current()); err != nil {
					return "", "", err
				}
			}
			if err := s.Err(); err != nil {
				return "", "", err
			}
		} else {
			var err error
			if m, err = c.Messages.New(ctx, p); err != nil {
				return "", "", err
			}
		}
		if block := m.Content[0]; block.Type == "text" {
			return "", block.Text, nil
		}
		return m.Content[0].ID, "", nil
	}
}

func sashabaranovTurn(hc *http.Client, url string, stream bool) turn {
	cfg := sashabaranov.DefaultConfig("sk-secret")
	cfg.BaseURL, cfg.HTTPClient = url+"/v1", hc
	c := sashabaranov.NewClientWithConfig(cfg)
	return func(ctx context.Context, callID string) (call, text string, err error) {
		req := sashabaranov.ChatCompletionRequest{Model: "gpt-5", Messages: []sashabaranov.ChatCompletionMessage{{Role: "user", Content: "weather in Bern?"}}}
		if callID != "" {
			req.Messages = append(req.Messages, sashabaranov.ChatCompletionMessage{Role: "assistant", ToolCalls: []sashabaranov.ToolCall{{
				ID: callID, Type: "function", Function: sashabaranov.FunctionCall{Name: "weather", Arguments: `{"city":"Bern"}`},
			}}}, sashabaranov.ChatCompletionMessage{Role: "tool", ToolCallID: callID, Content: "-3 °C"})
		}
		if !stream {
			r, err := c.CreateChatCompletion(ctx, req)
			if err != nil {
				return "", "", err
			}
			if calls := r.Choices[0].Message.ToolCalls; len(calls) > 0 {
				return calls[0].ID, "", nil
			}
			return "", r.Choices[0].Message.Content, nil
		}
		s, err := c.CreateChatCompletionStream(ctx, req)
		if err != nil {
			return "", "", err
		}
		defer s.Close()
		for {
			chunk, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return call, text, nil
			}
			if err != nil {
				return "", "", err
			}
			d := chunk.Choices[0].Delta
			text += d.Content
			for _, tc := range d.ToolCalls {
				call += tc.ID
			}
		}
	}
}

// One run of an agent through each real client: what it asked, what it was answered, and its tool.
func TestClients(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	f := func(name string, client func(*http.Client, string, bool) turn, stream bool) {
		t.Run(fmt.Sprintf("%s,stream=%v", name, stream), func(t *testing.T) {
			var w traffic
			url := startModel(t, &w)
			h := openHook(t, n.url, url, nil)
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			ask := client(&http.Client{Transport: h.Transport(base)}, url, stream)

			seen := len(n.events(t))
			ctx := WithConversation(WithRun(t.Context(), "run-"+t.Name()), "conv-"+t.Name())
			h.RunStarted(ctx)
			call, _, err := ask(ctx, "")
			if err != nil || call != "call_1" {
				t.Fatalf("tool call %q, error %v", call, err)
			}
			h.ToolStarted(ctx, call)
			h.ToolEnded(ctx, call, nil)
			_, text, err := ask(ctx, call)
			if err != nil || text != "It snows." {
				t.Fatalf("text %q, error %v", text, err)
			}
			h.RunEnded(ctx, nil)
			flush(t, h)

			evs := n.events(t)[seen:]
			want := [...]event.Kind{event.Run, event.Request, event.Response, event.Tool, event.Tool, event.Request, event.Response, event.Run}
			if len(evs) != len(want) {
				t.Fatalf("%d events, want %d", len(evs), len(want))
			}
			for i, ev := range evs {
				if ev.Kind != want[i] || ev.Seq != uint64(i+1) || ev.Labels.Conversation != "conv-"+t.Name() || ev.Labels.Run != "run-"+t.Name() {
					t.Errorf("event %d: %+v", i, ev)
				}
			}
			for i, x := range exchanges(t, evs) {
				if !bytes.Equal(x[0].Body, w.requests[i]) || !bytes.Equal(x[1].Body, w.responses[i]) {
					t.Errorf("turn %d: published bodies differ from the wire:\n%s\n%s", i, x[0].Body, x[1].Body)
				}
				if x[1].Status != 200 || x[1].Error != "" || x[1].StreamingResponse() != stream || x[0].Degraded {
					t.Errorf("turn %d: %+v", i, x[1])
				}
			}
			if tool := evs[3]; tool.ToolCallID != "call_1" || tool.Exchange != evs[1].Exchange || tool.ToolStatus != event.StatusStarted {
				t.Errorf("tool %+v", tool)
			}
			if evs[4].ToolStatus != event.StatusOK || evs[0].RunStatus != event.StatusStarted || evs[7].RunStatus != event.StatusOK {
				t.Errorf("tool %+v\nruns %+v\n%+v", evs[4], evs[0], evs[7])
			}
		})
	}
	for _, stream := range [...]bool{false, true} {
		f("openai-go", openaiTurn, stream)
		f("anthropic-sdk-go", anthropicTurn, stream)
		f("go-openai", sashabaranovTurn, stream)
	}
}
