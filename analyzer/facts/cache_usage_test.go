package facts

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

func TestCacheUsage(t *testing.T) {
	type usage struct {
		input, read, written, hour int64
		reported                   bool
	}
	f := func(d wire.Dialect, body string, want usage) {
		t.Helper()
		r := answerIn(t, d, "", body)
		must.Equal(t, usage{r.InputTokens, r.CachedTokens, r.CacheWritten, r.CacheHour, r.CacheReported}, want, "%s", body)
	}
	chat := func(u string, want usage) {
		t.Helper()
		f(wire.OpenAIChat, `{"choices":[{"message":{"content":"a"}}],"usage":`+u+`}`, want)
		f(wire.OpenAIChat, `data: {"choices":[{"delta":{"content":"a"}}],"usage":null}`+"\n\n"+`data: {"choices":[],"usage":`+u+"}\n\ndata: [DONE]\n\n", want)
	}
	// OpenAI and Azure; GPT-5.6 says what it wrote, and so does OpenRouter.
	chat(`{"prompt_tokens":2006,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":null}}`, usage{2006, 1920, 0, 0, true})
	chat(`{"prompt_tokens":2006,"prompt_tokens_details":{"cached_tokens":0}}`, usage{2006, 0, 0, 0, true})
	chat(`{"prompt_tokens":2006,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":1500}}`, usage{2006, 5, 1500, 0, true})
	chat(`{"prompt_tokens":2006}`, usage{2006, 0, 0, 0, false})
	chat(`{"prompt_tokens":2006,"prompt_tokens_details":null}`, usage{2006, 0, 0, 0, false})
	chat(`{"prompt_tokens":2006,"prompt_tokens_details":{"cached_tokens":null}}`, usage{2006, 0, 0, 0, false})
	// More than the prompt has.
	chat(`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":161}}`, usage{10, 10, 0, 0, false})
	chat(`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":7}}`, usage{10, 4, 6, 0, true})
	chat(`{"prompt_tokens":10,"cached_tokens":-4,"cache_creation_input_tokens":-7}`, usage{10, 0, 0, 0, false})
	// DeepSeek, Kimi with and without details, GLM.
	chat(`{"prompt_tokens":90,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":26,"prompt_tokens_details":{"cached_tokens":64}}`, usage{90, 64, 0, 0, true})
	chat(`{"prompt_tokens":90,"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":90}`, usage{90, 0, 0, 0, true})
	chat(`{"prompt_tokens":1113,"cached_tokens":1024,"prompt_tokens_details":{"cached_tokens":1024}}`, usage{1113, 1024, 0, 0, true})
	chat(`{"prompt_tokens":1113,"prompt_tokens_details":{"cached_tokens":1024},"cached_tokens":1024}`, usage{1113, 1024, 0, 0, true})
	chat(`{"prompt_tokens":1113,"cached_tokens":1024}`, usage{1113, 1024, 0, 0, true})
	// Qwen's explicit cache, LiteLLM before Claude.
	chat(`{"prompt_tokens":1300,"prompt_tokens_details":{"cached_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":1204},"cache_creation_input_tokens":1204,"cache_type":"ephemeral"}}`,
		usage{1300, 0, 1204, 0, true})
	chat(`{"prompt_tokens":1300,"prompt_tokens_details":{"cached_tokens":1000,"cache_creation_tokens":200},"cache_creation_input_tokens":200,"cache_read_input_tokens":1000}`,
		usage{1300, 1000, 200, 0, true})

	items := func(u string, want usage) {
		t.Helper()
		f(wire.OpenAIResponses, `{"object":"response","status":"completed","output":[],"usage":`+u+`}`, want)
		f(wire.OpenAIResponses, `data: {"type":"response.completed","response":{"object":"response","status":"completed","output":[],"usage":`+u+"}}\n\n", want)
	}
	items(`{"input_tokens":15000,"input_tokens_details":{"cached_tokens":12000,"cache_write_tokens":3000}}`, usage{15000, 12000, 3000, 0, true})
	items(`{"input_tokens":15000,"input_tokens_details":{"cached_tokens":0}}`, usage{15000, 0, 0, 0, true})
	items(`{"input_tokens":15000,"input_tokens_details":{}}`, usage{15000, 0, 0, 0, false})

	// Anthropic: of the 5 minutes, and of the hour. A stream repeats the counts at its end, or null.
	message := func(u, last string, want usage) {
		t.Helper()
		f(wire.Anthropic, `{"type":"message","content":[],"usage":`+u+`}`, want)
		f(wire.Anthropic, anthropicEvents(`{"type":"message_start","message":{"content":[],"usage":`+u+`}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+last+`}`, messageStop), want)
	}
	all := `{"input_tokens":3,"cache_creation_input_tokens":456,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":356,"ephemeral_1h_input_tokens":100}}`
	message(all, all, usage{559, 100, 456, 100, true})
	message(all, `{"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"cache_creation":null,"output_tokens":4}`, usage{559, 100, 456, 100, true})
	message(`{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}`, `{"output_tokens":1}`, usage{3, 0, 0, 0, true})
	message(`{"input_tokens":3,"cache_creation_input_tokens":null,"cache_read_input_tokens":null}`, `{"output_tokens":1}`, usage{3, 0, 0, 0, false})
	message(`{"input_tokens":3}`, `{"output_tokens":1}`, usage{3, 0, 0, 0, false})

	converse := func(u string, want usage) {
		t.Helper()
		f(wire.Bedrock, `{"output":{"message":{"content":[]}},"usage":`+u+`}`, want)
		f(wire.Bedrock, string(eventstream.Append(nil, eventstream.Message{
			Type: []byte("event"), EventType: []byte("metadata"), ContentType: []byte("application/json"), Payload: []byte(`{"usage":` + u + `}`),
		})), want)
	}
	converse(`{"inputTokens":9,"cacheReadInputTokens":20,"cacheWriteInputTokens":30,"cacheDetails":[{"inputTokens":10,"ttl":"1h"},{"inputTokens":20,"ttl":"5m"}]}`,
		usage{59, 20, 30, 10, true})
	converse(`{"inputTokens":9,"cacheReadInputTokens":0,"cacheWriteInputTokens":0}`, usage{9, 0, 0, 0, true})
	converse(`{"inputTokens":9,"cacheDetails":{}}`, usage{9, 0, 0, 0, false})

	// Gemini leaves out a count of 0.
	gemini := func(u string, want usage) {
		t.Helper()
		f(wire.Gemini, `{"candidates":[],"usageMetadata":`+u+`}`, want)
		f(wire.Gemini, `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":7}}`+"\n\ndata: "+
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":`+u+"}\n\n", want)
	}
	gemini(`{"promptTokenCount":5000,"cachedContentTokenCount":4096,"cacheTokensDetails":[{"modality":"TEXT","tokenCount":4096}]}`, usage{5000, 4096, 0, 0, true})
	gemini(`{"promptTokenCount":5000}`, usage{5000, 0, 0, 0, true})
	f(wire.Gemini, `{"candidates":[],"usageMetadata":{"totalTokenCount":3}}`, usage{})
	f(wire.Gemini, `{"candidates":[]}`, usage{})

	f(wire.Cohere, `{"message":{"content":[]},"usage":{"tokens":{"input_tokens":70},"cached_tokens":64}}`, usage{70, 64, 0, 0, true})
	f(wire.Cohere, `{"message":{"content":[]},"usage":{"tokens":{"input_tokens":70}}}`, usage{70, 0, 0, 0, false})
}
