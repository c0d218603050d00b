package wire

import "slices"

// A Dialect is the name of the format of an API's requests and answers, as in spec/dialects.json. Interactions came later.
type Dialect string

// The dialects. Exchanges of the dialect Other are recorded but not checked.
const (
	OpenAIChat      Dialect = "openai_chat"
	OpenAIResponses Dialect = "openai_responses"
	Anthropic       Dialect = "anthropic"
	Gemini          Dialect = "gemini"
	Bedrock         Dialect = "bedrock" // Converse
	Cohere          Dialect = "cohere"  // v2/chat
	Interactions    Dialect = "gemini_interactions"
	Other           Dialect = "other"
)

// A Variant is the name of a set of rules within a dialect, as in spec/dialects.json. Cerebras, MiMo and Meta came later.
type Variant string

// The variants. OpenAI, Azure and XAI are variants of openai_chat and openai_responses.
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
	Cerebras          Variant = "cerebras"
	MiMo              Variant = "mimo" // Xiaomi
	Meta              Variant = "meta"
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

// A Descriptor describes a dialect.
type Descriptor struct {
	Dialect   Dialect
	Variants  []Variant // in the order of spec/dialects.json, which begins with the inventor of the dialect
	Records   []string  // names of the APIs in recorded traffic
	Endpoints []Endpoint
	Segments  []Variant // path segments after which a gateway serves the dialect

	Messages string // request member with the messages
	Pairing  Pairing
	Words    Words
	Places   Places
	Texts    Texts

	// CallsReason is the finish reason of answers with tool calls, and StopReason that of answers without. Both are
	// empty if the finish reason does not depend on tool calls.
	CallsReason, StopReason string

	// LastData is the data, and LastEvents are the names, of events that end a stream of server-sent events.
	// LastMember is the member that is true in the last object of a stream of JSON lines.
	LastData   string
	LastEvents []string
	LastMember string
}

// Pairing describes how a dialect relates tool replies to tool calls.
type Pairing struct {
	Blocks bool // calls and replies are parts of messages; adjacent messages of the same role are one turn
	Names  bool // a reply contains the function name instead of a call id
	Items  bool // calls and replies are separate messages; other items are ignored
}

// Words are the terms of a dialect.
type Words struct {
	Message   string // element of the history
	Assistant string // role of the model
	Call      string // member or item that contains a tool call
	Reply     string // part, item or message that contains a tool reply
	ReplyID   string // member of a reply that identifies the call
}

// Places are the places of what requests of a dialect contain.
type Places struct {
	Parts                       string // member of a message with its content
	CallID, Function, Arguments string // JSON pointers in a call
	ReplyID, Output             string // JSON pointers in a reply
	Tools                       string // JSON pointer in a request
}

// Texts are JSON of a dialect, in which $text, $id and $name are JSON strings.
type Texts struct {
	Part     string // a text as a part of a user message
	Reply    string // the reply of a tool that failed
	NoOutput string // the output of a reply without content; "" if it is an empty string
	Tool     string // a tool without parameters
	CallID   string // start of the ids of calls; "" if it is call_
	Listed   bool   // the content of a message must be a list of parts
}

// chatPlaces and chatTexts are those of dialects with the messages of OpenAIChat.
var (
	chatPlaces = Places{"content", "/id", "/function/name", "/function/arguments", "/tool_call_id", "/content", "/tools"}
	chatTexts  = Texts{Part: typedPart, Reply: `{"role":"tool","tool_call_id":$id,"content":$text}`}
)

const typedPart = `{"type":"text","text":$text}`

// chatVariants are the variants of OpenAIChat. The path segments of OpenAIResponses are the same.
var chatVariants = []Variant{
	OpenAI, Azure, DeepSeek, GeminiOpenAI, Mistral, Groq, XAI, Together, Fireworks, OpenRouter, Kimi, GLM, Qwen,
	MiniMax, Ollama, VLLM, SGLang, LlamaCPP, Cerebras, MiMo, Meta, LiteLLM, OtherVariant,
}

