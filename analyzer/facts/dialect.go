package facts

// Dialect is how a body is read; names as in spec/dialects.json.
type Dialect string

// The dialects; Other is recorded, not judged.
const (
	OpenAIChat      Dialect = "openai_chat"
	OpenAIResponses Dialect = "openai_responses"
	Anthropic       Dialect = "anthropic"
	Gemini          Dialect = "gemini"
	Bedrock         Dialect = "bedrock" // Converse
	Cohere          Dialect = "cohere"  // v2/chat
	Other           Dialect = "other"
)

// Variant is whose rules apply within a dialect; names as in spec/dialects.json.
type Variant string

// The variants. OpenAI, Azure and XAI speak openai_chat and openai_responses. Each dialect but openai_chat has one of
// its own name too.
const (
	OpenAI            Variant = "openai"
	Azure             Variant = "azure"
	DeepSeek          Variant = "deepseek"
	GeminiOpenAI      Variant = "gemini_openai"
	Mistral           Variant = "mistral"
	Groq              Variant = "groq"
	XAI               Variant = "xai"
	Together          Variant = "together"
	Fireworks         Variant = "fireworks"
	OpenRouter        Variant = "openrouter"
	Kimi              Variant = "kimi"
	GLM               Variant = "glm"
	Qwen              Variant = "qwen"
	MiniMax           Variant = "minimax"
	Ollama            Variant = "ollama"
	VLLM              Variant = "vllm"
	SGLang            Variant = "sglang"
	LlamaCPP          Variant = "llamacpp"
	LiteLLM           Variant = "litellm"
	DeepSeekResponses Variant = "deepseek_responses"
	AnthropicAPI      Variant = "anthropic"
	VertexAnthropic   Variant = "vertex_anthropic"
	GeminiAPI         Variant = "gemini"
	VertexGemini      Variant = "vertex_gemini"
	BedrockAPI        Variant = "bedrock"
	CohereAPI         Variant = "cohere"
	OtherVariant      Variant = "other"
)

// Variants holds, for each dialect that is judged, whose rules may apply; as in spec/dialects.json and in its order.
var Variants = map[Dialect][]Variant{
	OpenAIChat: {
		OpenAI, Azure, DeepSeek, GeminiOpenAI, Mistral, Groq, XAI, Together, Fireworks, OpenRouter, Kimi, GLM, Qwen,
		MiniMax, Ollama, VLLM, SGLang, LlamaCPP, LiteLLM, OtherVariant,
	},
	OpenAIResponses: {OpenAI, Azure, DeepSeekResponses, XAI, OtherVariant},
	Anthropic:       {AnthropicAPI, VertexAnthropic, OtherVariant},
	Gemini:          {GeminiAPI, VertexGemini},
	Bedrock:         {BedrockAPI},
	Cohere:          {CohereAPI},
}

// Dialects are the dialects that are judged, in the order of spec/dialects.json.
var Dialects = []Dialect{OpenAIChat, OpenAIResponses, Anthropic, Gemini, Bedrock, Cohere}

// A Target is who judges a request: severity depends on it.
type Target struct {
	Dialect Dialect
	Variant Variant
	Model   string
	// Native is Ollama's own API, /api/chat: a dialect of chat completions in which arguments are an object, and a
	// stream is JSON lines.
	Native bool
}
