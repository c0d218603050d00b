package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReasoningContentMissing finds calls of a thinking model that are sent back without the model's reasoning.
var ReasoningContentMissing = &check.Rule{
	ID:    "reasoning_content_missing",
	Order: 350,
	Cause: "reasoning_content_missing",
	Doc: `assistant message with calls that lost its reasoning_content

DeepSeek (V3.2 and V4), Kimi, GLM and MiMo require their reasoning back in thinking mode: "The ` + "`reasoning_content`" + ` in the
thinking mode must be passed back to the API", "thinking is enabled but reasoning_content is missing in assistant tool
call message at index 2". The key is required even if its value is empty. Usual causes: the message was stored with
role, content and tool_calls only; an old rule to strip reasoning_content, right for DeepSeek R1 in 2025, is still in
place; the calls were made by another model. Store the assistant message unchanged.`,
	Fix:      "Store and resend reasoning_content with every assistant message that has tool_calls, also when it is empty, or switch thinking off.",
	Severity: rejectedBy(wire.DeepSeek, wire.Kimi, wire.GLM, wire.MiMo),
	Run:      reasoningContentMissing,
}

func reasoningContentMissing(p *check.Pass) {
	from := thinksFrom(p)
	if from < 0 {
		return
	}
	const reasoning = facts.FieldReasoningContent | facts.FieldReasoning | facts.FieldReasoningDetails
	for i := from; i < len(p.Request.Messages); i++ {
		m := &p.Request.Messages[i]
		if m.Role == facts.RoleAssistant && len(m.Calls) > 0 && m.Fields&reasoning == 0 {
			p.Report(i, nil, nil, "", "message %d (assistant) makes calls and has no reasoning_content, which this model requires in thinking mode", i)
		}
	}
}

// thinksFrom returns the index from which messages with calls require reasoning_content; -1 if the target is not known to
// require it. Whether the model thinks is read from the request, or else inferred from the name of the model or from reasoning
// in other messages with calls. Only DeepSeek V4, Kimi and MiMo are documented to require the reasoning of earlier turns.
func thinksFrom(p *check.Pass) int {
	if p.Target.Dialect != wire.OpenAIChat || p.Request.Thinking == facts.ThinkingOff {
		return -1
	}
	on := p.Request.Thinking == facts.ThinkingOn
	switch p.Target.Variant {
	case wire.DeepSeek:
		switch {
		case modelIs(p, "v4"): // thinks unless the request says otherwise
			return 0
		case on || modelIs(p, "reasoner") || !modelIs(p, "chat") && otherCallsReason(p, currentTurn(p)):
			return currentTurn(p)
		}
	case wire.Kimi:
		v, ok := versionOf(p, "kimi-k")
		if on || ok && v.atLeast(2, 5) || modelIs(p, "thinking") || !ok && otherCallsReason(p, 0) {
			return 0
		}
	case wire.MiMo:
		if on || otherCallsReason(p, 0) {
			return 0
		}
	case wire.GLM:
		if on || otherCallsReason(p, currentTurn(p)) {
			return currentTurn(p)
		}
	default:
	}
	return -1
}

// otherCallsReason reports whether a message with calls, at or after from, has reasoning_content.
func otherCallsReason(p *check.Pass, from int) bool {
	for i := from; i < len(p.Request.Messages); i++ {
		m := &p.Request.Messages[i]
		if m.Role == facts.RoleAssistant && len(m.Calls) > 0 && m.Fields&^m.NullFields&facts.FieldReasoningContent != 0 {
			return true
		}
	}
	return false
}
