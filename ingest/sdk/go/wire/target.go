package wire

import "strings"

// A Target is the API and the model that a request was sent to. Severity depends on it.
type Target struct {
	Dialect Dialect
	Variant Variant
	Model   string
	// Native means Ollama's own API, /api/chat. It resembles chat completions, but arguments are an object and
	// streams are JSON lines.
	Native bool
}

// WithModel returns t for a request to a model; model is "" if the request contains none. The model may show that the
// host's rules do not apply: Vertex serves models of other vendors through Gemini's endpoint, and some prefixes are
// used only by LiteLLM. A prefix does not identify the provider behind a gateway: the gateway may repair a request
// before it forwards it, so the provider's rules do not apply to the original request.
func (t Target) WithModel(model string) Target {
	if model == "" {
		model = t.Model
	}
	t.Model = model
	if t.Dialect != OpenAIChat {
		return t
	}
	prefix, _, ok := strings.Cut(model, "/")
	switch {
	case !ok:
	case t.Variant == GeminiOpenAI && prefix != "google" && prefix != "models":
		t.Variant = OtherVariant
	case t.Variant == OtherVariant:
		switch prefix {
		case "litellm_proxy", "vertex_ai", "azure_ai", "together_ai", "fireworks_ai", "hosted_vllm", "ollama_chat":
			t.Variant = LiteLLM
		}
	}
	return t
}

// Provider returns the gen_ai.provider.name of t.
func (t Target) Provider() string {
	if p := providerWith(t.Variant); p != nil {
		return p.Name
	}
	return string(OtherVariant)
}
