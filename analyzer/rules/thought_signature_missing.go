package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ThoughtSignatureMissing finds Gemini's calls that are sent back without their thought signature.
var ThoughtSignatureMissing = &check.Rule{
	ID:    "thought_signature_missing",
	Order: 370,
	Cause: "thought_signature_missing",
	Doc: `Gemini call without its thought signature

From Gemini 3 on the first call of every step since the user's last text must carry its thoughtSignature; of parallel
calls only the first has one. Without it: "Function call is missing a thought_signature in functionCall parts"; in long
histories only "Request contains an invalid argument". In the OpenAI endpoint it is in the call's
extra_content.google.thought_signature; in the Interactions API, in the thought before the call. Usual causes: calls were stored as id, name and arguments; a stream's
extra_content was not assembled; the calls were made by another model. Store the call unchanged.`,
	Fix:      "Store and resend thoughtSignature (extra_content of a call in the OpenAI format, the thought before it in the Interactions API); for calls of another model send skip_thought_signature_validator.",
	Severity: by{wire.Gemini: nil, wire.Interactions: {wire.GeminiAPI}, wire.OpenAIChat: {wire.GeminiOpenAI}}.reject,
	Run:      thoughtSignatureMissing,
}

func thoughtSignatureMissing(p *check.Pass) {
	steps := p.Target.Dialect == wire.Interactions
	if p.Target.Dialect != wire.Gemini && !steps && (p.Target.Dialect != wire.OpenAIChat || p.Target.Variant != wire.GeminiOpenAI) {
		return
	}
	if v, ok := versionOf(p, "gemini-"); !ok || v.major < 3 {
		return
	}
	if steps {
		thoughtMissing(p)
		return
	}
	step := -1 // index of the message with the calls of the previous step
	for i := currentTurn(p); i < len(p.Request.Messages); i++ {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleAssistant || len(m.Calls) == 0 {
			continue
		}
		if c := &m.Calls[0]; c.Signature <= facts.Null && (step < 0 || step != i-1) {
			p.Report(i, c.ID, c.Name, "", "message %d calls %s without the thought signature that this model requires", i, function(c))
		}
		step = i
	}
}

// thoughtMissing reports steps of calls without a signed thought since the replies before them, or the user's message. All parallel
// calls share the thought.
func thoughtMissing(p *check.Pass) {
	signed := p.Request.Stored // the provider may have the thought
	for i := currentTurn(p); i < len(p.Request.Messages); i++ {
		switch m := &p.Request.Messages[i]; {
		case m.Item == facts.ItemReasoning && m.Signed != 0:
			signed = true
		case m.Item == facts.ItemReply:
			signed = false
		case m.Item == facts.ItemCall && !signed && len(m.Calls) > 0 && m.Calls[0].Signature <= facts.Null:
			c := &m.Calls[0]
			p.Report(i, c.ID, c.Name, "", "%s calls %s, and no thought with a signature, which this model requires, precedes it", at(p, i), function(c))
			signed = true
		}
	}
}
