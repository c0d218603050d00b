package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// NoUserMessage finds requests without a user message.
var NoUserMessage = &check.Rule{
	ID:    "no_user_message",
	Order: 300,
	Cause: "role_order",
	Doc: `request without any user message

Gemini answers "contents is not specified", Anthropic and Bedrock require a user message first, GLM answers only "The
messages parameter is illegal" (code 1214). Usual causes: everything was put into the system prompt; the history was
trimmed down to the system message; the prompt was empty and omitted. Send the task itself as a user message.`,
	Fix:      "Send the task as a user message, and keep at least one user message when trimming the history.",
	Severity: blockAPIs.reject,
	Run:      noUserMessage,
}

func noUserMessage(p *check.Pass) {
	r := p.Request
	if r.MessagesKind != facts.Array || r.Stored || r.Dropped > 0 {
		return
	}
	if g := grammars[p.Target.Dialect]; g.noUser || g.noMessages && len(r.Messages) == 0 {
		return
	}
	if p.Target.Dialect == wire.OpenAIChat {
		switch p.Target.Variant {
		case wire.OpenAI, wire.Azure, wire.Mistral, wire.VLLM, wire.Ollama:
			return
		default:
		}
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		switch m.Role {
		case facts.RoleUser, facts.RoleOther:
			return
		case facts.RoleNone:
			if p.Target.Dialect == wire.Gemini || m.Kind != facts.Object {
				return // content without a role counts as a user message
			}
		case facts.RoleTool, facts.RoleFunction:
			if p.Target.Dialect != wire.OpenAIChat {
				return // replies count as user messages
			}
		default:
		}
	}
	if len(r.Messages) == 0 {
		p.Report(-1, nil, nil, "empty", "the request has no messages")
		return
	}
	p.Report(0, nil, nil, "", "none of the %d messages is a user message", len(r.Messages))
}
