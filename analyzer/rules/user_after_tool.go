package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// UserAfterTool finds user messages directly after a tool message, for targets that require an assistant message in between.
var UserAfterTool = &check.Rule{
	ID:    "user_after_tool",
	Order: 290,
	Cause: "role_order",
	Doc: `user message directly after a tool message

Mistral answered "Unexpected role 'user' after role 'tool'" (code 3230) until 2026; its validator allows it since
2026-04, but servers with an older one are around. All others take it. Usual causes: a reminder is put in after every
tool result; the loop is called again with a new question before the model has used the result. Let the assistant answer
the tool message first, or put the reminder into the tool message or the system prompt.`,
	Fix: "Let the assistant answer tool messages before the next user message, or put the reminder into the tool message.",
	// Both rejections and acceptances have been observed, and a request does not show which server will answer.
	Severity: by{}.reject,
	Run:      userAfterTool,
}

func userAfterTool(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat || p.Target.Variant != wire.Mistral {
		return
	}
	for i := 1; i < len(p.Request.Messages); i++ {
		if p.Request.Messages[i].Role == facts.RoleUser && p.Request.Messages[i-1].Role == facts.RoleTool {
			p.Report(i, nil, nil, "", "message %d (user) follows message %d (tool): the assistant has not answered the tool message", i, i-1)
		}
	}
}
