package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolResultNotFirst finds replies that follow other content of their message, and replies of one turn in several messages.
var ToolResultNotFirst = &check.Rule{
	ID:    "tool_result_not_first",
	Order: 330,
	Cause: "tool_turn_misplaced",
	Doc: `tool result that is not at the beginning of its user message

Anthropic and Bedrock read the results from the beginning of the user message after the calls; after a text they miss
them: "` + "`tool_use` ids were found without `tool_result`" + ` blocks immediately after". Bedrock also requires all results of a
turn in one message; Anthropic merges neighbours. Usual causes: a reminder is inserted before the results; a
converter from another dialect keeps the stored order. Put the results first, and text after them.`,
	Fix:      "Put all tool results of a turn at the beginning of one user message, and any text after them.",
	Severity: idBlockAPIs.reject,
	Run:      toolResultNotFirst,
}

// content contains the kinds of parts that may not precede a reply.
const content = facts.PartText | facts.PartImage | facts.PartAudio | facts.PartFile

func toolResultNotFirst(p *check.Pass) {
	if !hasBlocksWithIDs(p.Target) && p.Target.Variant != wire.VertexGemini {
		return // AI Studio accepts any order; Vertex AI reportedly refuses text before a reply, but has accepted text after it
	}
	together := grammars[p.Target.Dialect].together
	last := -1             // the last reported message
	group, first := -1, -1 // the current group and the message with its first reply
	for i := range p.Pairing.Replies {
		r := &p.Pairing.Replies[i]
		if r.Group >= 0 && r.Group != group {
			group, first = r.Group, r.Message
		}
		switch {
		case r.Message == last:
		case r.Reply.After&content != 0:
			last = r.Message
			p.Report(r.Message, r.ID, toolName(p, r.Call), "after_content", "message %d (user) has its reply to %s after other content",
				r.Message, name(r.ID))
		case together && r.Group >= 0 && r.Message != first:
			last = r.Message
			p.Report(r.Message, r.ID, toolName(p, r.Call), "spread", "message %d (user) answers %s, but message %d has other replies of the same turn",
				r.Message, name(r.ID), first)
		}
	}
}
