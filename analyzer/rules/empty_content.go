package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// EmptyContent finds empty messages, for targets that require content.
var EmptyContent = &check.Rule{
	ID:    "empty_content",
	Order: 130,
	Cause: "empty_content",
	Doc: `message with empty content

Some providers refuse an empty message: "all messages must have non-empty content", "text content blocks must
be non-empty", "contents.parts must not be empty", "must not be empty". Others accept it. Usual causes: a turn was stored
although the model said nothing; removing the reasoning left nothing; a stream ended before its first token. Leave
out such a message, or its empty part.`,
	Fix:      "Leave empty messages and empty text parts out of the history, and do not store a turn in which the model said nothing.",
	Severity: blockAPIs.and(wire.OpenAIChat, wire.Kimi, wire.XAI, wire.GLM).reject,
	Run:      emptyContent,
}

func emptyContent(p *check.Pass) {
	if !inBlocks(p.Target) && (p.Target.Dialect != wire.OpenAIChat || !wantsContent(p.Target.Variant)) {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Kind == facts.Object {
			emptyMessage(p, i, m)
		}
	}
	if grammars[p.Target.Dialect].errorTexts {
		for i := range p.Pairing.Replies {
			r := &p.Pairing.Replies[i]
			if r.IsError && r.Content == facts.Array && r.PartCount == 0 {
				p.Report(r.Message, r.ID, toolName(p, r.Call), "error", "%s status error and empty content", theReply(p, r.Message))
			}
		}
	}
}

func wantsContent(v wire.Variant) bool { return v == wire.Kimi || v == wire.XAI || v == wire.GLM }

func emptyMessage(p *check.Pass, i int, m *facts.Message) {
	detail, is := "", ""
	switch {
	case m.Content == facts.Array && m.PartCount == 0:
		detail, is = "no_parts", "content without parts"
	case m.Content == facts.String && m.ContentBytes == 0:
		detail, is = "empty_string", "empty content"
	case m.Parts&facts.PartBlank != 0:
		detail, is = "blank_part", "a text part that is empty"
	case p.Target.Dialect == wire.Gemini && m.Content <= facts.Null && m.Role != facts.RoleAssistant:
		detail, is = "no_parts", "no parts"
	default:
		return
	}
	severity := check.Reject
	switch {
	case p.Target.Dialect == wire.Anthropic && m.Role == facts.RoleSystem && detail == "no_parts":
		return // such a message only sets options (output_config)
	case p.Target.Dialect == wire.Anthropic:
		// The last message may be an empty assistant message that the model is to continue.
		last := i == len(p.Request.Messages)-1 && m.Role == facts.RoleAssistant
		if last && detail != "blank_part" {
			return
		}
		if last || p.Target.Variant == wire.OtherVariant {
			severity = check.Lenient
		}
	case p.Target.Dialect == wire.Gemini && detail == "blank_part":
		severity = check.Lenient // has been observed to be refused, but mostly accepted
	case inBlocks(p.Target):
	case p.Target.Variant == wire.XAI:
		// xAI's error is "Each message must have at least one content element". With calls, null_content_with_calls reports it.
		if detail != "no_parts" || len(m.Calls) > 0 {
			return
		}
	default: // Kimi and GLM refuse an empty answer without calls and reasoning, unless it is a prefill
		more := len(m.Calls) > 0 || m.Reasoning > facts.Null || m.Fields&facts.FieldPrefix != 0
		if m.Role != facts.RoleAssistant || more || detail == "blank_part" {
			return
		}
	}
	p.ReportAs(severity, i, nil, nil, detail, "%s has %s", at(p, i), is)
}
