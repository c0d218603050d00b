package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// UnknownToolCallID finds tool replies in an open turn whose id matches none of the calls of the turn.
var UnknownToolCallID = &check.Rule{
	ID:    "unknown_tool_call_id",
	Order: 40,
	Cause: "unknown_tool_call_id",
	Doc: `tool reply with an id that its assistant message did not call

The reply is in the right place, but its tool_call_id is none of the ids in tool_calls, so the provider cannot match it
to a call: 400. Usual causes: the id is regenerated, cut or cleaned on one side only; a gateway renames ids; the
result was stored in the place of the id; the assistant message with the call was never saved, so that its reply follows
the previous turn's. In Gemini's own API the name of the function takes the place of the id. Save every assistant message
with calls before its replies, and copy the id from the answer, byte for byte.`,
	Fix: "Save the assistant message that made the call before its reply, with the same id in both.",
	// That DeepSeek checks this is only inferred. Gemini, and Mistral's validators before version 13, count replies and do not
	// compare ids.
	Severity: compareIDs.reject,
	Run:      unknownToolCallID,
}

var compareIDs = idBlockAPIs.and(wire.OpenAIResponses, openAIs...).
	and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.Kimi, wire.MiniMax, wire.GeminiOpenAI)

func unknownToolCallID(p *check.Pass) {
	var severity check.Severity
	for r := range p.Pairing.With(check.ReplyUnknown) {
		if severity == "" {
			severity = unlessOtherCalls(p, compareIDs)
		}
		g, severity := p.Pairing.Groups[r.Group], ofOutput(p, r, severity)
		if p.Target.Dialect == wire.Gemini && g.Replies > g.Last-g.First {
			severity = check.Reject // Gemini counts replies
		}
		said := quoted(p, r.ID, r.Name)
		if g.Last-g.First == 1 {
			c := &p.Pairing.Calls[g.First]
			called := quoted(p, c.ID, c.Name)
			if string(called) == string(said) { // the names are equal, but the ids are not
				called, said = c.ID, r.ID
			}
			p.ReportReply(severity, r, quoted(p, nil, r.Name), "", "%s answers %s, but %s called %s",
				at(p, r.Message), name(said), ref(p, g.Message), name(called))
			continue
		}
		p.ReportReply(severity, r, quoted(p, nil, r.Name), "", "%s answers %s, which is none of the %d calls of %s",
			at(p, r.Message), name(said), g.Last-g.First, ref(p, g.Message))
	}
}
