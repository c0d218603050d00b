package provider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An answer reports what was read from the cache as the provider does, streamed or not, and nothing without a cache.
func TestCacheUsage(t *testing.T) {
	long := strings.Repeat("a long text ", 2000)
	chat := `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]`
	f := func(path, body, first, second string) {
		t.Helper()
		send := func(h http.Handler) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			return w.Body.String()
		}
		h := New(Config{Cache: promptcaching.New(promptcaching.Options{})})
		for _, want := range []string{first, second} {
			must.Contain(t, send(h), want, path)
		}
		if got := send(New(Config{})); strings.Contains(got, "cache") {
			t.Errorf("%s: without a cache: %s", path, got)
		}
	}
	f(OpenAIPath+"/chat/completions", chat+"}", `"prompt_tokens":6001,"completion_tokens"`, `"prompt_tokens_details":{"cached_tokens":5888}`)
	f(OpenAIPath+"/chat/completions", chat+`,"stream":true,"stream_options":{"include_usage":true}}`, `{"cached_tokens":0}`, `{"cached_tokens":5888}`)
	f(DeepSeekPath+"/chat/completions", chat+"}", `"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":6001`, `"prompt_cache_hit_tokens":5952,"prompt_cache_miss_tokens":49`)
	messages := chat + `,"max_tokens":9,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	f(AnthropicPath+"/v1/messages", messages+"}", `"ephemeral_1h_input_tokens":6002`, `"cache_read_input_tokens":6002`)
	f(AnthropicPath+"/v1/messages", messages+`,"stream":true}`, `"cache_creation_input_tokens":6002`, `"cache_read_input_tokens":6002`)
	contents := `{"contents":[{"role":"user","parts":[{"text":"` + long + `"}]}]}`
	f(GenerateContentPath+"/models/gemini-2.5-flash:generateContent", contents, `"promptTokenCount":6001`, `"cachedContentTokenCount":5952`)
	f(GenerateContentPath+"/models/gemini-2.5-flash:streamGenerateContent", contents, `data: {`, `"cachedContentTokenCount":5952`)
}

// Content that was cached by name is read, and what was not is refused.
func TestCachedContents(t *testing.T) {
	h := New(Config{Cache: promptcaching.New(promptcaching.Options{})})
	send := func(path, body string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, GenerateContentPath+path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	part := `[{"role":"user","parts":[{"text":"` + strings.Repeat("a long text ", 2000) + `"}]}]`
	status, body := send("/cachedContents", `{"model":"models/gemini-2.5-flash","contents":`+part+`}`)
	_, after, ok := strings.Cut(body, `"name":"`)
	if status != http.StatusOK || !ok {
		t.Fatalf("%d %s", status, body)
	}
	name, _, _ := strings.Cut(after, `"`)
	const ask = `{"contents":[{"role":"user","parts":[{"text":"what is it about?"}]}],"cachedContent":"`
	status, body = send("/models/gemini-2.5-flash:generateContent", ask+name+`"}`)
	must.Contain(t, body, `"cachedContentTokenCount":6001`, status)
	status, body = send("/models/gemini-2.5-flash:generateContent", ask+`cachedContents/none"}`)
	must.Equal(t, status, http.StatusForbidden, "%s", body)
	status, body = send("/cachedContents", `{"model":"models/gemini-2.5-flash"}`)
	must.Equal(t, status, http.StatusBadRequest, "%s", body)
}
