package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// DuplicateToolReply finds second replies to a call within its turn.
var DuplicateToolReply = &analyzer.Rule{
	ID: "duplicate_tool_reply",
	Doc: `second tool message for one call

One call takes one reply; a second one with the same tool_call_id in the turn is answered with 400. Usual causes: the
tool ran twice; a retry or a resumed run appended its result again; an approval and the result were both stored as
replies. Replace the reply instead of appending another. The same id in a later turn is no defect.`,
	Fix:      "Store one tool message per tool_call_id: replace the reply on a retry instead of appending another.",
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.DeepSeek, facts.Mistral),
	Run:      duplicateToolReply,
}

func duplicateToolReply(p *analyzer.Pass) {
	for r := range p.Groups.With(analyzer.ReplyDuplicate) {
		c := p.Groups.Calls[r.Call]
		p.Report(r.Message, r.ID, c.Name, "", "message %d (tool) answers %s (%s) again: message %d answered it already",
			r.Message, name(r.ID), function(c.Call), p.Groups.Replies[c.Reply].Message)
	}
}
