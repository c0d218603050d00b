package facts

import "testing"

func TestDetect(t *testing.T) {
	f := func(url string, want Variant) {
		t.Helper()
		got := Detect(url, "m", nil)
		if got != (Target{Dialect: OpenAIChat, Variant: want, Model: "m"}) {
			t.Errorf("%s: %+v, want %s", url, got, want)
		}
	}
	f("https://api.openai.com/v1/chat/completions", OpenAI)
	f("https://API.openai.com/v1/chat/completions/", OpenAI)
	f("https://eu.api.openai.com/v1/chat/completions", OpenAI)
	f("https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=1", Azure)
	f("https://x.services.ai.azure.com/models/chat/completions", Azure)
	f("https://gateway.corp/openai/deployments/gpt-4o/chat/completions", Azure)
	f("https://api.deepseek.com/beta/chat/completions", DeepSeek)
	f("https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", GeminiOpenAI)
	f("https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions", GeminiOpenAI)
	f("http://127.0.0.1:4000/v1beta/openai/chat/completions", GeminiOpenAI)
	f("https://api.mistral.ai/v1/chat/completions", Mistral)
	f("https://api.groq.com/openai/v1/chat/completions", Groq)
	f("https://api.x.ai/v1/chat/completions", XAI)
	f("https://api.together.xyz/v1/chat/completions", Together)
	f("https://api.fireworks.ai/inference/v1/chat/completions", Fireworks)
	f("https://openrouter.ai/api/v1/chat/completions", OpenRouter)
	f("https://api.moonshot.cn/v1/chat/completions", Kimi)
	f("https://open.bigmodel.cn/api/paas/v4/chat/completions", GLM)
	f("https://api.z.ai/api/coding/paas/v4/chat/completions", GLM)
	f("https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions", Qwen)
	f("https://api.minimaxi.com/v1/chat/completions", MiniMax)
	f("http://localhost:11434/v1/chat/completions", Ollama)
	// A proxy: the variant is in the path, or nowhere.
	f("http://127.0.0.1:4000/deepseek/v1/chat/completions", DeepSeek)
	f("http://127.0.0.1:4000/openai/v1/chat/completions", OpenAI)
	f("http://127.0.0.1:4000/deepseeker/v1/chat/completions", OtherVariant)
	f("http://localhost:8000/v1/chat/completions", OtherVariant)
	f("https://notopenai.com/v1/chat/completions", OtherVariant)
	f("https://api.openai.com.evil.example/v1/chat/completions", OtherVariant)
	f("/vllm/v1/chat/completions", VLLM)

	other := func(url string) {
		t.Helper()
		if got := Detect(url, "m", nil); got != (Target{Dialect: Other, Variant: OtherVariant, Model: "m"}) {
			t.Errorf("%s: %+v, want other", url, got)
		}
	}
	other("")
	other("https://api.openai.com/v1/responses")
	other("https://api.openai.com/v1/embeddings")
	other("https://api.anthropic.com/v1/messages")
	other("https://api.openai.com/v1/models?x=/chat/completions")

	// The model is read from the body when nobody told it.
	const chat = "https://api.openai.com/v1/chat/completions"
	if got := Detect(chat, "", []byte(` {"messages":[{"model":"x"}],"model":"a\/b"}`)); got.Model != "a/b" {
		t.Errorf("model %q", got.Model)
	}
	if got := Detect(chat, "", []byte(`[]`)); got.Model != "" {
		t.Errorf("model %q", got.Model)
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

func TestDetectAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() {
		Detect("https://traceloop.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=1", "m", nil)
		Detect("http://127.0.0.1:4000/deepseek/v1/chat/completions", "m", nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestProvider(t *testing.T) {
	f := func(v Variant, want string) {
		t.Helper()
		if got := Provider(Target{Variant: v}); got != want {
			t.Errorf("%s: %q, want %q", v, got, want)
		}
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
	f("", "other")
}
