package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolContentMissing finds tool replies without content.
var ToolContentMissing = &check.Rule{
	ID:    "tool_content_missing",
	Order: 110,
	Cause: "missing_required_field",
	Doc: `tool reply without content

A tool that returns nothing still needs a reply with content: null or missing content is answered with 400, "Invalid value for
'content': expected a string, got null". Usual causes: the tool returned None or undefined, which was stored as it is;
an exception in the tool was swallowed. An empty string is accepted. Anthropic accepts a tool_result without content.`,
	Fix: "Store an empty string, or better a word like \"ok\" or the error's text, when a tool returns nothing.",
	Severity: func(t wire.Target) check.Severity {
		if t.Native {
			return check.Lenient
		}
		return bedrocks.and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.Ollama).reject(t)
	},
	Run: toolContentMissing,
}

func toolContentMissing(p *check.Pass) {
	if p.Target.Dialect == wire.Anthropic {
		return
	}
	for i := range p.Pairing.Replies {
		r := &p.Pairing.Replies[i]
		if r.Content > facts.Null {
			continue
		}
		detail, is := "absent", "no content"
		if r.Content == facts.Null {
			detail, is = "null", "content that is null"
		}
		p.Report(r.Message, r.ID, toolName(p, r.Call), detail, "%s %s", theReply(p, r.Message), is)
	}
}
