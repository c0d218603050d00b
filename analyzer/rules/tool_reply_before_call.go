package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolReplyBeforeCall finds tool replies that precede the assistant message with their call.
var ToolReplyBeforeCall = &check.Rule{
	ID:    "tool_reply_before_call",
	Order: 20,
	Cause: "tool_turn_misplaced",
	Doc: `tool reply before the assistant message that made its call

Providers read from the top, so the reply is an orphan to them, and the call has no reply after it: 400. Usual causes:
the history is loaded from a store in the wrong order (by time stamps that are equal, by random ids), or two writers
append to one conversation. Keep a sequence number per conversation and load by it.`,
	Fix:      "Load the history in the order in which it was written: the assistant message with the calls first, then their replies.",
	Severity: func(t wire.Target) check.Severity { return beforeCall(t, needCalls) },
	Run:      toolReplyBeforeCall,
}

// beforeCall returns the severity of a reply before its call, for the targets that reject a reply without its call. According
// to the documentation, a call and its reply may be in any order in a Responses input.
func beforeCall(t wire.Target, who by) check.Severity {
	if t.Dialect == wire.OpenAIResponses {
		return check.Lenient
	}
	return who.reject(t)
}

func toolReplyBeforeCall(p *check.Pass) {
	for r := range p.Pairing.With(check.ReplyBeforeCall) {
		c := &p.Pairing.Calls[r.Call]
		who := needCalls
		if r.Group >= 0 { // in the place of a reply, so only a target that compares ids rejects it
			who = compareIDs
		}
		p.ReportReply(beforeCall(p.Target, who), r, c.Name, "", "%s answers %s, which is called only later, in %s", at(p, r.Message), answered(p, c), ref(p, c.Message))
	}
}
