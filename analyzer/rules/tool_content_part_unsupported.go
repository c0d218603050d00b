package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// ToolContentPartUnsupported finds images, sound and files in tool messages of targets that take only text there.
var ToolContentPartUnsupported = &check.Rule{
	ID:    "tool_content_part_unsupported",
	Order: 120,
	Cause: "tool_content_type",
	Doc: `tool message with an image, sound or a file

In chat completions the content of a tool message is text. What else is taken depends on provider, model and time:
OpenAI refuses sound, and takes images today but does not read them; Mistral, xAI, Ollama and OpenRouter take images.
Anthropic, Bedrock, Gemini and the Responses API have ways of their own for them. Usual cause: a tool that returns a
screenshot or a document. Say in text what it is, and send the picture in a user message after the replies.`,
	Fix:      "Put text into the tool message, and the image, sound or file into a user message after the last reply of the turn.",
	Severity: by{wire.OpenAIChat: {wire.OpenAI, wire.DeepSeek, wire.Kimi}}.reject,
	Run:      toolContentPartUnsupported,
}

// imageTakers were seen to take images and, Mistral, documents.
var imageTakers = by{wire.OpenAIChat: {wire.Mistral, wire.XAI, wire.Ollama, wire.OpenRouter}}

func toolContentPartUnsupported(p *check.Pass) {
	if !isChat(p.Target) {
		return
	}
	not := facts.PartImage | facts.PartAudio | facts.PartFile
	if imageTakers.has(p.Target) {
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
			detail, what = "audio", "sound"
		case found&facts.PartImage != 0:
			detail, what = "image", "an image"
		}
		severity := by{wire.OpenAIChat: {wire.DeepSeek, wire.Kimi}}.reject(p.Target)
		if p.Target.Variant == wire.OpenAI && detail == "audio" {
			severity = check.Reject
		}
		p.ReportAs(severity, r.Message, r.ID, toolName(p, r.Call), detail, "%s content with %s", theReply(p, r.Message), what)
	}
}