// Descriptors contains the checked dialects, in the order of spec/dialects.json.
var Descriptors = []Descriptor{
	{
		Dialect:  OpenAIChat,
		Variants: chatVariants,
		Records:  []string{"openai.chat", "ollama.chat"},
		Endpoints: []Endpoint{
			{End: "/chat/completions"},
			{End: "/api/chat", Only: Ollama, Unknown: []string{"/ollama/"}, Native: true},
		},
		Segments:    chatVariants,
		Messages:    "messages",
		Words:       Words{Message: "message", Assistant: "assistant", Call: "tool_calls", Reply: "tool message", ReplyID: "tool_call_id"},
		Places:      chatPlaces,
		Texts:       chatTexts,
		CallsReason: "tool_calls",
		StopReason:  "stop",
		LastData:    "[DONE]",
		LastMember:  "done", // for Ollama's own API
	},
	{
		Dialect:  OpenAIResponses,
		Variants: []Variant{OpenAI, Azure, DeepSeekResponses, XAI, OtherVariant},
		Records:  []string{"openai.responses"},
		Endpoints: []Endpoint{
			{End: "/responses", Unknown: []string{"/v1/responses", "/openai/"}},
			{End: "/responses/compact", Unknown: []string{"/v1/responses", "/openai/"}},
		},
		Segments:   chatVariants,
		Messages:   "input",
		Pairing:    Pairing{Items: true},
		Words:      Words{Message: "item", Assistant: "assistant", Call: "function_call", Reply: "function_call_output", ReplyID: "call_id"},
		Places:     Places{"content", "/call_id", "/name", "/arguments", "/call_id", "/output", "/tools"},
		Texts:      Texts{Part: `{"type":"input_text","text":$text}`, Reply: `{"type":"function_call_output","call_id":$id,"output":$text}`},
		LastEvents: []string{"response.completed", "response.failed", "response.incomplete", "response.cancelled"},
	},
	{
		Dialect:  Anthropic,
		Variants: []Variant{AnthropicAPI, VertexAnthropic, OtherVariant},
		Records:  []string{"anthropic.messages"},
		Endpoints: []Endpoint{
			{End: "/v1/messages"},
			{End: ":rawPredict", Within: []string{"/publishers/anthropic/"}, Model: "/models/", NotModels: []string{"count-tokens"}, Variant: VertexAnthropic},
			{End: ":streamRawPredict", Within: []string{"/publishers/anthropic/"}, Model: "/models/", NotModels: []string{"count-tokens"}, Variant: VertexAnthropic, Stream: true},
			// The format of the body depends on the model. The first Claude models accept a prompt instead of
			// messages.
			{End: "/invoke", Model: "/model/", Models: claudes, NotModels: firstClaudes, Variant: OtherVariant, Opaque: true},
			{End: "/invoke-with-response-stream", Model: "/model/", Models: claudes, NotModels: firstClaudes, Variant: OtherVariant, Stream: true, Opaque: true},
		},
		Segments: []Variant{AnthropicAPI},
		Messages: "messages",
		Pairing:  Pairing{Blocks: true},
		Words:    Words{Message: "message", Assistant: "assistant", Call: "tool_use", Reply: "tool_result", ReplyID: "tool_use_id"},
		Places:   Places{"content", "/id", "/name", "/input", "/tool_use_id", "/content", "/tools"},
		Texts: Texts{
			Part: typedPart, Reply: `{"type":"tool_result","tool_use_id":$id,"content":$text,"is_error":true}`,
			Tool: `{"name":$name,"input_schema":{"type":"object"}}`, CallID: "toolu_",
		},
		CallsReason: "tool_use",
		StopReason:  "end_turn",
		LastEvents:  []string{"message_stop"},
	},
	{
		Dialect:  Gemini,
		Variants: []Variant{GeminiAPI, VertexGemini},
		Records:  []string{"gemini.generateContent"},
		// A path without a model (v1internal:generateContent) belongs to another API, which wraps the request.
		Endpoints: []Endpoint{
			{End: ":generateContent", Within: vertexPaths, Model: "/models/", Variant: VertexGemini},
			{End: ":streamGenerateContent", Within: vertexPaths, Model: "/models/", Variant: VertexGemini, Stream: true},
			{End: ":generateContent", Within: geminiPaths, Model: "/models/"},
			{End: ":streamGenerateContent", Within: geminiPaths, Model: "/models/", Stream: true},
		},
		Messages: "contents",
		Pairing:  Pairing{Blocks: true, Names: true},
		Words:    Words{Message: "message", Assistant: "model", Call: "functionCall", Reply: "functionResponse", ReplyID: "name"},
		Places: Places{
			"parts", "/functionCall/id", "/functionCall/name", "/functionCall/args", "/functionResponse/id", "/functionResponse/response", "/tools",
		},
		Texts: Texts{
			Part: `{"text":$text}`, Listed: true, NoOutput: `{}`,
			Reply: `{"functionResponse":{"id":$id,"name":$name,"response":{"error":$text}}}`,
		},
	},
	{
		Dialect:  Bedrock,
		Variants: []Variant{BedrockAPI},
		Records:  []string{"bedrock.converse"},
		Endpoints: []Endpoint{
			{End: "/converse", Model: "/model/"},
			{End: "/converse-stream", Model: "/model/", Stream: true},
		},
		Messages: "messages",
		Pairing:  Pairing{Blocks: true},
		Words:    Words{Message: "message", Assistant: "assistant", Call: "toolUse", Reply: "toolResult", ReplyID: "toolUseId"},
		Places: Places{
			"content", "/toolUse/toolUseId", "/toolUse/name", "/toolUse/input", "/toolResult/toolUseId", "/toolResult/content", "/toolConfig/tools",
		},
		Texts: Texts{
			Part: `{"text":$text}`, Listed: true, NoOutput: `[{"text":"(no content)"}]`, CallID: "tooluse_",
			Reply: `{"toolResult":{"toolUseId":$id,"content":[{"text":$text}],"status":"error"}}`,
			Tool:  `{"toolSpec":{"name":$name,"inputSchema":{"json":{"type":"object"}}}}`,
		},
		CallsReason: "tool_use",
		StopReason:  "end_turn",
	},
	{
		Dialect:     Cohere,
		Variants:    []Variant{CohereAPI},
		Records:     []string{"cohere.chat"},
		Endpoints:   []Endpoint{{End: "/v2/chat", Only: CohereAPI, Unknown: []string{"/cohere/"}}},
		Segments:    []Variant{CohereAPI},
		Messages:    "messages",
		Words:       Words{Message: "message", Assistant: "assistant", Call: "tool_calls", Reply: "tool message", ReplyID: "tool_call_id"},
		Places:      chatPlaces,
		Texts:       chatTexts,
		CallsReason: "TOOL_CALL",
		StopReason:  "COMPLETE",
		LastEvents:  []string{"message-end"},
	},
	{
		Dialect:  Interactions,
		Variants: []Variant{GeminiAPI, VertexGemini},
		Records:  []string{"gemini.interactions"},
		Endpoints: []Endpoint{
			{End: "/interactions", Within: vertexPaths, Variant: VertexGemini},
			{End: "/interactions", Unknown: []string{"/v1beta/interactions", "/v1alpha/interactions"}},
		},
		Messages: "input",
		Pairing:  Pairing{Items: true},
		Words:    Words{Message: "step", Assistant: "model", Call: "function_call", Reply: "function_result", ReplyID: "call_id"},
		Places:   Places{"content", "/id", "/name", "/arguments", "/call_id", "/result", "/tools"},
		Texts: Texts{
			Part: typedPart, Listed: true, Tool: `{"type":"function","name":$name}`,
			Reply: `{"type":"function_result","call_id":$id,"name":$name,"result":$text}`,
		},
		LastEvents: []string{"interaction.completed"},
	},
}

