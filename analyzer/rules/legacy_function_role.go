package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// LegacyFunctionRole finds the legacy form of tool calls: functions, function_call and the role function.
var LegacyFunctionRole = &check.Rule{
	ID:    "legacy_function_role",
	Order: 320,
	Cause: "unsupported_role",
	Doc: `functions, function_call or the role function, from before tools

OpenAI deprecated them in 2023 and still accepts them for older models, but requires a name with the role; DeepSeek and Mistral do not know the role, and Groq
answers "function_call : Value is not nullable" for the null that an old SDK writes. There are no ids, so parallel calls
cannot be told apart. Usual causes: an old client or framework; a message object dumped with all its null fields. Use
tools, tool_calls and tool messages, and leave out null fields.`,
	Fix:      "Use tools, tool_calls and tool messages with tool_call_id, and serialise messages without their null fields.",
	Severity: legacySeverity,
	Run:      legacyFunctionRole,
}

var legacyRejected = rejectedBy(wire.DeepSeek, wire.Mistral, wire.Groq)

func legacySeverity(t wire.Target) check.Severity {
	if t.Dialect == wire.OpenAIChat && (t.Variant == wire.OpenAI || t.Variant == wire.Azure) {
		return check.Style
	}
	return legacyRejected(t)
}

func legacyFunctionRole(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat {
		return
	}
	groq := p.Target.Variant == wire.Groq // Groq has been observed to refuse only null
	severity, beside := legacySeverity(p.Target), check.Lenient
	switch {
	case groq:
		severity = check.Lenient
	case severity == check.Style:
		beside = check.Style
	}
	if p.Request.Functions > facts.Null { // no rejection of fields outside the messages has been observed
		p.ReportAs(beside, -1, nil, nil, "functions", "the request declares functions or function_call, which tools and tool_choice replace")
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		switch {
		case m.Role == facts.RoleFunction && m.NameKind == facts.Absent && severity == check.Style:
			p.ReportAs(check.Reject, i, nil, nil, "no_name", "message %d has the role function and no name", i)
		case m.Role == facts.RoleFunction:
			p.ReportAs(severity, i, nil, m.Name, "role", "message %d has the role function, which tool messages replace", i)
		case m.Fields&facts.FieldFunctionCall == 0:
		case m.NullFields&facts.FieldFunctionCall == 0:
			p.ReportAs(severity, i, nil, nil, "function_call", "message %d (%s) has a function_call, which tool_calls replace", i, role(p, i))
		case groq:
			p.Report(i, nil, nil, "null_function_call", "message %d (%s) has function_call: null, which is not nullable", i, role(p, i))
		}
	}
}
