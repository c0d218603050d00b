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
extra_content.google.thought_signature. Usual causes: calls were stored as id, name and arguments; a stream's
extra_content was not assembled; the calls were made by another model. Store the call unchanged.`,
	Fix:      "Store and resend thoughtSignature (extra_content of a call in the OpenAI format); for calls of another model send skip_thought_signature_validator.",
	Severity: by{wire.Gemini: nil, wire.OpenAIChat: {wire.GeminiOpenAI}}.reject,
	Run:      thoughtSignatureMissing,
}

func thoughtSignatureMissing(p *check.Pass) {
	if p.Target.Dialect != wire.Gemini && (p.Target.Dialect != wire.OpenAIChat || p.Target.Variant != wire.GeminiOpenAI) {
		return
	}
	if v, ok := versionOf(p, "gemini-"); !ok || v.major < 3 {
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
