package wire

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// urls are the forms of URLs with their targets.
var urls = []struct {
	url  string
	want Target
}{
	{"https://api.openai.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"https://API.openai.com/v1/chat/completions/", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"https://eu.api.openai.com/v1/chat/completions?x=1", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=1", Target{Dialect: OpenAIChat, Variant: Azure}},
	{"https://x.openai.azure.com/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Azure}},
	{"https://x.services.ai.azure.com/models/chat/completions", Target{Dialect: OpenAIChat, Variant: Azure}},
	{"https://x.eastus2.models.ai.azure.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://gateway.corp/openai/deployments/gpt-4o/chat/completions", Target{Dialect: OpenAIChat, Variant: Azure}},
	{"<AZURE_OPENAI_ENDPOINT>/openai/deployments/gpt-4o/chat/completions", Target{Dialect: OpenAIChat, Variant: Azure}},
	{"https://api.deepseek.com/beta/chat/completions", Target{Dialect: OpenAIChat, Variant: DeepSeek}},
	{"https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", Target{Dialect: OpenAIChat, Variant: GeminiOpenAI}},
	{"https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions", Target{Dialect: OpenAIChat, Variant: GeminiOpenAI}},
	{"https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi/chat/completions", Target{Dialect: OpenAIChat, Variant: GeminiOpenAI}},
	{"https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/123/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"http://127.0.0.1:4000/v1beta/openai/chat/completions", Target{Dialect: OpenAIChat, Variant: GeminiOpenAI}},
	{"https://api.mistral.ai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Mistral}},
	{"https://api.groq.com/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Groq}},
	{"https://api.x.ai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: XAI}},
	{"https://api.together.xyz/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Together}},
	{"https://api.fireworks.ai/inference/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Fireworks}},
	{"https://openrouter.ai/api/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenRouter}},
	{"https://api.moonshot.cn/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Kimi}},
	{"https://open.bigmodel.cn/api/paas/v4/chat/completions", Target{Dialect: OpenAIChat, Variant: GLM}},
	{"https://api.z.ai/api/coding/paas/v4/chat/completions", Target{Dialect: OpenAIChat, Variant: GLM}},
	{"https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Qwen}},
	{"https://api.minimaxi.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: MiniMax}},
	{"http://localhost:11434/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Ollama}},
	{"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://bedrock-mantle.us-east-1.api.aws/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://api.cohere.ai/compatibility/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://api.anthropic.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://api.perplexity.ai/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://router.huggingface.co/groq/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://api.cerebras.ai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Cerebras}},
	{"https://api.openai.com/v1/responses/compact", Target{Dialect: OpenAIResponses, Variant: OpenAI}},
	{"https://api.xiaomimimo.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: MiMo}},
	{"https://token-plan-cn.xiaomimimo.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: MiMo}},
	{"https://api.meta.ai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: Meta}},
	{"https://api.meta.ai/v1/responses", Target{Dialect: OpenAIResponses, Variant: OtherVariant}},
	{"https://dbc-1.cloud.databricks.com/serving-endpoints/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://notopenai.com/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://api.openai.com.evil.example/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	// A proxy: the path names the variant, if anything does. "openai" in the path of a public host names a format only.
	{"http://127.0.0.1:4000/deepseek/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: DeepSeek}},
	{"http://127.0.0.1:4000/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"http://[::1]:4000/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"http://10.1.2.3/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"http://proxy.llm.svc/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"https://8.8.8.8/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://llm.example.com/openai/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"https://gateway.ai.cloudflare.com/v1/acc/gw/openai/chat/completions", Target{Dialect: OpenAIChat, Variant: OpenAI}},
	{"http://127.0.0.1:4000/deepseeker/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"http://localhost:8000/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: OtherVariant}},
	{"/vllm/v1/chat/completions", Target{Dialect: OpenAIChat, Variant: VLLM}},

	{"http://127.0.0.1:11434/api/chat", Target{Dialect: OpenAIChat, Variant: Ollama, Native: true}},
	{"https://ollama.com/api/chat", Target{Dialect: OpenAIChat, Variant: Ollama, Native: true}},
	{"http://webui/ollama/api/chat", Target{Dialect: OpenAIChat, Variant: Ollama, Native: true}},

	{"https://api.openai.com/v1/responses", Target{Dialect: OpenAIResponses, Variant: OpenAI}},
	{"https://x.openai.azure.com/openai/responses?api-version=1", Target{Dialect: OpenAIResponses, Variant: Azure}},
	{"https://x.services.ai.azure.com/openai/v1/responses", Target{Dialect: OpenAIResponses, Variant: Azure}},
	{"https://api.deepseek.com/responses", Target{Dialect: OpenAIResponses, Variant: DeepSeekResponses}},
	{"https://api.x.ai/v1/responses", Target{Dialect: OpenAIResponses, Variant: XAI}},
	{"https://api.groq.com/openai/v1/responses", Target{Dialect: OpenAIResponses, Variant: OtherVariant}},
	{"https://openrouter.ai/api/v1/responses", Target{Dialect: OpenAIResponses, Variant: OtherVariant}},
	{"https://bedrock-mantle.us-east-1.api.aws/v1/responses", Target{Dialect: OpenAIResponses, Variant: OtherVariant}},
	{"http://localhost:4000/v1/responses", Target{Dialect: OpenAIResponses, Variant: OtherVariant}},

	{"https://api.anthropic.com/v1/messages?beta=true", Target{Dialect: Anthropic, Variant: AnthropicAPI}},
	{"http://127.0.0.1:4000/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: AnthropicAPI}},
	{"http://127.0.0.1:3456/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://api.deepseek.com/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://api.moonshot.ai/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://api.z.ai/api/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://dashscope.aliyuncs.com/apps/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://openrouter.ai/api/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{"https://x.services.ai.azure.com/anthropic/v1/messages", Target{Dialect: Anthropic, Variant: OtherVariant}},
	{
		"https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
		Target{Dialect: Anthropic, Variant: VertexAnthropic, Model: "claude-sonnet-4-5@20250929"},
	},
	{
		"https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-4-6%3ArawPredict",
		Target{Dialect: Anthropic, Variant: VertexAnthropic, Model: "claude-opus-4-6"},
	},
	{"https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-6/invoke", Target{Dialect: Anthropic, Variant: OtherVariant, Model: "us.anthropic.claude-sonnet-4-6"}},
	{
		"https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream",
		Target{Dialect: Anthropic, Variant: OtherVariant, Model: "anthropic.claude-3-haiku-20240307-v1:0"},
	},

	{"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent", Target{Dialect: Gemini, Variant: GeminiAPI, Model: "gemini-2.5-flash"}},
	{"https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", Target{Dialect: Gemini, Variant: GeminiAPI, Model: "gemini-3-pro"}},
	{"https://generativelanguage.googleapis.com/v1beta/models/gemini/gemini-3-pro:generateContent", Target{Dialect: Gemini, Variant: GeminiAPI, Model: "gemini/gemini-3-pro"}},
	{"https://generativelanguage.googleapis.com/v1beta/tunedModels/mine:generateContent", Target{Dialect: Gemini, Variant: GeminiAPI, Model: "mine"}},
	{"http://127.0.0.1:4000/v1beta/models/gemini-3-pro%3agenerateContent", Target{Dialect: Gemini, Variant: GeminiAPI, Model: "gemini-3-pro"}},
	{"https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.0-flash:generateContent", Target{Dialect: Gemini, Variant: VertexGemini, Model: "gemini-2.0-flash"}},
	{
		"https://<LOCATION>-aiplatform.googleapis.com/v1beta1/projects/p/locations/<LOCATION>/publishers/google/models/gemini-2.5-flash:streamGenerateContent",
		Target{Dialect: Gemini, Variant: VertexGemini, Model: "gemini-2.5-flash"},
	},
	{"http://proxy/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:generateContent", Target{Dialect: Gemini, Variant: VertexGemini, Model: "gemini-3-pro"}},

	{"https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-2-lite-v1:0/converse", Target{Dialect: Bedrock, Variant: BedrockAPI, Model: "us.amazon.nova-2-lite-v1:0"}},
	{"https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com/model/amazon.nova-lite-v1%3A0/converse-stream", Target{Dialect: Bedrock, Variant: BedrockAPI, Model: "amazon.nova-lite-v1:0"}},
	{
		"https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude/converse",
		Target{Dialect: Bedrock, Variant: BedrockAPI, Model: "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude"},
	},
	{"http://127.0.0.1:4000/bedrock/model/m%zz/converse", Target{Dialect: Bedrock, Variant: BedrockAPI, Model: "m%zz"}},

	{"https://api.cohere.com/v2/chat", Target{Dialect: Cohere, Variant: CohereAPI}},
	{"https://api.cohere.ai/v2/chat", Target{Dialect: Cohere, Variant: CohereAPI}},
	{"https://x.services.example/providers/cohere/v2/chat", Target{Dialect: Cohere, Variant: CohereAPI}},

	{"", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/completions", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/embeddings", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/responses/resp_1", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/responses/resp_1/cancel", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/responses/resp_1/compact", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://generativelanguage.googleapis.com/v1beta/interactions", Target{Dialect: Interactions, Variant: GeminiAPI}},
	{"https://generativelanguage.googleapis.com/v1beta/interactions/v1_a", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://generativelanguage.googleapis.com/v1beta/interactions/v1_a/cancel", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://gateway.example.com/v1beta/interactions", Target{Dialect: Interactions, Variant: GeminiAPI}},
	{"http://127.0.0.1:8089/gemini/v1beta/interactions", Target{Dialect: Interactions, Variant: GeminiAPI}},
	{"https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/l/interactions", Target{Dialect: Interactions, Variant: VertexGemini}},
	{"https://api.openai.com/v1/chat/completions/chatcmpl-1", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/models?x=/chat/completions", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.openai.com/v1/threads/t/messages", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.anthropic.com/v1/messages/count_tokens", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.anthropic.com/v1/messages/batches", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:countTokens", Target{Dialect: Other, Variant: OtherVariant, Model: "gemini-3-pro"}},
	{"https://cloudcode-pa.googleapis.com/v1internal:generateContent", Target{Dialect: Other, Variant: OtherVariant, Model: "v1internal"}},
	{"https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", Target{Dialect: Other, Variant: OtherVariant, Model: "count-tokens"}},
	{"https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/mistralai/models/mistral-large:rawPredict", Target{Dialect: Other, Variant: OtherVariant, Model: "mistral-large"}},
	{"https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-embedding-001:predict", Target{Dialect: Other, Variant: OtherVariant, Model: "gemini-embedding-001"}},
	{"https://bedrock-runtime.us-east-1.amazonaws.com/model/cohere.command-text-v14/invoke", Target{Dialect: Other, Variant: OtherVariant, Model: "cohere.command-text-v14"}},
	{"https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v2%3A1/invoke", Target{Dialect: Other, Variant: OtherVariant, Model: "anthropic.claude-v2:1"}},
	{"https://api.cohere.com/v1/chat", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://api.mistral.ai/v2/chat", Target{Dialect: Other, Variant: OtherVariant}},
	{"http://127.0.0.1:11434/api/generate", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://app.example/api/chat", Target{Dialect: Other, Variant: OtherVariant}},
	{"https://dashscope.aliyuncs.com/api/v1/services/aigc/text-generation/generation", Target{Dialect: Other, Variant: OtherVariant}},
}

func TestDetectURL(t *testing.T) {
	for _, u := range urls {
		got, _ := DetectURL(u.url)
		must.Equal(t, got, u.want, "%s", u.url)
	}
	seen := map[Dialect][]Variant{}
	for _, u := range urls {
		seen[u.want.Dialect] = append(seen[u.want.Dialect], u.want.Variant)
	}
	for _, d := range Dialects {
		for _, v := range d.Variants() {
			if !slices.Contains(seen[d], v) && v != SGLang && v != LlamaCPP && v != LiteLLM {
				t.Errorf("no URL for %s/%s", d, v)
			}
		}
	}
}

func TestWithModel(t *testing.T) {
	f := func(v Variant, model string, want Variant) {
		t.Helper()
		must.Equal(t, (Target{Dialect: OpenAIChat, Variant: v}).WithModel(model), Target{Dialect: OpenAIChat, Variant: want, Model: model}, "%s %s", v, model)
	}
	f(GeminiOpenAI, "gemini-3-pro", GeminiOpenAI)
	f(GeminiOpenAI, "google/gemini-3-pro", GeminiOpenAI)
	f(GeminiOpenAI, "models/gemini-3-pro", GeminiOpenAI)
	f(GeminiOpenAI, "meta/llama-4-maas", OtherVariant)
	f(OtherVariant, "vertex_ai/gemini-3-pro", LiteLLM)
	// The provider behind a gateway does not determine the variant.
	f(OtherVariant, "deepseek/deepseek-chat", OtherVariant)
	f(OtherVariant, "anthropic/claude-opus-4.6", OtherVariant)
	f(OpenRouter, "openai/gpt-5", OpenRouter)
	t1 := Target{Dialect: Gemini, Variant: GeminiAPI, Model: "path"}
	must.Equal(t, t1.WithModel(""), t1, "no model took the path's away")
}

func TestStreams(t *testing.T) {
	for _, path := range []string{
		"/v1beta/models/gemini-3-pro:streamGenerateContent", "/models/m%3AstreamGenerateContent", "/publishers/anthropic/models/m:streamRawPredict",
		"/model/m/converse-stream", "/model/m/invoke-with-response-stream",
	} {
		if !Streams(path) {
			t.Error(path)
		}
	}
	for _, path := range []string{"", "/v1beta/models/gemini-3-pro:generateContent", "/model/m/converse", "/v1/chat/completions", "/converse-stream/x"} {
		if Streams(path) {
			t.Error(path)
		}
	}
}

func TestSplitURL(t *testing.T) {
	f := func(url, host, port, path string) {
		t.Helper()
		if h, p, q := SplitURL(url); h != host || p != port || q != path {
			t.Errorf("%q: %q %q %q", url, h, p, q)
		}
	}
	f("https://a.b/c?d#e", "a.b", "", "/c")
	f("http://user:key@a.b:80/c", "a.b", "80", "/c")
	f("http://[::1]:8080/c", "[::1]", "8080", "/c")
	f("http://[::1]", "[::1]", "", "")
	f("a.b/c", "a.b", "", "/c")
	f("/c/d", "", "", "/c/d")
	f("https://a.b?u=http://x/y", "a.b", "", "")
	f("", "", "", "")
}

func TestDetectURLAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() {
		DetectURL("https://traceloop.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=1")
		DetectURL("http://127.0.0.1:4000/deepseek/v1/chat/completions")
		DetectURL("https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:generateContent")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestProvider(t *testing.T) {
	f := func(v Variant, want string) {
		t.Helper()
		must.Equal(t, Target{Variant: v}.Provider(), want, "%s", v)
	}
	f(OpenAI, "openai")
	f(Azure, "azure.ai.openai")
	f(DeepSeek, "deepseek")
	f(GeminiOpenAI, "gcp.gemini")
	f(Mistral, "mistral_ai")
	f(Groq, "groq")
	f(XAI, "x_ai")
	f(Kimi, "moonshot_ai")
	f(Together, "together")
	f(AnthropicAPI, "anthropic")
	f(VertexAnthropic, "gcp.vertex_ai")
	f(GeminiAPI, "gcp.gemini")
	f(VertexGemini, "gcp.vertex_ai")
	f(BedrockAPI, "aws.bedrock")
	f(CohereAPI, "cohere")
	f(DeepSeekResponses, "deepseek")
	f("", "other")
}

func BenchmarkDetectURL(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		DetectURL("https://traceloop.openai.azure.com/openai/deployments/gpt-4o/chat/completions")
	}
}

// Hooks know the dialect by the path alone.
func TestPathDialect(t *testing.T) {
	f := func(path string, want Dialect) {
		t.Helper()
		must.Equal(t, PathDialect(path), want, "PathDialect(%q)", path)
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
		"", "/", "/v1/embeddings", "/v1/completions", "/model/x/invoke", "/model/us.anthropic.claude-sonnet-4-6/invoke", "/v1/messages/count_tokens", "/v1/chat", "/v1/threads/t/messages",
		"/v1beta/models/gemini:countTokens", "/v1internal:generateContent", "/publishers/mistralai/models/m:rawPredict",
	} {
		f(path, Other)
	}
}

func TestLooksLikeCall(t *testing.T) {
	f := func(want Dialect, path, port string) {
		t.Helper()
		if got, ok := LooksLikeCall(path, port); got != want || ok != (want != Other) {
			t.Errorf("LooksLikeCall(%q, %q) = %s, %t, want %s", path, port, got, ok, want)
		}
	}
	f(OpenAIChat, "/v1/chat/completions", "")
	f(OpenAIChat, "/team-a/chat/completions/", "8000")
	f(OpenAIChat, "/api/chat", OllamaPort)
	f(OpenAIChat, "/ollama/api/chat", "")
	f(OpenAIResponses, "/v1/responses", "")
	f(OpenAIResponses, "/openai/deployments/d/responses", "")
	f(Anthropic, "/anthropic/v1/messages", "")
	f(Anthropic, "/model/anthropic.claude-sonnet-4/invoke", "")
	f(Gemini, "/v1beta/models/gemini-3-pro:streamGenerateContent", "")
	f(Bedrock, "/model/amazon.nova-pro-v1%3A0/converse-stream", "")
	f(Cohere, "/cohere/v2/chat", "")
	f(Other, "/api/chat", "8080") // a chat of people
	f(Other, "/v2/chat", "")
	f(Other, "/surveys/17/responses", "")
	f(Other, "/v1/messages/count_tokens", "")
	f(Other, "/v1/embeddings", "")
	f(Other, "/v1/traces", "4318")
	f(Other, "/converse", "")
	f(Other, "/model/own/invoke", "")
	f(Other, "", "")
	must.Equal(t, testing.AllocsPerRun(10, func() { LooksLikeCall("/v1/models/gemini-3-pro:generateContent", "") }), 0, "allocations")
}

func TestKnownHost(t *testing.T) {
	f := func(host, port string, want bool) {
		t.Helper()
		must.Equal(t, KnownHost(host, port), want, "%s:%s", host, port)
	}
	f("api.openai.com", "", true)
	f("eu.api.openai.com", "443", true)
	f("x.openai.azure.us", "", true)
	f("europe-west1-aiplatform.googleapis.com", "", true)
	f("bedrock-runtime.us-east-1.amazonaws.com", "", true)
	f("bedrock-mantle.us-east-1.api.aws", "", true)
	f("api.kimi.com", "", true)
	f("localhost", "11434", true)
	f("::1", "11434", true)

	f("localhost", "8080", false)
	f("10.0.0.7", "11434", false)
	f("openai.com", "", false)
	f("notapi.openai.com.evil.example", "", false)
	f("bedrock-runtime.amazonaws.com", "", false)
	f("s3.us-east-1.amazonaws.com", "", false)
	f("api.perplexity.ai", "", false)
	f("gateway.ai.cloudflare.com", "", false)
	f("", "", false)
}

// The table for Python has the recorded hosts only, so none of them may include an unrecorded one.
func TestHosts(t *testing.T) {
	for _, p := range Providers {
		for _, h := range p.Hosts {
			for host := h.Name; host != ""; _, host, _ = strings.Cut(host, ".") {
				if of := ProviderOf(host); len(p.Variants) == 0 && of != nil && len(of.Variants) > 0 {
					t.Errorf("%s of %s is below a host of %s", h.Name, p.Name, of.Name)
				}
			}
			if _, err := url.Parse("https://" + h.Name); err != nil || strings.ToLower(h.Name) != h.Name {
				t.Errorf("%s: %v", h.Name, err)
			}
		}
	}
}
