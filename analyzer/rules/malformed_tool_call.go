package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// MalformedToolCall finds entries of tool_calls that lack a required field.
var MalformedToolCall = &check.Rule{
	ID:    "malformed_tool_call",
	Order: 180,
	Cause: "missing_required_field",
	Doc: `entry of tool_calls without id, type or function name

A call is {"id":…,"type":"function","function":{"name":…,"arguments":…}}. An entry without one of these, or with an empty
one, is answered with 400. Usual causes: a framework's own flat shape, {"id","name","args"}, was sent unchanged; a stream
was assembled from the wrong deltas; the model called a function without a name. Keep the entry as the provider sent it.
Some providers omit type, and accept the entry without it. In the Responses API, a call of a function in a namespace also
needs its namespace.`,
	Fix:      "Store the entries of tool_calls as the provider sent them, and convert a framework's own format before sending.",
	Severity: callsChecked.reject,
	Run:      malformedToolCall,
}

var (
	callsChecked = by{wire.OpenAIChat: {wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Mistral, wire.Kimi, wire.Groq}}
	// Mistral's own answers omit the type. No rejection by other targets has been observed.
	typeChecked = by{wire.OpenAIChat: {wire.OpenAI, wire.Azure, wire.DeepSeek}}
)

func malformedToolCall(p *check.Pass) {
	if p.Target.Dialect == wire.OpenAIResponses {
		namespaceLost(p)
	}
	if !isChat(p.Target) {
		return
	}
	first := 0 // index of the first call of the current message
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if p.Pairing.Calls[first].Message != c.Message {
			first = i
		}
		detail, lacks := malformed(c.Call)
		if detail == "" || p.Target.Native && (detail == "no_id" || detail == "no_type") {
			continue
		}
		severity := callsChecked.reject(p.Target)
		if detail == "no_type" {
			severity = typeChecked.reject(p.Target)
		}
		p.ReportAs(severity, c.Message, c.Call.ID, c.Name, detail, "%s has a tool call %d that %s", at(p, c.Message), i-first, lacks)
	}
}

// namespaceLost reports calls of functions that are declared only in a namespace, without the namespace that the answer had:
// "Missing namespace for function_call 'f'. It does not exist in the default namespace".
func namespaceLost(p *check.Pass) {
	r := p.Request
	if len(r.Spaced) == 0 {
		return
	}
	declared := p.Set(len(r.Tools))
	for _, t := range r.Tools {
		declared.Add(t)
	}
	var undeclared []int
	for i := range p.Pairing.Calls {
		if c := &p.Pairing.Calls[i]; c.Type == facts.TypeFunction && c.Fields&facts.FieldNamespace == 0 && !declared.Has(c.Name) {
			undeclared = append(undeclared, i)
		}
	}
	if undeclared == nil {
		return
	}
	spaced := p.Set(len(r.Spaced))
	for _, t := range r.Spaced {
		spaced.Add(t)
	}
	for _, i := range undeclared {
		if c := &p.Pairing.Calls[i]; spaced.Has(c.Name) {
			p.ReportAs(by{wire.OpenAIResponses: openAIs}.reject(p.Target), c.Message, c.ID, c.Name, "no_namespace",
				"%s calls %s without the namespace that declares it", at(p, c.Message), called(c))
		}
	}
}

// malformed returns the most important defect of a call.
func malformed(c *facts.Call) (detail, lacks string) {
	switch custom := c.Type == facts.TypeCustom; {
	case c.Kind != facts.Object:
		return "not_object", "is " + kind(c.Kind) + ", not an object"
	case !custom && c.FuncKind == facts.Absent:
		return "no_function", "has no function member"
	case !custom && c.FuncKind != facts.Object:
		return "no_function", "has a function that is " + kind(c.FuncKind) + ", not an object"
	case len(c.Name) == 0:
		return "no_name", "names no function"
	case len(c.ID) == 0:
		return "no_id", "has no id"
	case c.TypeKind != facts.String || c.Type == facts.TypeNone:
		return "no_type", "has no type"
	}
	return "", ""
}
