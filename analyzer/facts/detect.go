package facts

import "strings"

// Detect says who judges a request that was sent to url. The dialect follows from the path, the variant from the
// host; behind an unknown host, a proxy say, from a path segment that is exactly a variant's name. When model is
// empty, it is read from the body.
func Detect(url, model string, body []byte) Target {
	t := Target{Dialect: Other, Variant: OtherVariant, Model: model}
	host, port, path := SplitURL(url)
	if strings.HasSuffix(strings.TrimRight(path, "/"), "/chat/completions") {
		t.Dialect, t.Variant = OpenAIChat, variantOf(host, port, path)
	}
	if t.Model == "" {
		t.Model = modelOf(body)
	}
	return t
}

// SplitURL cuts a URL into host, port and path without checking it; port is "" when none is given, query and
// fragment are dropped. The parts share url's memory. A url without "://" starts with its host, or with its path if it
// starts with a slash.
func SplitURL(url string) (host, port, path string) {
	if n := strings.Index(url, "://"); n >= 0 {
		url = url[n+3:]
	}
	if n := strings.IndexAny(url, "?#"); n >= 0 {
		url = url[:n]
	}
	if n := strings.IndexByte(url, '/'); n >= 0 {
		url, path = url[:n], url[n:]
	}
	host = url[strings.LastIndexByte(url, '@')+1:]
	if n := strings.LastIndexByte(host, ':'); n > strings.LastIndexByte(host, ']') {
		host, port = host[:n], host[n+1:]
	}
	return host, port, path
}

// hosts maps a host, or the end of one from a dot on, to its variant.
var hosts = map[string]Variant{
	"api.openai.com":                    OpenAI,
	"openai.azure.com":                  Azure,
	"services.ai.azure.com":             Azure,
	"cognitiveservices.azure.com":       Azure,
	"openai.azure.us":                   Azure,
	"openai.azure.cn":                   Azure,
	"api.deepseek.com":                  DeepSeek,
	"generativelanguage.googleapis.com": GeminiOpenAI,
	"aiplatform.googleapis.com":         GeminiOpenAI,
	"api.mistral.ai":                    Mistral,
	"codestral.mistral.ai":              Mistral,
	"api.groq.com":                      Groq,
	"api.x.ai":                          XAI,
	"api.together.xyz":                  Together,
	"api.together.ai":                   Together,
	"api.fireworks.ai":                  Fireworks,
	"openrouter.ai":                     OpenRouter,
	"api.moonshot.cn":                   Kimi,
	"api.moonshot.ai":                   Kimi,
	"api.kimi.com":                      Kimi,
	"open.bigmodel.cn":                  GLM,
	"api.z.ai":                          GLM,
	"dashscope.aliyuncs.com":            Qwen,
	"dashscope-intl.aliyuncs.com":       Qwen,
	"dashscope-us.aliyuncs.com":         Qwen,
	"dashscope-finance.aliyuncs.com":    Qwen,
	"api.minimax.io":                    MiniMax,
	"api.minimaxi.com":                  MiniMax,
	"api.minimax.chat":                  MiniMax,
	"ollama.com":                        Ollama,
}

// variants are the names that a path segment may have.
var variants = map[string]Variant{
	"openai": OpenAI, "azure": Azure, "deepseek": DeepSeek, "gemini_openai": GeminiOpenAI, "mistral": Mistral,
	"groq": Groq, "xai": XAI, "together": Together, "fireworks": Fireworks, "openrouter": OpenRouter, "kimi": Kimi,
	"glm": GLM, "qwen": Qwen, "minimax": MiniMax, "ollama": Ollama, "vllm": VLLM, "sglang": SGLang,
	"llamacpp": LlamaCPP, "litellm": LiteLLM,
}

func variantOf(host, port, path string) Variant {
	for suffix := strings.ToLower(host); suffix != ""; {
		if v, ok := hosts[suffix]; ok {
			return v
		}
		if strings.HasSuffix(suffix, "-aiplatform.googleapis.com") {
			return GeminiOpenAI // us-central1-aiplatform.googleapis.com
		}
		_, suffix, _ = strings.Cut(suffix, ".")
	}
	switch {
	case port == "11434":
		return Ollama
	case strings.Contains(path, "/openai/deployments/"):
		return Azure
	case strings.Contains(path, "/v1beta/openai/"):
		return GeminiOpenAI
	}
	for segment := range strings.SplitSeq(path, "/") {
		if v, ok := variants[segment]; ok {
			return v
		}
	}
	return OtherVariant
}

// Provider is the gen_ai.provider.name of t: OpenTelemetry's name where it has one, else the variant's.
func Provider(t Target) string {
	switch t.Variant {
	case Azure:
		return "azure.ai.openai"
	case GeminiOpenAI:
		return "gcp.gemini"
	case Mistral:
		return "mistral_ai"
	case XAI:
		return "x_ai"
	case Kimi:
		return "moonshot_ai"
	case "":
		return string(OtherVariant)
	default:
		return string(t.Variant)
	}
}
