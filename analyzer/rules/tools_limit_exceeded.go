package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolsLimitExceeded finds requests with more tools than the target accepts, or with two tools of the same name.
var ToolsLimitExceeded = &check.Rule{
	ID:    "tools_limit_exceeded",
	Order: 240,
	Cause: "tool_schema_invalid",
	Doc: `too many tools, or two with one name

OpenAI accepts 128 tools, "array too long. Expected an array with maximum length 128"; Anthropic requires unique names,
"Tool names must be unique". Usual causes: tools of many servers are registered together; a list that grows by the same
tools with every call. Choose the tools for the task, and register each once.`,
	Fix: "Send the tools that the task needs, at most 128, each once.",
	Severity: by{
		wire.OpenAIChat: openAIs,
		wire.Anthropic:  anthropics,
	}.reject,
	Run: toolsLimitExceeded,
}

const maxTools = 128

func toolsLimitExceeded(p *check.Pass) {
	r := p.Request
	if r.ToolCount > maxTools && (by{wire.OpenAIChat: {wire.OpenAI, wire.Azure, wire.XAI}}).has(p.Target) {
		p.Report(-1, nil, nil, "too_many", "the request has %d tools, more than %d", r.ToolCount, maxTools)
	}
	if len(r.Tools) < 2 {
		return
	}
	severity := by{wire.Anthropic: anthropics}.reject(p.Target)
	seen := p.Set(len(r.Tools))
	for _, tool := range r.Tools {
		if !seen.Add(tool) {
			p.ReportAs(severity, -1, nil, tool, "duplicate_name", "the request declares the function %s more than once", name(tool))
		}
	}
}
