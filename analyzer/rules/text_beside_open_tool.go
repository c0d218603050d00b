package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// TextBesideOpenTool finds other content beside tool results while the provider has yet to run a tool of the same turn.
var TextBesideOpenTool = &check.Rule{
	ID:    "text_beside_open_tool",
	Order: 335,
	Cause: "missing_tool_reply",
	Doc: `text beside tool results while a tool of the provider is open

Claude may call one of the agent's tools and one that Anthropic runs (web_search, code_execution) in one turn. Anthropic runs
its own after the agent's results, and only if the user message contains nothing else: a text ends the turn, and the request
is refused because the tool has no result. Usual cause: a reminder or the user's next message is appended to the results.`,
	Fix:      "Send only tool_result blocks while a server tool has no result, and the text with the next user message.",
	Severity: claudeAPIs.reject,
	Run:      textBesideOpenTool,
}

func textBesideOpenTool(p *check.Pass) {
	if p.Target.Dialect != wire.Anthropic {
		return
	}
	i := waiting(p)
	if i < 0 || p.Request.Messages[i].Fields&facts.FieldServerOpen == 0 {
		return
	}
	if p.Request.Messages[i+1].Parts&content != 0 {
		p.Report(i+1, nil, nil, "", "%s has other content beside its results, and a tool of the provider in message %d has no result yet", at(p, i+1), i)
	}
}
