package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// NullContentWithCalls finds assistant messages with calls but without content, for targets where they are refused or
// unusual.
var NullContentWithCalls = &check.Rule{
	ID:    "null_content_with_calls",
	Order: 200,
	Cause: "content_null",
	Doc: `assistant message with tool calls but without content

OpenAI answers and accepts content null next to tool calls, as most providers do. xAI refused content that is absent or an empty
array in 2025, "Each message must have at least one content element", and was later seen to accept both; SGLang refused
null until 2025. Usual cause: an SDK that leaves out, or nulls, empty values. All of them accept an empty string.`,
	Fix:      "Send content \"\" next to tool calls if the target is not an OpenAI model.",
	Severity: nullSeverity,
	Run:      nullContentWithCalls,
}

// nullTolerant is the set of targets that are documented or have been observed to accept these messages. Groq and OpenRouter
// even accept completely empty messages.
var nullTolerant = by{wire.OpenAIChat: {
	wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Ollama, wire.VLLM, wire.Mistral, wire.Groq, wire.OpenRouter, wire.OtherVariant,
}}

func nullSeverity(t wire.Target) check.Severity {
	if t.Dialect == wire.OpenAIChat && (t.Variant == wire.SGLang || t.Variant == wire.XAI) {
		return check.Lenient
	}
	return check.Style
}

func nullContentWithCalls(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat || nullTolerant.has(p.Target) {
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
