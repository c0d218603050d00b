package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolContentPartUnsupported finds images, audio and files in tool messages, for targets that accept only text there.
var ToolContentPartUnsupported = &check.Rule{
	ID:    "tool_content_part_unsupported",
	Order: 120,
	Cause: "tool_content_type",
	Doc: `tool message with an image, audio or a file

In chat completions the content of a tool message is text. Support for other types depends on provider, model and time:
OpenAI refuses audio, and accepts images today but ignores them (Azure's gpt-4o refuses them); Mistral, xAI, Ollama and OpenRouter accept images.
Anthropic, Bedrock, Gemini and the Responses API have their own formats for them, which some models behind them refuse:
on Bedrock all but Claude, Nova and Llama 4 answer "This model doesn't support the image field for user messages", on
Vertex AI Gemini 2 answers "function_response.parts is not supported for this model". Usual cause: a tool that returns a
screenshot or a document. Describe it in text, and send the image in a user message after the replies.`,
	Fix:      "Put text into the tool message, and the image, audio or file into a user message after the last reply of the turn.",
	Severity: by{wire.OpenAIChat: {wire.OpenAI, wire.DeepSeek, wire.Kimi}}.reject,
	Run:      toolContentPartUnsupported,
}

// acceptImages is the set of targets that have been observed to accept images; Mistral also accepts documents.
var acceptImages = by{wire.OpenAIChat: {wire.Mistral, wire.XAI, wire.Ollama, wire.OpenRouter}}

func toolContentPartUnsupported(p *check.Pass) {
	switch p.Target.Dialect {
	case wire.Bedrock:
		bedrockToolImage(p)
		return
	case wire.Gemini:
		geminiToolParts(p)
		return
	default:
		if !isChat(p.Target) {
			return
		}
	}
	not := facts.PartImage | facts.PartAudio | facts.PartFile
	if acceptImages.has(p.Target) {
		not = facts.PartAudio
	}
	for i := range p.Pairing.Replies {
		r := &p.Pairing.Replies[i]
		if r.Content != facts.Array || r.Parts&not == 0 {
			continue
		}
		detail, what := "file", "a file"
		switch found := r.Parts & not; {
		case found&facts.PartAudio != 0:
			detail, what = "audio", "audio"
		case found&facts.PartImage != 0:
			detail, what = "image", "an image"
		}
		severity := by{wire.OpenAIChat: {wire.DeepSeek, wire.Kimi}}.reject(p.Target)
		switch p.Target.Variant {
		case wire.OpenAI:
			if detail == "audio" {
				severity = check.Reject
			}
		case wire.Azure:
			if detail == "image" && modelIs(p, "gpt-4o") { // recorded; OpenAI itself accepts it since
				severity = check.Reject
			}
		default:
		}
		p.ReportAs(severity, r.Message, r.ID, toolName(p, r.Call), detail, "%s content with %s", theReply(p, r.Message), what)
	}
}

// imagelessResults are the makers of models on Bedrock that have been observed to refuse an image in a tool result, although
// they accept it beside the result. Sources: anomalyco/opencode#49443 and #49444, earendil-works/pi#8643,
// can1357/oh-my-pi#11681; docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultContentBlock.html.
var imagelessResults = [...]string{"openai.gpt", "mistral.", "qwen.", "google.gemma", "moonshot", "xai."}

// bedrockToolImage finds images in tool results for models that do not accept them there.
func bedrockToolImage(p *check.Pass) {
	if modelIs(p, "claude") || modelIs(p, "nova") || modelIs(p, "llama4") || modelIs(p, "llama-4") {
		return
	}
	severity := check.Lenient
	for _, maker := range imagelessResults {
		if modelIs(p, maker) {
			severity = check.Reject
		}
	}
	for i := range p.Pairing.Replies {
		if r := &p.Pairing.Replies[i]; r.Parts&facts.PartImage != 0 {
			p.ReportAs(severity, r.Message, r.ID, toolName(p, r.Call), "image", "%s an image", theReply(p, r.Message))
		}
	}
}

// geminiToolParts finds media in function responses for models before Gemini 3, which is the first to accept them. Only Vertex
// AI has been observed to refuse them. Sources: google-gemini/gemini-cli#19436, maximhq/bifrost#4202;
// ai.google.dev/gemini-api/docs/function-calling (multimodal function responses).
func geminiToolParts(p *check.Pass) {
	v, known := versionOf(p, "gemini-")
	if !known || v.atLeast(3, 0) || modelIs(p, "computer-use") {
		return // the computer use model of Gemini 2.5 is sent its screenshots this way
	}
	severity := check.Lenient
	if p.Target.Variant == wire.VertexGemini {
		severity = check.Reject
	}
	for i := range p.Pairing.Replies {
		r := &p.Pairing.Replies[i]
		if r.Parts&(facts.PartImage|facts.PartAudio|facts.PartFile) == 0 {
			continue
		}
		p.ReportAs(severity, r.Message, r.ID, toolName(p, r.Call), "parts", "%s media parts, which only Gemini 3 and newer models accept", theReply(p, r.Message))
	}
}
