package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// NullContentWithCalls finds assistant messages with calls and without content, where that is refused or unusual.
var NullContentWithCalls = &check.Rule{
	ID:    "null_content_with_calls",
	Order: 200,
	Cause: "content_null",
	Doc: `assistant message with tool calls but without content

OpenAI answers and accepts content null beside tool calls, and so do most. xAI refused content that is absent or an empty
array in 2025, "Each message must have at least one content element", and was seen to accept both since; SGLang refused
null until 2025. Usual cause: an SDK that leaves out, or nulls, what is empty. An empty string is accepted by all of them.`,
	Fix:      "Send content \"\" beside tool calls when the target is no OpenAI model.",
	Severity: nullSeverity,
	Run:      nullContentWithCalls,
}

// nullTakers are documented or were seen to accept it; Groq and OpenRouter even a message with nothing at all.
var nullTakers = by{wire.OpenAIChat: {
	wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Ollama, wire.VLLM, wire.Mistral, wire.Groq, wire.OpenRouter, wire.OtherVariant,
}}

func nullSeverity(t wire.Target) check.Severity {
	if t.Dialect == wire.OpenAIChat && (t.Variant == wire.SGLang || t.Variant == wire.XAI) {
		return check.Lenient
	}
	return check.Style
}

func nullContentWithCalls(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat || nullTakers.has(p.Target) {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleAssistant || len(m.Calls) == 0 {
			continue
		}
		detail, is := "", ""
		switch {
		case m.Content == facts.Absent:
			detail, is = "absent", "no content"
		case m.Content == facts.Array && m.PartCount == 0:
			detail, is = "no_parts", "content that is an empty array"
		case m.Content == facts.Null:
			detail, is = "null", "content null"
		default:
			continue
		}
		p.ReportAs(nullSeverity(p.Target), i, m.Calls[0].ID, nil, detail, "%s has tool calls and %s", at(p, i), is)
	}
}
