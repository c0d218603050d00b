package shape

import "testing"

func TestDetect(t *testing.T) {
	f := func(path string, want Dialect) {
		t.Helper()
		if got := Detect(path); got != want {
			t.Errorf("Detect(%q) = %s, want %s", path, got, want)
		}
	}
	f("/v1/chat/completions", OpenAIChat)
	f("/openai/deployments/gpt-5/chat/completions/", OpenAIChat)
	f("/v1beta/openai/chat/completions", OpenAIChat)
	f("/api/chat", OpenAIChat)
	f("/v1/responses", OpenAIResponses)
	f("/openai/v1/responses", OpenAIResponses)
	f("/v1/messages", Anthropic)
	f("/anthropic/v1/messages", Anthropic)
	f("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict", Anthropic)
	f("/v1beta/models/gemini-2.5-flash:generateContent", Gemini)
	f("/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:streamGenerateContent", Gemini)
	f("/v1beta/models/gemini-2.5-flash%3AgenerateContent", Gemini)
	f("/model/meta.llama3-2-1b-instruct-v1%3A0/converse-stream", Bedrock)
	f("/model/anthropic.claude-x/converse", Bedrock)
	f("/v2/chat", Cohere)
	for _, path := range []string{
		"", "/", "/v1/embeddings", "/v1/completions", "/model/x/invoke", "/v1/messages/count_tokens", "/v1/chat",
		"/v1beta/models/gemini:countTokens", "/publishers/mistralai/models/m:rawPredict",
	} {
		f(path, Other)
	}
}
