package wire

import (
	"net/netip"
	"slices"
	"strings"
)

// A Provider serves models. Calls to the hosts of a provider without variants are not recorded, and their paths do
// not determine a variant.
type Provider struct {
	Name     string    // gen_ai.provider.name; OpenTelemetry's name if it defines one
	Variants []Variant // variants whose rules apply at the hosts, at most one per dialect
	Hosts    []Host
	Relay    bool // forwards requests unchanged to the provider named in a path segment
}

// A Host is a pattern for API hosts. "api.openai.com" includes its subdomains, "-aiplatform.googleapis.com" matches
// any text before the hyphen, and "bedrock-runtime.*.amazonaws.com" matches any labels instead of the asterisk and
// includes subdomains.
type Host struct {
	Name     string
	Upstream string // name of the proxy's upstream; "" if the host is not a default upstream
}

// Providers has one row per provider. If several rows have the same variant, the first is the variant's own provider.
var Providers = []Provider{
	{Name: "openai", Variants: []Variant{OpenAI}, Hosts: []Host{{"api.openai.com", "openai"}}},
	{Name: "azure.ai.openai", Variants: []Variant{Azure}, Hosts: []Host{
		{"openai.azure.com", ""}, {"services.ai.azure.com", ""}, {"cognitiveservices.azure.com", ""}, {"openai.azure.us", ""}, {"openai.azure.cn", ""},
	}},
	{Name: "deepseek", Variants: []Variant{DeepSeek, DeepSeekResponses}, Hosts: []Host{{"api.deepseek.com", "deepseek"}}},
	{Name: "gcp.gemini", Variants: []Variant{GeminiAPI, GeminiOpenAI}, Hosts: []Host{{"generativelanguage.googleapis.com", "gemini"}}},
	{Name: "gcp.vertex_ai", Variants: []Variant{VertexGemini, GeminiOpenAI, VertexAnthropic}, Hosts: []Host{
		{"aiplatform.googleapis.com", ""}, {"-aiplatform.googleapis.com", ""}, // us-central1-aiplatform.googleapis.com
	}},
	{Name: "anthropic", Variants: []Variant{AnthropicAPI}, Hosts: []Host{{"api.anthropic.com", "anthropic"}}},
	{Name: "aws.bedrock", Variants: []Variant{BedrockAPI}, Hosts: []Host{
		{"bedrock-runtime.*.amazonaws.com", ""},
		{"bedrock-runtime.*.amazonaws.com.cn", ""},
		{"bedrock-runtime.*.api.aws", ""},
		{"bedrock-runtime-fips.*.amazonaws.com", ""},
		{"bedrock-runtime-fips.*.amazonaws.com.cn", ""},
		{"bedrock-runtime-fips.*.api.aws", ""},
		{"bedrock-mantle.*.amazonaws.com", ""},
		{"bedrock-mantle.*.amazonaws.com.cn", ""},
		{"bedrock-mantle.*.api.aws", ""},
	}},
	{Name: "cohere", Variants: []Variant{CohereAPI}, Hosts: []Host{{"api.cohere.com", "cohere"}, {"api.cohere.ai", ""}}},
	{Name: "mistral_ai", Variants: []Variant{Mistral}, Hosts: []Host{{"api.mistral.ai", "mistral"}, {"codestral.mistral.ai", ""}}},
	{Name: "groq", Variants: []Variant{Groq}, Hosts: []Host{{"api.groq.com", "groq"}}},
	{Name: "x_ai", Variants: []Variant{XAI}, Hosts: []Host{{"api.x.ai", "xai"}}},
	{Name: "together", Variants: []Variant{Together}, Hosts: []Host{{"api.together.xyz", "together"}, {"api.together.ai", ""}}},
	{Name: "fireworks", Variants: []Variant{Fireworks}, Hosts: []Host{{"api.fireworks.ai", "fireworks"}}},
	{Name: "openrouter", Variants: []Variant{OpenRouter}, Hosts: []Host{{"openrouter.ai", "openrouter"}}},
	{Name: "moonshot_ai", Variants: []Variant{Kimi}, Hosts: []Host{
		{"api.moonshot.ai", "moonshot"}, {"api.moonshot.cn", "moonshot-cn"}, {"api.kimi.com", ""},
	}},
	{Name: "glm", Variants: []Variant{GLM}, Hosts: []Host{{"open.bigmodel.cn", "zhipu"}, {"api.z.ai", "zai"}}},
	{Name: "qwen", Variants: []Variant{Qwen}, Hosts: []Host{
		{"dashscope.aliyuncs.com", "dashscope"},
		{"dashscope-intl.aliyuncs.com", "dashscope-intl"},
		{"dashscope-us.aliyuncs.com", ""},
		{"dashscope-finance.aliyuncs.com", ""},
	}},
	{Name: "minimax", Variants: []Variant{MiniMax}, Hosts: []Host{
		{"api.minimax.io", "minimax"}, {"api.minimaxi.com", "minimax-cn"}, {"api.minimax.chat", ""},
	}},
	{Name: "cerebras", Variants: []Variant{Cerebras}, Hosts: []Host{{"api.cerebras.ai", ""}}},
	{Name: "xiaomi", Variants: []Variant{MiMo}, Hosts: []Host{{"xiaomimimo.com", ""}}}, // api.xiaomimimo.com, token-plan-cn.xiaomimimo.com
	{Name: "meta", Variants: []Variant{Meta}, Hosts: []Host{{"api.meta.ai", ""}}},
	{Name: "ollama", Variants: []Variant{Ollama}, Hosts: []Host{{"ollama.com", ""}}},
	// Servers and gateways without fixed hosts.
	{Name: "vllm", Variants: []Variant{VLLM}},
	{Name: "sglang", Variants: []Variant{SGLang}},
	{Name: "llamacpp", Variants: []Variant{LlamaCPP}},
	{Name: "litellm", Variants: []Variant{LiteLLM}},
	{Name: "cloudflare", Relay: true, Hosts: []Host{{"gateway.ai.cloudflare.com", ""}}},
	// At these hosts "openai" in a path often means OpenAI's format only.
	{Name: "other", Hosts: []Host{
		{"api.perplexity.ai", ""},
		{"router.huggingface.co", ""},
		{"api.studio.nebius.com", ""},
		{"api.tokenfactory.nebius.com", ""},
		{"api.deepinfra.com", ""},
		{"api.novita.ai", ""},
		{"api.sambanova.ai", ""},
		{"api.writer.com", ""},
		{"integrate.api.nvidia.com", ""},
		{"api.githubcopilot.com", ""},
		{"models.github.ai", ""},
		{"models.inference.ai.azure.com", ""},
		{"models.ai.azure.com", ""}, // serverless endpoints: each model has its own server
		{"ai-gateway.vercel.sh", ""},
		{"cloudcode-pa.googleapis.com", ""},
	}},
}

