package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// PreviousResponseUnresolved finds requests that do not correctly continue the answer named by previous_response_id.
var PreviousResponseUnresolved = &check.Rule{
	ID:    "previous_response_unresolved",
	Order: 440,
	Cause: "previous_response_unresolved",
	Doc: `previous_response_id whose calls are not answered, or are sent again

The named answer (thread.previous_message_id in Anthropic's message threads), with all before it, is the history: the
input must answer each of its calls, "No tool output found for function call call_…", and must not repeat what is there
already, "Duplicate item found". Usual causes: a tool failed and nothing was sent for it; the whole history is sent on
top of the chain. Send only new items: an output for every call, and the user's message.`,
	Fix:      "With previous_response_id send only new items, and one function_call_output for every call of that answer.",
	Severity: by{wire.OpenAIResponses: openAIs}.reject,
	Run:      previousResponseUnresolved,
}

func previousResponseUnresolved(p *check.Pass) {
	if p.Before == nil || p.Before.Chain == nil {
		return // the answer is unknown
	}
	if len(p.Pairing.Calls) > 0 {
		resent := p.Set(len(p.Before.Chain.Calls))
		for _, c := range p.Before.Chain.Calls {
			if c.ID != "" {
				resent.Add([]byte(c.ID))
			}
		}
		for i := range p.Pairing.Calls {
			if c := &p.Pairing.Calls[i]; len(c.ID) > 0 && resent.Has(c.ID) {
				severity := by{wire.OpenAIResponses: openAIs}.reject(p.Target)
				if len(p.Request.Messages[c.Message].ID) == 0 {
					severity = check.Lenient // only an item with an id is a duplicate; others have been accepted
				}
				p.ReportAs(severity, c.Message, c.ID, c.Name, "chain_plus_full_history", "%s repeats call %s (%s), which the answer named by %s already contains",
					at(p, c.Message), name(c.ID), function(c.Call), namingField(p))
				return // the rest of the history is repeated too
			}
		}
	}
	output, input := "output", "input"
	if p.Target.Dialect != wire.OpenAIResponses {
		output, input = wordsOf(p).Reply, "request"
	}
	for i := range p.Pairing.Chained {
		c := &p.Pairing.Chained[i]
		p.Report(-1, []byte(c.ID), []byte(c.Name), "unanswered", "call %s (%s) of the answer named by %s has no %s in this %s",
			name([]byte(c.ID)), name([]byte(c.Name)), namingField(p), output, input)
	}
}

// namingField returns the path of the member that names the answer to continue.
func namingField(p *check.Pass) string {
	switch p.Target.Dialect {
	case wire.Anthropic:
		return "thread.previous_message_id"
	case wire.Interactions:
		return "previous_interaction_id"
	default:
		return "previous_response_id"
	}
}
