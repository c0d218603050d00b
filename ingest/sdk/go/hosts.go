package llmtap

import (
	"net/url"
	"strings"
)

// knownHosts are the providers' API hosts, in the form of Config.Hosts.
var knownHosts = []string{
	"api.openai.com", ".api.openai.com",
	".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com",
	"api.deepseek.com",
	"api.anthropic.com",
	"generativelanguage.googleapis.com", "aiplatform.googleapis.com", "-aiplatform.googleapis.com",
	"api.mistral.ai", "codestral.mistral.ai",
	"api.groq.com",
	"api.x.ai",
	"api.together.xyz", "api.together.ai",
	"api.fireworks.ai",
	"openrouter.ai",
	"api.moonshot.ai", "api.moonshot.cn",
	"api.z.ai", "open.bigmodel.cn",
	"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com",
	"api.minimax.io", "api.minimaxi.com", "api.minimax.chat",
	"api.cohere.com", "api.cohere.ai",
	"localhost:11434", "127.0.0.1:11434", "[::1]:11434", // Ollama
}

// hostSet answers whether calls to a host are recorded. It never changes once made.
type hostSet struct {
	exact    map[string]bool // "host" or "host:port"
	suffixes []string        // begin with "." or "-"
}

func newHostSet(extra []string) *hostSet {
	s := &hostSet{exact: make(map[string]bool)}
	for _, list := range [][]string{knownHosts, extra} {
		for _, h := range list {
			h = strings.ToLower(h)
			if strings.HasPrefix(h, ".") || strings.HasPrefix(h, "-") {
				s.suffixes = append(s.suffixes, h)
			} else if h != "" {
				s.exact[h] = true
			}
		}
	}
	return s
}

func (s *hostSet) has(u *url.URL) bool {
	host := strings.ToLower(u.Host)
	if s.exact[host] {
		return true
	}
	name := strings.ToLower(u.Hostname())
	if s.exact[name] {
		return true
	}
	for _, suffix := range s.suffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	// bedrock-runtime.us-east-1.amazonaws.com: the region is in the middle.
	return strings.HasPrefix(name, "bedrock-runtime") && (strings.HasSuffix(name, ".amazonaws.com") || strings.HasSuffix(name, ".amazonaws.com.cn"))
}
