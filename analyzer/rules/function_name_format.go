package rules

import (
	"bytes"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// FunctionNameFormat finds called or declared functions whose names have a format that providers refuse.
var FunctionNameFormat = &check.Rule{
	ID:    "function_name_format",
	Order: 220,
	Cause: "function_name_format",
	Doc: `function name in a format that providers refuse

The name of a function has 1 to 64 letters, digits, _ and -: else 400, "string does not match pattern". Gemini also accepts
. and :, and wants a letter or _ first. Usual causes: tools named for people (spaces, umlauts) or for a namespace (dots,
slashes); a model that invented a name, whose call was stored. Clean names once, where tools are registered, and map them
back when a call arrives.`,
	Fix:      "Name tools with at most 64 letters, digits, _ and - where they are registered, and drop calls of names that no tool has.",
	Severity: checkNames.reject,
	Run:      functionNameFormat,
}

var checkNames = bedrocks.and(wire.Gemini).and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.Mistral)

func functionNameFormat(p *check.Pass) {
	form, chat := nameForm, isChat(p.Target)
	if p.Target.Dialect == wire.Gemini || p.Target.Dialect == wire.Interactions || p.Target.Variant == wire.GeminiOpenAI {
		form = geminiNameForm
	}
	for _, tool := range p.Request.Tools {
		if detail, is := form(tool); detail != "" {
			p.Report(-1, nil, tool, detail, "the request declares the function %s, whose name %s", name(tool), is)
		}
	}
	severity := checkNames.reject(p.Target)
	if chat && p.Target.Variant == wire.Mistral {
		severity = check.Lenient // Mistral's models invent names, and its API has been observed to accept them
	}
	var last []byte // last valid name, because calls of one function are mostly consecutive
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if len(c.Name) == 0 && chat || c.Kind != facts.Object || len(c.Name) > 0 && bytes.Equal(c.Name, last) {
			continue // malformed_tool_call reports calls without a name
		}
		detail, is := form(c.Name)
		if detail == "" {
			last = c.Name
			continue
		}
		p.ReportAs(severity, c.Message, c.Call.ID, c.Name, detail, "%s calls %s, whose name %s", at(p, c.Message), called(c), is)
	}
}

func nameForm(b []byte) (detail, is string) {
	switch {
	case len(b) == 0:
		return "empty", "is empty"
	case !plain(b, "_-"):
		return "pattern", "has characters other than letters, digits, _ and -"
	case len(b) > 64:
		return "long", "is longer than 64 characters"
	}
	return "", ""
}

func geminiNameForm(b []byte) (detail, is string) {
	switch {
	case len(b) == 0:
		return "empty", "is empty"
	case b[0] != '_' && (!plain(b[:1], "") || b[0] <= '9'):
		return "pattern", "does not start with a letter or _"
	case !plain(b, "_.:-"):
		return "pattern", "has characters other than letters, digits, _, ., : and -"
	case len(b) > 64:
		return "long", "is longer than 64 characters"
	}
	return "", ""
}
