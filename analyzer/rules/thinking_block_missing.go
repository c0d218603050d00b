package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ThinkingBlockMissing finds Claude's calls in thinking mode that are sent back without the thinking before them.
var ThinkingBlockMissing = &check.Rule{
	ID:    "thinking_block_missing",
	Order: 390,
	Cause: "thinking_block_missing",
	Doc: `calls in thinking mode without the thinking block before them

With thinking enabled, older Claude models answer "Expected ` + "`thinking` or `redacted_thinking`, but found `tool_use`" + `. When
thinking is enabled, a final assistant message must start with a thinking block"; newer ones were seen to accept it, but
continue without their reasoning. Usual causes: blocks that are neither text nor tool_use are dropped on saving; the calls
were made by another model, or before thinking was switched on. Store all blocks of the answer in order.`,
	Fix: "Store and resend thinking and redacted_thinking blocks with the tool_use blocks after them, unchanged and in their order.",
	// Models differ, and the same model has changed its behaviour, so a rejection cannot be predicted.
	Severity: by{}.reject,
	Run:      thinkingBlockMissing,
}

func thinkingBlockMissing(p *check.Pass) {
	claude := p.Target.Dialect == wire.Anthropic || p.Target.Dialect == wire.Bedrock && modelIs(p, "claude")
	if !claude || p.Request.Thinking != facts.ThinkingOn {
		return
	}
	// Find the last assistant turn, which only replies and system messages may follow.
	last := len(p.Request.Messages) - 1
	for ; last >= 0; last-- {
		if m := &p.Request.Messages[last]; m.Role == facts.RoleAssistant {
			break
		} else if len(m.Replies) == 0 && !isSystem(m) {
			return
		}
	}
	first, calls := last, 0
	for ; first >= 0 && p.Request.Messages[first].Role == facts.RoleAssistant; first-- {
		calls += len(p.Request.Messages[first].Calls)
	}
	if first++; calls == 0 || p.Request.Messages[first].FirstPart&facts.PartReasoning != 0 {
		return
	}
	m, detail := &p.Request.Messages[first], "absent"
	if m.Parts&facts.PartReasoning != 0 {
		detail = "not_first"
	}
	p.Report(first, nil, nil, detail, "message %d (assistant) makes calls in thinking mode, but does not start with a thinking block", first)
}
