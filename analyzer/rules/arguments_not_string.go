package rules

import (
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// ArgumentsNotString finds calls whose arguments are JSON instead of a string that holds JSON.
var ArgumentsNotString = &analyzer.Rule{
	ID: "arguments_not_string",
	Doc: `tool call whose arguments are not a string

In chat completions function.arguments is a string that holds JSON: "{\"a\":1}", not {"a":1}. OpenAI answers 400 with the
path; Gemini answers only "Request contains an invalid argument". Usual cause: arguments were parsed to run the tool, or
stored in a JSON column, and sent back parsed. Keep the string of the answer.`,
	Fix:      "Send function.arguments back as the string that the model gave; serialise it again if it was parsed.",
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.GeminiOpenAI, facts.Ollama),
	Run:      argumentsNotString,
}

func argumentsNotString(p *analyzer.Pass) {
	for i := range p.Groups.Calls {
		c := &p.Groups.Calls[i]
		// Only function calls have arguments: a call of another type, or in a framework's flat shape, has no function.
		if c.FuncKind != facts.Object || c.ArgsKind == facts.String {
			continue
		}
		var detail string
		switch c.ArgsKind {
		case facts.Absent:
			detail = "absent"
		case facts.Null:
			detail = "null"
		case facts.Array:
			detail = "array"
		case facts.Object:
			detail = "object"
		default:
			detail = "scalar"
		}
		m := c.Message
		p.Report(m, c.ID, c.Name, detail, "message %d (assistant) calls %s (%s) with arguments that are %s, not a string",
			m, function(c.Call), name(c.ID), kind(c.ArgsKind))
	}
}
