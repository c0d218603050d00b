package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// LateToolReply finds tool replies after a message that ended the turn of their call.
var LateToolReply = &check.Rule{
	ID:    "late_tool_reply",
	Order: 30,
	Cause: "missing_tool_reply",
	Doc: `tool reply after its call's turn was closed by another message

All replies must follow their assistant message directly. A user, system or assistant message in between ends the turn:
providers then miss the reply, or see the late one as an orphan, and answer 400. OpenAI's Responses API pairs calls and
outputs anywhere in the input; DeepSeek's copy of it does not. Usual causes: a reminder or a new user
message is inserted while a tool runs; parallel calls are stored as several assistant messages; two workers share one
conversation. Hold new messages back until every call has its reply.`,
	Fix: "Append every tool reply directly after its assistant message, and hold other messages back until the last reply is in.",
	Severity: blockAPIs.and(wire.OpenAIResponses, wire.DeepSeekResponses).
		and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Qwen, wire.Kimi, wire.Mistral, wire.MiniMax).reject,
	Run: lateToolReply,
}

func lateToolReply(p *check.Pass) {
	for r := range p.Pairing.With(check.ReplyLate) {
		c := &p.Pairing.Calls[r.Call]
		g := p.Pairing.Groups[c.Group]
		closed := p.Request.Messages[g.End].Role
		p.ReportReply(p.Severity(), r, c.Name, closedBy(closed), "%s answers %s of %s too late: %s is in between",
			at(p, r.Message), answered(p, c), ref(p, c.Message), at(p, g.End))
	}
}

// closedBy returns the detail, which is the role of the message between a call and its reply.
func closedBy(r facts.Role) string {
	switch r {
	case facts.RoleUser:
		return "user_between"
	case facts.RoleAssistant:
		return "assistant_between"
	case facts.RoleSystem, facts.RoleDeveloper:
		return "system_between"
	default:
		return "other_between"
	}
}
