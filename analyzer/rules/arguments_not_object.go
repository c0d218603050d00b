package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ArgumentsNotObject finds calls whose arguments are not a JSON object, for targets that require one.
var ArgumentsNotObject = &check.Rule{
	ID:    "arguments_not_object",
	Order: 150,
	Cause: "arguments_not_object",
	Doc: `tool call whose arguments are not an object

Anthropic's input, Bedrock's toolUse.input, Gemini's args and the arguments of Ollama's own API are a JSON object, not a
string that contains one: "json: cannot unmarshal string into Go struct field", "Input should be a valid dictionary". Usual
cause: a history of chat completions, where arguments are a string, was converted without parsing it.`,
	Fix: "Parse the arguments string to an object when a history of chat completions is converted; send {} for no arguments.",
	Severity: func(t wire.Target) check.Severity {
		if t.Native && t.Dialect == wire.OpenAIChat {
			return check.Reject
		}
		return blockAPIs.and(wire.Interactions, wire.GeminiAPI).reject(t)
	},
	Run: argumentsNotObject,
}

func argumentsNotObject(p *check.Pass) {
	if !takesObjects(p.Target) && !p.Target.Native {
		return
	}
	needed := hasBlocksWithIDs(p.Target)
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if c.ArgsKind == facts.Object || c.ArgsKind <= facts.Null && !needed || c.FuncKind != facts.Object {
			continue
		}
		p.ReportCall(p.Severity(), c, kindDetail(c.ArgsKind), "%s calls %s with arguments that are %s, not an object",
			at(p, c.Message), called(c), kind(c.ArgsKind))
	}
}
