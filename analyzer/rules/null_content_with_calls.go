package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// NullContentWithCalls finds assistant messages with calls and without content, where that is refused or unusual.
var NullContentWithCalls = &analyzer.Rule{
	ID: "null_content_with_calls",
	Doc: `assistant message with tool calls but without content

OpenAI answers and accepts content null beside tool calls, and so do most. xAI refuses content that is an empty array,
"Each message must have at least one content element", and in 2025 absent content; SGLang refused null until 2025. Usual
cause: an SDK that leaves out, or nulls, what is empty. An empty string is accepted by all of them.`,
	Fix: "Send content \"\" beside tool calls when the target is no OpenAI model.",
	Severity: func(t facts.Target) analyzer.Severity {
		if t.Dialect == facts.OpenAIChat && t.Variant == facts.SGLang {
			return analyzer.Lenient
		}
		return by{facts.OpenAIChat: {facts.XAI}}.rejectOrStyle(t)
	},
	Run: nullContentWithCalls,
}

// nullTakers are documented or were seen to accept it; Groq and OpenRouter even a message with nothing at all.
var nullTakers = by{facts.OpenAIChat: {
	facts.OpenAI, facts.Azure, facts.DeepSeek, facts.Ollama, facts.VLLM, facts.Mistral, facts.Groq, facts.OpenRouter, facts.OtherVariant,
}}

func nullContentWithCalls(p *analyzer.Pass) {
	if p.Target.Dialect != facts.OpenAIChat || nullTakers.has(p.Target) {
		return
	}
	severity := by{facts.OpenAIChat: {facts.XAI}}.rejectOrStyle(p.Target)
	if p.Target.Variant == facts.SGLang {
		severity = analyzer.Lenient
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleAssistant || len(m.Calls) == 0 {
			continue
		}
		detail, is, now := "", "", severity
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
		if severity == analyzer.Reject && detail != "no_parts" {
			now = analyzer.Lenient // absent was refused in 2025, and is accepted by Grok 3 and 4 since; null was never seen refused
		}
		p.ReportAs(now, i, m.Calls[0].ID, nil, detail, "%s has tool calls and %s", at(p, i), is)
	}
}
