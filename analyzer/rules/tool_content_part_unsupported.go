package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// ToolContentPartUnsupported finds images, audio and files in tool messages, for targets that accept only text there.
var ToolContentPartUnsupported = &check.Rule{
	ID:    "tool_content_part_unsupported",
	Order: 120,
	Cause: "tool_content_type",
	Doc: `tool message with an image, audio or a file

In chat completions the content of a tool message is text. Support for other types depends on provider, model and time:
OpenAI refuses audio, and accepts images today but ignores them; Mistral, xAI, Ollama and OpenRouter accept images.
Anthropic, Bedrock, Gemini and the Responses API have their own formats for them. Usual cause: a tool that returns a
screenshot or a document. Describe it in text, and send the image in a user message after the replies.`,
	Fix:      "Put text into the tool message, and the image, audio or file into a user message after the last reply of the turn.",
	Severity: by{wire.OpenAIChat: {wire.OpenAI, wire.DeepSeek, wire.Kimi}}.reject,
	Run:      toolContentPartUnsupported,
}

// acceptImages is the set of targets that have been observed to accept images; Mistral also accepts documents.
var acceptImages = by{wire.OpenAIChat: {wire.Mistral, wire.XAI, wire.Ollama, wire.OpenRouter}}

func toolContentPartUnsupported(p *check.Pass) {
	if !isChat(p.Target) {
		return
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
		if p.Target.Variant == wire.OpenAI && detail == "audio" {
			severity = check.Reject
		}
		p.ReportAs(severity, r.Message, r.ID, toolName(p, r.Call), detail, "%s content with %s", theReply(p, r.Message), what)
	}
}
