package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolContentNotString finds tool replies whose content is neither text nor content parts.
var ToolContentNotString = &check.Rule{
	ID:    "tool_content_not_string",
	Order: 100,
	Cause: "tool_content_type",
	Doc: `tool reply whose content is neither a string nor content parts

Content is a string, or an array of parts like {"type":"text","text":…}. A raw result, such as an object, a number
or an array of results, is answered with 400. Usual cause: the tool's result was not serialised. Encode it as JSON text.
In Gemini's own API the response is an object instead.`,
	Fix:      "Serialise the tool's result to a string (json.dumps, JSON.stringify) before storing it as content.",
	Severity: rejectedBy(wire.OpenAI, wire.Azure, wire.Qwen, wire.Groq, wire.Mistral, wire.GeminiOpenAI, wire.Ollama),
	Run:      toolContentNotString,
}

func toolContentNotString(p *check.Pass) {
	if p.Target.Dialect == wire.Gemini {
		return
	}
	for i := range p.Pairing.Replies {
		r := &p.Pairing.Replies[i]
		detail, is := "", kind(r.Content)
		switch {
		case r.Content == facts.Object:
			detail = "object"
		case r.Content == facts.Number || r.Content == facts.Bool:
			detail = "scalar"
		case r.Content == facts.Array && r.Parts&facts.PartBad != 0:
			detail, is = "array", "an array of something other than content parts"
		default:
			continue
		}
		p.Report(r.Message, r.ID, toolName(p, r.Call), detail, "%s content that is %s, not a string", theReply(p, r.Message), is)
	}
}
