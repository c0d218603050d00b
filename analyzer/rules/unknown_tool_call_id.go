package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// UnknownToolCallID finds tool messages of an open turn that name none of its calls.
var UnknownToolCallID = &analyzer.Rule{
	ID: "unknown_tool_call_id",
	Doc: `tool message with an id that its assistant message did not call

The reply stands at the right place, but its tool_call_id is none of the ids in tool_calls, so the provider can not tell
what it answers: 400. Usual causes: the id is made anew, cut or cleaned on one side only; a gateway renames ids; the
result was put where the id belongs. Copy the id from the answer, byte for byte.`,
	Fix: "Copy tool_call_id unchanged from the id in the model's tool_calls.",
	// DeepSeek is only inferred to check this; Mistral's validators before version 13 count replies and compare no ids.
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.Kimi, facts.MiniMax, facts.GeminiOpenAI),
	Run:      unknownToolCallID,
}

func unknownToolCallID(p *analyzer.Pass) {
	for r := range p.Groups.With(analyzer.ReplyUnknown) {
		g := p.Groups.Groups[r.Group]
		if g.Last-g.First == 1 {
			p.Report(r.Message, r.ID, nil, "", "message %d (tool) answers %s, but message %d called %s",
				r.Message, name(r.ID), g.Message, name(p.Groups.Calls[g.First].ID))
			continue
		}
		p.Report(r.Message, r.ID, nil, "", "message %d (tool) answers %s, which is none of the %d calls of message %d",
			r.Message, name(r.ID), g.Last-g.First, g.Message)
	}
}
