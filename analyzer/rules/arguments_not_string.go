package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ArgumentsNotString finds calls whose arguments are JSON instead of a string of JSON.
var ArgumentsNotString = &check.Rule{
	ID:    "arguments_not_string",
	Order: 140,
	Cause: "arguments_not_string",
	Doc: `tool call whose arguments are not a string

In chat completions, and in the Responses API, arguments are a string of JSON: "{\"a\":1}", not {"a":1}. OpenAI
answers 400 with the path; Gemini's OpenAI endpoint answers only "Request contains an invalid argument". Usual cause:
arguments were parsed to run the tool, or stored in a JSON column, and sent back parsed. Keep the answer's string.`,
	Fix: "Send function.arguments back as the string that the model gave; serialise it again after parsing.",
	Severity: func(t wire.Target) check.Severity {
		if t.Native {
			return check.Lenient
		}
		return by{
			wire.OpenAIChat:      {wire.OpenAI, wire.Azure, wire.GeminiOpenAI, wire.Ollama},
			wire.OpenAIResponses: openAIs,
		}.reject(t)
	},
	Run: argumentsNotString,
}

func argumentsNotString(p *check.Pass) {
	if takesObjects(p.Target) || p.Target.Native {
		return // they require an object
	}
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		// Only function calls have arguments. A call of another type or in the flat format of a framework has no function.
		if c.FuncKind != facts.Object || c.ArgsKind == facts.String || c.Type == facts.TypeCustom {
			continue
		}
		p.Report(c.Message, c.ID, c.Name, kindDetail(c.ArgsKind), "%s calls %s with arguments that are %s, not a string",
			at(p, c.Message), called(c), kind(c.ArgsKind))
	}
}
