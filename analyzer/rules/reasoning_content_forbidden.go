package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReasoningContentForbidden finds reasoning that is sent to a target that refuses it.
var ReasoningContentForbidden = &check.Rule{
	ID:    "reasoning_content_forbidden",
	Order: 360,
	Cause: "reasoning_content_forbidden",
	Doc: `reasoning sent to a provider that refuses it

One provider requires reasoning back, another refuses it: Groq and
Cerebras answer "property 'reasoning_content' is unsupported", Mistral 422
extra_forbidden, Fireworks "Extra inputs are not permitted". Usual causes: the provider was switched in the middle of a
conversation; a gateway adds reasoning_content to answers and the agent stores it. Keep reasoning in the store, and
decide for each provider whether to send it.`,
	Fix:      "Strip reasoning_content, reasoning and reasoning_details when sending to this provider, and keep them in the store.",
	Severity: rejectedBy(wire.Groq, wire.Mistral, wire.Fireworks, wire.Cerebras),
	Run:      reasoningContentForbidden,
}

func reasoningContentForbidden(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat {
		return
	}
	refused := facts.FieldReasoningContent | facts.FieldReasoning | facts.FieldReasoningDetails
	switch p.Target.Variant {
	case wire.Mistral, wire.Fireworks, wire.OpenAI, wire.GeminiOpenAI:
	case wire.Cerebras:
		refused = facts.FieldReasoningContent // its answers have reasoning, and it accepts that back
	case wire.Groq:
		if !modelIs(p, "llama") && !modelIs(p, "gemma") {
			refused &^= facts.FieldReasoning // may be accepted, because some models on Groq reason
		}
	default: // other targets return reasoning in their answers or forward it
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		fields := m.Fields & refused
		if p.Target.Variant != wire.Mistral { // Mistral also refuses null
			fields &^= m.NullFields
		}
		if fields != 0 {
			p.Report(i, nil, nil, fieldName(m, fields), "message %d (%s) has %s, which this provider does not accept", i, role(p, i), fieldName(m, fields))
		}
	}
}
