package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ArgumentsInvalidJSON finds calls whose arguments string is not a JSON object.
var ArgumentsInvalidJSON = &check.Rule{
	ID:    "arguments_invalid_json",
	Order: 160,
	Cause: "arguments_invalid_json",
	Doc: `tool call whose arguments string is not a JSON object

Servers that parse the history, such as Qwen, MiniMax, Ollama and SGLang, answer 400 or 500, and every later request of
the conversation contains the same broken call. Usual causes: the answer was cut by max_tokens; two calls of a stream
were joined into one; the model wrote invalid JSON. Check arguments before storing the turn: repair them, ask again, or
store an empty object and tell the model in the reply. An empty string is accepted as "no arguments".`,
	Fix: "Parse arguments before storing the turn; when they do not parse, ask the model again or store {} and say so in its reply.",
	// vLLM rejected them until 2026-09 and has replaced them with {} since; a request does not show which version answers.
	Severity: func(t wire.Target) check.Severity {
		if t.Native {
			return check.Lenient
		}
		return by{wire.OpenAIChat: {wire.Qwen, wire.MiniMax, wire.Ollama, wire.SGLang, wire.MiMo}}.reject(t)
	},
	Run: argumentsInvalidJSON,
}

func argumentsInvalidJSON(p *check.Pass) {
	if takesObjects(p.Target) || p.Target.Native {
		return // they do not accept strings; see arguments_not_object
	}
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if c.ArgsKind != facts.String || c.Type == facts.TypeCustom {
			continue
		}
		detail, are := "", ""
		switch c.Args {
		case facts.ArgsTruncated:
			detail, are = "truncated", "end in the middle of their JSON"
		case facts.ArgsMultiple:
			detail, are = "concatenated", "are several JSON values in one string"
		case facts.ArgsNotObject:
			detail, are = "not_object", "are JSON, but not an object"
		case facts.ArgsBad:
			detail, are = "other", "are not JSON"
		default: // an object, absent or unknown
			continue
		}
		p.Report(c.Message, c.ID, c.Name, detail, "%s calls %s with arguments that %s", at(p, c.Message), called(c), are)
	}
}
