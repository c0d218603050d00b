package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// DuplicateToolReply finds further replies to an already answered call within its turn.
var DuplicateToolReply = &check.Rule{
	ID:    "duplicate_tool_reply",
	Order: 60,
	Cause: "duplicate_tool_reply",
	Doc: `second tool reply to one call

A call has exactly one reply; a second one with the same id in the turn is answered with 400. Usual causes: the
tool ran twice; a retry or a resumed run appended its result again; an approval and the result were both stored as
replies. Replace the reply instead of appending another. The same id in a later turn is not a defect.`,
	Fix:      "Store one reply per call id: replace the reply on a retry instead of appending another.",
	Severity: blockAPIs.and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Mistral).reject,
	Run:      duplicateToolReply,
}

func duplicateToolReply(p *check.Pass) {
	for r := range p.Pairing.With(check.ReplyDuplicate) {
		c := &p.Pairing.Calls[r.Call]
		first := p.Pairing.Replies[c.Reply].Message
		if first == r.Message {
			p.ReportReply(p.Severity(), r, c.Name, "", "%s answers %s twice", at(p, r.Message), answered(p, c))
			continue
		}
		p.ReportReply(p.Severity(), r, c.Name, "", "%s answers %s again: %s answered it already", at(p, r.Message), answered(p, c), ref(p, first))
	}
}
