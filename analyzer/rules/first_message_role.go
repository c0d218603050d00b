package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// FirstMessageRole finds histories that start with an assistant message, for targets that require a user message first.
var FirstMessageRole = &check.Rule{
	ID:    "first_message_role",
	Order: 280,
	Cause: "role_order",
	Doc: `history that starts with an assistant message

Bedrock answers "A conversation must start with a user message", though it was seen to accept such a history for Claude;
Gemini, when the first message makes a call, "Please ensure that function call turn comes immediately after a user turn
or after a function response turn". Usual cause: the history was trimmed to its last messages regardless of where the
cut falls. Cut before a user message, so that the rest starts with one.`,
	Fix:      "When trimming the history, cut before a user message, so that the first message after the system prompt is the user's.",
	Severity: firstMessageSeverity,
	Run:      firstMessageRole,
}

// firstMessageSeverity returns Lenient for Claude, and for Bedrock's inference profiles, whose model may be Claude.
func firstMessageSeverity(t wire.Target) check.Severity {
	if after(t.Model, "claude") >= 0 || after(t.Model, "inference-profile") >= 0 {
		return check.Lenient
	}
	return bedrocks.and(wire.Gemini).reject(t)
}

func firstMessageRole(p *check.Pass) {
	switch p.Target.Dialect {
	case wire.OpenAIResponses, wire.Interactions:
		return
	case wire.OpenAIChat:
		switch p.Target.Variant {
		case wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Mistral, wire.Ollama:
			return
		default:
		}
	default:
	}
	if p.Request.Stored {
		return
	}
	i := firstTurn(p)
	if i == len(p.Request.Messages) || p.Request.Messages[i].Role != facts.RoleAssistant {
		return
	}
	detail, and := "", ""
	if len(p.Request.Messages[i].Calls) > 0 {
		detail, and = "call", " and makes a call"
	} else if p.Target.Dialect == wire.Gemini || p.Target.Dialect == wire.OpenAIChat && p.Target.Variant == wire.GeminiOpenAI {
		return // only a call must follow a user message
	}
	p.Report(i, nil, nil, detail, "message %d (%s) is the first of the history%s; no user message precedes it", i, role(p, i), and)
}
