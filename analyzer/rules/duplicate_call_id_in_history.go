package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// DuplicateCallIDInHistory finds calls that reuse the id of a call in an earlier turn.
var DuplicateCallIDInHistory = &check.Rule{
	ID:    "duplicate_call_id_in_history",
	Order: 80,
	Cause: "duplicate_call_id",
	Doc: `tool call with the id of a call of an earlier turn

Models and gateways do number their calls anew each turn (call_0, tool_0_weather), and providers accept it, Anthropic
too, although its "tool_use ids must be unique" is documented for the whole request. Gemini draws ids that sometimes repeat
in a long conversation, and an agent that pairs by id then sends the reply of another call (google/adk-python#6761).
Providers that count calls and replies by id answer 400 when one of the two calls has no reply. A turn that was stored twice
looks the same. Make the ids unique when an answer is stored.`,
	Fix:      "Make call ids unique in the conversation when the answer is stored, and store each turn once.",
	Severity: by{}.reject,
	Run:      duplicateCallIDInHistory,
}

// countIDs is the set of targets that compare the number of calls with the number of replies for each id.
var countIDs = by{wire.OpenAIChat: {wire.Mistral, wire.MiniMax}}

func duplicateCallIDInHistory(p *check.Pass) {
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if c.Again < 0 || p.Pairing.Calls[c.Again].Group == c.Group {
			continue
		}
		first := &p.Pairing.Calls[c.Again]
		severity := check.Lenient
		if countIDs.has(p.Target) && !p.Pairing.Unknown && (c.Reply < 0 || first.Reply < 0) {
			severity = check.Reject
		}
		p.ReportAs(severity, c.Message, c.ID, c.Name, "", "%s calls %s with the id of the call of %s in %s",
			at(p, c.Message), called(c), function(first.Call), ref(p, first.Message))
	}
}
