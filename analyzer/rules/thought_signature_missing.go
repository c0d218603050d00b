package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// ThoughtSignatureMissing finds calls of Gemini that come back without its signature.
var ThoughtSignatureMissing = &check.Rule{
	ID:    "thought_signature_missing",
	Order: 370,
	Cause: "thought_signature_missing",
	Doc: `Gemini call without the thought signature it came with

From Gemini 3 on the first call of every step since the user's last text must carry its thoughtSignature; of parallel
calls only the first has one. Without it: "Function call is missing a thought_signature in functionCall parts"; in long
histories only "Request contains an invalid argument". Through the OpenAI endpoint it lies in the call's
extra_content.google.thought_signature. Usual causes: calls were stored as id, name and arguments; a stream's
extra_content was not assembled; the calls were made by another model. Store the call as it came.`,
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
	step := -1 // the message with the calls of the step before
	for i := currentTurn(p); i < len(p.Request.Messages); i++ {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleAssistant || len(m.Calls) == 0 {
			continue
		}
		if c := &m.Calls[0]; c.Signature <= facts.Null && (step < 0 || step != i-1) {
			p.Report(i, c.ID, c.Name, "", "message %d calls %s without the thought signature that this model wants back", i, function(c))
		}
		step = i
	}
}
