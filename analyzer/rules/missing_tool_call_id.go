package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// MissingToolCallID finds tool messages that do not say which call they answer.
var MissingToolCallID = &analyzer.Rule{
	ID: "missing_tool_call_id",
	Doc: `tool message without a tool_call_id

Without tool_call_id, or with an empty one, a reply belongs to no call: 400, "messages with role 'tool' must have a
'tool_call_id'". Usual causes: the id is no column of the table that stores messages; a stream was assembled from deltas
that carry the id apart from the name. Store the id with the call and with its reply.`,
	Fix:      "Set tool_call_id of every tool message to the id of the call it answers, and store it with the message.",
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.DeepSeek, facts.Kimi, facts.Mistral),
	Run:      missingToolCallID,
}

func missingToolCallID(p *analyzer.Pass) {
	for r := range p.Groups.With(analyzer.ReplyWithoutID) {
		detail, is := "not_string", ""
		switch k := r.IDKind; k {
		case facts.Absent:
			detail, is = "absent", "has no tool_call_id"
		case facts.String:
			detail, is = "empty", "has an empty tool_call_id"
		default:
			is = "has a tool_call_id that is " + kind(k) + ", not a string"
		}
		p.Report(r.Message, nil, toolName(p, r.Call), detail, "message %d (tool) %s", r.Message, is)
	}
}
