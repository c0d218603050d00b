package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// DuplicateCallIDInMessage finds calls that share their id with another call of the same turn.
var DuplicateCallIDInMessage = &check.Rule{
	ID:    "duplicate_call_id_in_message",
	Order: 70,
	Cause: "duplicate_call_id",
	Doc: `two tool calls of one turn with the same id

A reply names its call by id, so a reply to one of two calls with the same id is ambiguous: 400, "Duplicate value for
'tool_call_id'", "tool_use ids must be unique". Usual causes: the model, or a gateway that numbers calls, used one id
twice; a stream was assembled wrongly; one call was stored in two formats. Give each call its own id before the turn is
stored, and use it in the reply.`,
	Fix:      "Give every call of a turn its own id when the answer is stored, and the same id to its reply.",
	Severity: uniqueIDs.reject,
	Run:      duplicateCallIDInMessage,
}

var uniqueIDs = idBlockAPIs.and(wire.OpenAIChat, wire.OpenAI, wire.DeepSeek, wire.Kimi, wire.Mistral)

func duplicateCallIDInMessage(p *check.Pass) {
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if c.Again < 0 || p.Pairing.Calls[c.Again].Group != c.Group {
			continue
		}
		first := &p.Pairing.Calls[c.Again]
		severity := uniqueIDs.reject(p.Target)
		if first.Message != c.Message {
			severity = check.Lenient // duplicates in two messages have been accepted, although not within one turn
		}
		p.ReportAs(severity, c.Message, c.ID, c.Name, "", "%s calls %s with the id of another call of the turn, %s",
			at(p, c.Message), called(c), function(first.Call))
	}
}
