package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReasoningSignatureInvalid finds signed reasoning that differs from the reasoning in the answer.
var ReasoningSignatureInvalid = &check.Rule{
	ID:    "reasoning_signature_invalid",
	Order: 380,
	Cause: "reasoning_signature_invalid",
	Doc: `signed reasoning that was changed

Providers sign a model's reasoning and verify it when it is sent back: Anthropic answers "Invalid ` + "`signature` in `thinking`" + `
block", Gemini "Corrupted thought signature", OpenAI "The encrypted content for item rs_… could not be verified". Usual
causes: reasoning was cut, edited or re-encoded in the store; a stream's partial item was saved instead of the finished
one; blocks of one answer were mixed with those of another. Store thinking blocks, signatures and encrypted content
unchanged, or leave out the whole block.`,
	Fix:      "Store thinking blocks, thought signatures and encrypted reasoning byte for byte, taken from the finished answer.",
	Severity: by{wire.Anthropic: anthropics, wire.Gemini: nil, wire.OpenAIResponses: openAIs}.reject,
	Run:      reasoningSignatureInvalid,
}

// maxSigned bounds the number of reasoning items of an answer that are looked up in the request.
const maxSigned = 64

func reasoningSignatureInvalid(p *check.Pass) {
	unsigned(p)
	b := p.Before
	if b == nil || b.Copy < 0 || b.Copy >= len(p.Request.Messages) || len(b.Signed) == 0 {
		return
	}
	switch p.Target.Dialect {
	case wire.Anthropic:
		switch m, s := &p.Request.Messages[b.Copy], b.Signed[0]; {
		case changed(m, s):
			p.Report(b.Copy, nil, nil, "", "message %d (assistant) repeats the last answer with other signatures in its thinking", b.Copy)
		case m.Thought != 0 && s.Thought != 0 && m.Thought != s.Thought && m.Signed == s.Hash:
			// "Blocks must remain as they were in the original response", but no refusal because of the text alone was recorded.
			p.ReportAs(check.Lenient, b.Copy, nil, nil, "edited", "message %d (assistant) repeats the last answer with another text under the same signature in its thinking", b.Copy)
		}
	case wire.Gemini:
		// Signatures that the model does not require may be omitted. The facts do not distinguish an omission from a change.
		if m := &p.Request.Messages[b.Copy]; changed(m, b.Signed[0]) {
			p.ReportAs(check.Lenient, b.Copy, nil, nil, "", "message %d (assistant) repeats the last answer with other thought signatures", b.Copy)
		}
	case wire.OpenAIResponses:
		for _, s := range b.Signed[:min(len(b.Signed), maxSigned)] {
			if i := reasoningItem(p, s.ID); i >= 0 && changed(&p.Request.Messages[i], s) {
				p.Report(i, nil, nil, "", "message %d, the reasoning item %s, has encrypted content that differs from the answer's", i, name([]byte(s.ID)))
			}
		}
	default:
	}
}

// unsigned reports the first thinking of Claude that has lost its signature: "messages.1.content.0.thinking.signature: Field
// required". The reasoning of other models on Bedrock has none.
func unsigned(p *check.Pass) {
	severity := claudeAPIs.reject(p.Target)
	switch {
	case p.Target.Dialect == wire.Bedrock && modelIs(p, "claude"):
		severity = check.Reject
	case p.Target.Dialect == wire.Bedrock && (p.Target.Model == "" && len(p.Request.Model) == 0 || modelIs(p, "inference-profile")):
		severity = check.Lenient // the model is unknown
	case p.Target.Dialect != wire.Anthropic:
		return
	}
	for i := range p.Request.Messages {
		if m := &p.Request.Messages[i]; m.Role == facts.RoleAssistant && m.Fields&facts.FieldUnsigned != 0 {
			p.ReportAs(severity, i, nil, nil, "no_signature", "%s has thinking without its signature", at(p, i))
			return
		}
	}
}

// changed reports whether the signatures of m differ from those of the answer. It returns false if m has no signatures.
func changed(m *facts.Message, s facts.Signed) bool {
	return m.Signed != 0 && s.Hash != 0 && m.Signed != s.Hash
}

// reasoningItem returns the index of the reasoning item with this id; -1 if there is none.
func reasoningItem(p *check.Pass, id string) int {
	if id == "" {
		return -1
	}
	for i := range p.Request.Messages {
		if m := &p.Request.Messages[i]; m.Item == facts.ItemReasoning && string(m.ID) == id {
			return i
		}
	}
	return -1
}
