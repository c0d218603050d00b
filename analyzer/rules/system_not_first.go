package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// SystemNotFirst finds system messages that are not at the start of a history.
var SystemNotFirst = &check.Rule{
	ID:    "system_not_first",
	Order: 310,
	Cause: "role_order",
	Doc: `system message after the conversation has started

Mistral answers "Unexpected role 'system' after role 'assistant'" (code 3230); many chat templates of open models fail
with "System message must be at the beginning", or drop the message silently. OpenAI, DeepSeek and Qwen accept it; Claude
from Opus 4.8 on between a user message and an answer: "role 'system' must precede an 'assistant' message". A
system message between a call and its replies breaks the pair everywhere. Usual cause: a reminder or a summary is
appended as a system message. Put it into the first system message, or into a user message.`,
	Fix:      "Put reminders and summaries into the first system message or into a user message, not into the middle of the history.",
	Severity: systemNotFirstSeverity,
	Run:      systemNotFirst,
}

func systemNotFirstSeverity(t wire.Target) check.Severity {
	if t.Dialect == wire.OpenAIChat {
		switch t.Variant {
		case wire.Mistral: // rejections have been recorded
			return check.Reject
		case wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Qwen:
			return check.Style
		default:
		}
	}
	return check.Lenient
}

// systemNotFirst reports only the first misplaced system message of a request, because most agents that misplace one misplace
// many. A system message between a call and its reply is left to late_tool_reply.
func systemNotFirst(p *check.Pass) {
	if p.Target.Dialect == wire.Anthropic && takesSystem(p) {
		systemBetween(p)
		return
	}
	if !isChat(p.Target) {
		return // the dialect has no system role, or the message is usual in a Responses input
	}
	mistral := p.Target.Dialect == wire.OpenAIChat && p.Target.Variant == wire.Mistral
	for i := firstTurn(p); i < len(p.Request.Messages); i++ {
		if !isSystem(&p.Request.Messages[i]) {
			continue
		}
		if i+1 < len(p.Request.Messages) && p.Request.Messages[i+1].Role == facts.RoleTool {
			continue
		}
		if before := p.Request.Messages[i-1].Role; mistral && before != facts.RoleAssistant && before != facts.RoleTool {
			continue // Mistral's validator accepts a system message after a user message
		}
		p.Report(i, nil, nil, "", "message %d (%s) follows message %d (%s) instead of being at the beginning", i, role(p, i), i-1, role(p, i-1))
		return
	}
}

// systemBetween reports the first system message that is not where Claude accepts one: after a user message, or an assistant message
// with a tool that the provider has yet to run, and before an assistant message or at the end. A message without content only
// sets options.
func systemBetween(p *check.Pass) {
	all := p.Request.Messages
	for i := range all {
		m := &all[i]
		if m.Role != facts.RoleSystem || m.Content != facts.String && m.Parts&facts.PartText == 0 {
			continue
		}
		detail, is := "", ""
		switch {
		case i == 0:
			detail, is = "first", "is the first message; the system prompt is outside the messages"
		case i+1 < len(all) && all[i+1].Role != facts.RoleAssistant:
			detail, is = "no_answer", "precedes "+at(p, i+1)+" instead of an answer"
		case all[i-1].Role != facts.RoleUser && all[i-1].Fields&facts.FieldServerOpen == 0:
			detail, is = "after_answer", "follows "+at(p, i-1)+" instead of a user message"
		default:
			continue
		}
		p.ReportAs(claudeAPIs.reject(p.Target), i, nil, nil, detail, "%s %s", at(p, i), is)
		return
	}
}