var (
	claudes      = []string{"anthropic.claude-"}
	firstClaudes = []string{".claude-v", ".claude-instant"}
	vertexPaths  = []string{"/publishers/", "/projects/"}
	geminiPaths  = []string{"/models/", "/tunedModels/", "/endpoints/"}
)

// Dialects are the checked dialects, in the order of spec/dialects.json.
var Dialects = func() (ds []Dialect) {
	for i := range Descriptors {
		ds = append(ds, Descriptors[i].Dialect)
	}
	return ds
}()

// Descriptor returns the descriptor of d. For Other and unknown dialects it is that of OpenAIChat without variants
// and endpoints.
func (d Dialect) Descriptor() *Descriptor {
	for i := range Descriptors {
		if Descriptors[i].Dialect == d {
			return &Descriptors[i]
		}
	}
	return &otherDescriptor
}

var otherDescriptor = Descriptor{Dialect: Other, Messages: Descriptors[0].Messages, Words: Descriptors[0].Words}

// DefaultVariant returns the variant for unknown hosts: OtherVariant if the dialect has it, otherwise the first
// variant.
func (d *Descriptor) DefaultVariant() Variant {
	if slices.Contains(d.Variants, OtherVariant) {
		return OtherVariant
	}
	return d.Variants[0]
}

// Variants returns the variants of d; nil for Other.
func (d Dialect) Variants() []Variant { return d.Descriptor().Variants }

// DialectNamed returns the dialect with the given name in recorded traffic, which is the name of the dialect or of an
// API such as openai.chat; "" if the name is unknown.
func DialectNamed(name string) Dialect {
	for i := range Descriptors {
		if d := &Descriptors[i]; string(d.Dialect) == name || slices.Contains(d.Records, name) {
			return d.Dialect
		}
	}
	return ""
}
