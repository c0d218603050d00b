package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// MissingToolReply finds calls without a reply in their turn.
var MissingToolReply = &analyzer.Rule{
	ID: "missing_tool_reply",
	Doc: `tool call without a tool message that answers it

Every id in tool_calls needs its own tool message before the next message of another role: else 400, "An assistant
message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'". Usual causes: only the
first of several parallel calls is run; a tool failed, timed out or was cancelled and nothing was stored; the process
died between call and reply; the history was cut at its end. Write a reply for every call in any case: a tool that did
not run still gets a tool message that says so.`,
	Fix:      "Append one tool message for every call, also when the tool failed or was skipped (say so in its content), before the next request.",
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.DeepSeek, facts.Qwen, facts.Kimi, facts.Mistral),
	Run:      missingToolReply,
}

func missingToolReply(p *analyzer.Pass) {
	for c := range p.Groups.Unanswered() {
		g := p.Groups.Groups[c.Group]
		of := g.Last - g.First
		if end := len(p.Request.Messages); g.End == end {
			p.Report(c.Message, c.ID, c.Name, missing(g, "at_end"), "call %s (%s) of message %d has no reply: the request ends with %d of %d calls answered",
				name(c.ID), function(c.Call), c.Message, g.Answered, of)
			continue
		}
		p.Report(c.Message, c.ID, c.Name, missing(g, "middle"), "call %s (%s) of message %d has no reply: message %d (%s) follows with %d of %d calls answered",
			name(c.ID), function(c.Call), c.Message, g.End, role(p, g.End), g.Answered, of)
	}
}

// missing is the detail: whether other calls of the turn have replies, and whether the request goes on after it.
func missing(g analyzer.Group, place string) string {
	if g.Answered > 0 {
		return "partial_" + place
	}
	return "none_" + place
}
