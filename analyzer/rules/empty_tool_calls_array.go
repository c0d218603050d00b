package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// EmptyToolCallsArray finds messages whose tool_calls is an empty array.
var EmptyToolCallsArray = &check.Rule{
	ID:    "empty_tool_calls_array",
	Order: 170,
	Cause: "empty_tool_calls_array",
	Doc: `message with an empty tool_calls array

An answer without calls has no tool_calls field: OpenAI answers an empty array with 400, "empty array. Expected an array
with minimum length 1", Qwen with "Empty tool_calls is not supported in message". Usual cause: an SDK or a data class
that serialises its default. Leave out the key.`,
	Fix: "Leave tool_calls out of a message that has no calls (exclude empty fields when serialising).",
	Severity: func(t wire.Target) check.Severity {
		if (by{wire.OpenAIChat: {wire.VLLM, wire.Ollama, wire.DeepSeek}}).has(t) {
			return check.Lenient
		}
		return by{wire.OpenAIChat: {wire.OpenAI, wire.Azure, wire.Qwen}}.rejectOrStyle(t)
	},
	Run: emptyToolCallsArray,
}

func emptyToolCallsArray(p *check.Pass) {
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.ToolCalls == facts.Array && len(m.Calls) == 0 && m.Role == facts.RoleAssistant && p.Request.Dropped == 0 {
			p.Report(i, nil, nil, "", "%s has an empty tool_calls array", at(p, i))
		}
	}
}
