package records

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// TargetOf derives the target of a request or a message array from the URL, else from the dialect named in the record (""
// if none), else from the body. If these do not identify the provider, the variant is the API of the model's vendor, else
// the first variant of the dialect.
func TargetOf(url, model string, named wire.Dialect, body []byte) wire.Target {
	if url == "" && named != "" && model != "" {
		body = nil // adds nothing
	}
	if len(body) > 0 && body[0] == '[' {
		body = append(append([]byte(`{"`+messagesKey(body)+`":`), body...), '}')
	}
	t := facts.Detect(url, model, body)
	if named != "" && t.Dialect != named && facts.Detect(url, model, nil).Dialect == wire.Other { // the URL does not identify the dialect
		t.Dialect, t.Variant, t.Native = named, wire.OtherVariant, false
	}
	if t.Dialect == wire.Other && url == "" && named == "" {
		t.Dialect = wire.OpenAIChat
	}
	if url == "" && t.Dialect != wire.Other && !t.Native {
		t.Variant = vendor(t)
	}
	return t
}

// messagesKey returns the key of a message array in a request.
func messagesKey(array []byte) string {
	for _, element := range jsonscan.Elements(array) {
		var role, typ string
		for key, value := range jsonscan.Members(element) {
			switch string(key) {
			case "parts":
				return "contents"
			case "role":
				role = text(value)
			case "type":
				typ = text(value)
			}
		}
		if typ != "" && (role == "" || typ == "message") {
			return "input"
		}
	}
	return "messages"
}

// vendors maps prefixes of model names to the API of the vendor.
var vendors = []struct {
	prefix  string
	variant wire.Variant
}{
	{"deepseek", wire.DeepSeek},
	{"gemini", wire.GeminiOpenAI},
	{"mistral", wire.Mistral},
	{"codestral", wire.Mistral},
	{"magistral", wire.Mistral},
	{"ministral", wire.Mistral},
	{"grok", wire.XAI},
	{"kimi", wire.Kimi},
	{"moonshot", wire.Kimi},
	{"glm", wire.GLM},
	{"qwen", wire.Qwen},
	{"minimax", wire.MiniMax},
}

func vendor(t wire.Target) wire.Variant {
	if t.Dialect == wire.OpenAIChat {
		model := strings.ToLower(t.Model)
		for _, v := range vendors {
			if strings.HasPrefix(model, v.prefix) {
				return v.variant
			}
		}
	}
	return t.Dialect.Variants()[0]
}
