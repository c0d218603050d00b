package facts

// Dialect is how a body is read; names as in spec/dialects.json.
type Dialect string

// The dialects that can be scanned; Other is recorded, not judged.
const (
	OpenAIChat Dialect = "openai_chat"
	Other      Dialect = "other"
)

// Variant is whose rules apply within a dialect; names as in spec/dialects.json.
type Variant string

// The variants of openai_chat.
const (
	OpenAI       Variant = "openai"
	Azure        Variant = "azure"
	DeepSeek     Variant = "deepseek"
	GeminiOpenAI Variant = "gemini_openai"
	Mistral      Variant = "mistral"
	Groq         Variant = "groq"
	XAI          Variant = "xai"
	Together     Variant = "together"
	Fireworks    Variant = "fireworks"
	OpenRouter   Variant = "openrouter"
	Kimi         Variant = "kimi"
	GLM          Variant = "glm"
	Qwen         Variant = "qwen"
	MiniMax      Variant = "minimax"
	Ollama       Variant = "ollama"
	VLLM         Variant = "vllm"
	SGLang       Variant = "sglang"
	LlamaCPP     Variant = "llamacpp"
	LiteLLM      Variant = "litellm"
	OtherVariant Variant = "other"
)

// A Target is who judges a request: severity depends on it.
type Target struct {
	Dialect Dialect
	Variant Variant
	Model   string
}
