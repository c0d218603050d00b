package facts

import (
	"net/netip"
	"strings"
)

// A provider is whose host it is: the variant of its chat completions, or one of these.
type provider = Variant

const (
	hostCohere    provider = "cohere"
	hostAnthropic provider = "anthropic"
	hostBedrock   provider = "bedrock"
	hostVertex    provider = "vertex"
	hostRelay     provider = "relay"   // passes on, as it is, to the provider that a path segment names
	hostForeign   provider = "foreign" // no variant is its own
)

// hosts maps a host, or the end of one from a dot on, to its provider. Foreign hosts are those whose paths would else be
// taken for another's: "openai" in a path often means no more than that it speaks like OpenAI.
var hosts = map[string]provider{
	"api.openai.com":                    OpenAI,
	"openai.azure.com":                  Azure,
	"services.ai.azure.com":             Azure,
	"cognitiveservices.azure.com":       Azure,
	"openai.azure.us":                   Azure,
	"openai.azure.cn":                   Azure,
	"api.deepseek.com":                  DeepSeek,
	"generativelanguage.googleapis.com": GeminiOpenAI,
	"aiplatform.googleapis.com":         hostVertex,
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
	"api.anthropic.com":                 hostAnthropic,
	"api.cohere.com":                    hostCohere,
	"api.cohere.ai":                     hostCohere,
	"gateway.ai.cloudflare.com":         hostRelay,
	"api.perplexity.ai":                 hostForeign,
	"router.huggingface.co":             hostForeign,
	"api.cerebras.ai":                   hostForeign,
	"api.studio.nebius.com":             hostForeign,
	"api.tokenfactory.nebius.com":       hostForeign,
	"api.deepinfra.com":                 hostForeign,
	"api.novita.ai":                     hostForeign,
	"api.sambanova.ai":                  hostForeign,
	"api.writer.com":                    hostForeign,
	"integrate.api.nvidia.com":          hostForeign,
	"api.githubcopilot.com":             hostForeign,
	"models.github.ai":                  hostForeign,
	"models.inference.ai.azure.com":     hostForeign,
	"models.ai.azure.com":               hostForeign, // serverless endpoints: each model with its own server
	"ai-gateway.vercel.sh":              hostForeign,
	"cloudcode-pa.googleapis.com":       hostForeign,
}

// providerOf is the provider of a host in lower case, "" if nobody knows it.
func providerOf(host string) provider {
	for suffix := host; suffix != ""; {
		if p, ok := hosts[suffix]; ok {
			return p
		}
		switch label, rest, _ := strings.Cut(suffix, "."); {
		case strings.HasSuffix(label, "-aiplatform") && rest == "googleapis.com": // us-central1-aiplatform.googleapis.com
			return hostVertex
		case isBedrock(label) && isAWS(rest): // bedrock-runtime.us-east-1.amazonaws.com
			return hostBedrock
		default:
			suffix = rest
		}
	}
	return ""
}

func isBedrock(label string) bool {
	return label == "bedrock-runtime" || label == "bedrock-runtime-fips" || label == "bedrock-mantle"
}

func isAWS(host string) bool {
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") || strings.HasSuffix(host, ".api.aws")
}

func isVertex(host string) bool { return providerOf(host) == hostVertex }

// chatVariant is whose rules apply to chat completions.
func chatVariant(host, port, path string) Variant {
	switch p := providerOf(host); p {
	case hostVertex:
		if strings.Contains(path, "/endpoints/openapi/") {
			return GeminiOpenAI
		}
		return OtherVariant // a model that a customer deployed
	case hostCohere, hostAnthropic, hostBedrock, hostForeign:
		return OtherVariant
	case "", hostRelay:
	default:
		return p
	}
	switch {
	case port == "11434":
		return Ollama
	case strings.Contains(path, "/openai/deployments/"):
		return Azure
	case strings.Contains(path, "/v1beta/openai/"):
		return GeminiOpenAI
	}
	return named(host, path)
}

// responsesVariant is chatVariant for Responses.
func responsesVariant(host, port, path string) Variant {
	switch v := chatVariant(host, port, path); v {
	case OpenAI, Azure, XAI:
		return v
	case DeepSeek:
		return DeepSeekResponses
	default:
		return OtherVariant
	}
}

// anthropicVariant is chatVariant for Messages. Others that offer an endpoint in Anthropic's format have rules of their own.
func anthropicVariant(host, path string) Variant {
	switch p := providerOf(host); {
	case p == hostAnthropic, (p == hostRelay || p == "" && isLocal(host)) && hasSegment(path, "anthropic"):
		return AnthropicAPI
	}
	return OtherVariant
}

// variants are the names that a path segment may have.
var variants = map[string]Variant{
	"openai": OpenAI, "azure": Azure, "deepseek": DeepSeek, "gemini_openai": GeminiOpenAI, "mistral": Mistral,
	"groq": Groq, "xai": XAI, "together": Together, "fireworks": Fireworks, "openrouter": OpenRouter, "kimi": Kimi,
	"glm": GLM, "qwen": Qwen, "minimax": MiniMax, "ollama": Ollama, "vllm": VLLM, "sglang": SGLang,
	"llamacpp": LlamaCPP, "litellm": LiteLLM,
}

// named is the variant that a segment of the path names. A public host that nobody knows may well serve other models under
// /openai/v1.
func named(host, path string) Variant {
	for segment := range strings.SplitSeq(path, "/") {
		v, ok := variants[segment]
		if ok && (v != OpenAI || isLocal(host) || providerOf(host) == hostRelay) {
			return v
		}
	}
	return OtherVariant
}

// isLocal reports a host that no public name server knows: a loopback or private address, a name without a dot, or one
// below a domain that is nobody's.
func isLocal(host string) bool {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.IsLoopback() || ip.IsPrivate()
	}
	n := strings.LastIndexByte(host, '.')
	switch host[n+1:] {
	case "local", "localhost", "internal", "lan", "corp", "home", "svc":
		return true
	}
	return n < 0
}

// Provider is the gen_ai.provider.name of t: OpenTelemetry's name where it has one, else the variant's.
func Provider(t Target) string {
	switch t.Variant {
	case Azure:
		return "azure.ai.openai"
	case GeminiOpenAI, GeminiAPI:
		return "gcp.gemini"
	case VertexGemini, VertexAnthropic:
		return "gcp.vertex_ai"
	case BedrockAPI:
		return "aws.bedrock"
	case DeepSeekResponses:
		return "deepseek"
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