// OllamaPort is the port that identifies an Ollama server on any host.
const OllamaPort = "11434"

// hostIndex finds providers by host. It is immutable.
type hostIndex struct {
	names    map[string]*Provider // whole hosts and domains
	suffixes []hostPattern        // "-aiplatform.googleapis.com"
	labels   []hostPattern        // "bedrock-runtime.*.amazonaws.com"
}

type hostPattern struct {
	before, after string // parts before and after the asterisk
	provider      *Provider
}

var hosts = func() hostIndex {
	x := hostIndex{names: make(map[string]*Provider)}
	for i := range Providers {
		p := &Providers[i]
		for _, h := range p.Hosts {
			switch before, after, pattern := strings.Cut(h.Name, "*"); {
			case pattern:
				x.labels = append(x.labels, hostPattern{before, after, p})
			case h.Name[0] == '-':
				x.suffixes = append(x.suffixes, hostPattern{"", h.Name, p})
			default:
				x.names[h.Name] = p
			}
		}
	}
	return x
}()

// ProviderOf returns the provider of host, which is in lower case; nil if the host is unknown.
func ProviderOf(host string) *Provider {
	for _, s := range hosts.suffixes {
		if strings.HasSuffix(host, s.after) {
			return s.provider
		}
	}
	for rest := host; rest != ""; _, rest, _ = strings.Cut(rest, ".") {
		if p := hosts.names[rest]; p != nil {
			return p
		}
		for _, l := range hosts.labels {
			if len(rest) > len(l.before)+len(l.after) && strings.HasPrefix(rest, l.before) && strings.HasSuffix(rest, l.after) {
				return l.provider
			}
		}
	}
	return nil
}

// KnownHost reports whether hooks record calls to a host by default. These are the hosts of providers with variants,
// and Ollama on this machine. host is in lower case, without port and without the brackets of an IPv6 address.
func KnownHost(host, port string) bool {
	if p := ProviderOf(host); p != nil {
		return len(p.Variants) > 0
	}
	return port == OllamaPort && (host == "localhost" || host == "127.0.0.1" || host == "::1")
}

// Upstreams returns the base URLs of the proxy's default upstreams, by name. The URLs have no path.
func Upstreams() map[string]string {
	m := make(map[string]string)
	for _, p := range Providers {
		for _, h := range p.Hosts {
			if h.Upstream != "" {
				m[h.Upstream] = "https://" + h.Name
			}
		}
	}
	return m
}

// providerWith returns the first provider that has the variant v.
func providerWith(v Variant) *Provider {
	for i := range Providers {
		if slices.Contains(Providers[i].Variants, v) {
			return &Providers[i]
		}
	}
	return nil
}

// variant returns the provider's variant of a dialect; "" if there is none.
func (p *Provider) variant(d *Descriptor) Variant {
	for _, v := range p.Variants {
		if slices.Contains(d.Variants, v) {
			return v
		}
	}
	return ""
}

// isLocal reports whether a host is outside the public DNS: a loopback or private address, a name without a dot, or a name
// in a private domain.
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
