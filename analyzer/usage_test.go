package analyzer_test

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// The output tokens of a stream that ends before its last event are unknown: some dialects send running totals.
func TestUsageOfCutStreams(t *testing.T) {
	f := func(name, url, contentType, body string, output int64) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: []byte(`{"stream":true}`)})
		s.response(id, 200, []byte(body)).ContentType = contentType
		e := run(t, analyzer.Default(), s.steps).Exchanges[0]
		if e.InputTokens != 10 || e.OutputTokens != output {
			t.Errorf("%s: %d tokens in, %d out", name, e.InputTokens, e.OutputTokens)
		}
	}
	const (
		sse       = "text/event-stream"
		anthropic = "https://api.anthropic.com/v1/messages"
		gemini    = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent"
		chat      = "https://api.openai.com/v1/chat/completions"

		start = `data: {"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Port"}}` + "\n\n"
		end   = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":49}}` + "\n\n"
		chunk = `data: {"candidates":[{"content":{"parts":[{"text":"Port"}]}}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3}}` + "\n\n"
		last  = `data: {"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":9}}` + "\n\n"
		piece = `data: {"choices":[{"delta":{"content":"Port"}}],"usage":{"prompt_tokens":10,"completion_tokens":2}}` + "\n\n"
		stop  = `data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}` + "\n\n"
	)
	f("cut", anthropic, sse, start, analyzer.UnknownTokens)
	f("cut by an error", anthropic, sse, start+"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", analyzer.UnknownTokens)
	f("ended", anthropic, sse, start+end, 49)
	f("cut", gemini, sse, chunk, analyzer.UnknownTokens)
	f("ended", gemini, sse, chunk+last, 9)
	f("cut", chat, sse, piece, analyzer.UnknownTokens)
	f("ended", chat, sse, piece+stop, 5)
	f("cut body", chat, "application/json", `{"usage":{"prompt_tokens":10,"completion_tokens":4`, analyzer.UnknownTokens)
}
