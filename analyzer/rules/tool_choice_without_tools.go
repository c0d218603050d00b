package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolChoiceWithoutTools finds requests that have tool parameters but declare no tools.
var ToolChoiceWithoutTools = &check.Rule{
	ID:    "tool_choice_without_tools",
	Order: 420,
	Cause: "tool_choice_invalid",
	Doc: `tool_choice or parallel_tool_calls in a request without tools

OpenAI answers "'parallel_tool_calls' is only allowed when 'tools' are specified", Mistral refuses an empty array of
tools. Usual cause: a client sets these parameters for every request, even without tools. Set them only together
with tools, and leave out tools instead of sending an empty array.`,
	Fix:      "Set tool_choice and parallel_tool_calls only together with tools, and leave out tools if there are none.",
	Severity: by{wire.OpenAIChat: {wire.OpenAI, wire.Azure, wire.Mistral}}.rejectOrStyle,
	Run:      toolChoiceWithoutTools,
}

func toolChoiceWithoutTools(p *check.Pass) {
	r := p.Request
	if r.Bare || r.ToolCount > 0 || r.OpenTools || r.Stored {
		return
	}
	if p.Target.Dialect != wire.OpenAIChat {
		return // OpenAI's Responses API accepts such requests; other dialects are unknown
	}
	mistral := p.Target.Variant == wire.Mistral
	if mistral && r.HasTools {
		p.Report(-1, nil, nil, "empty_tools", "the request has an empty array of tools")
		return
	}
	detail := ""
	switch {
	case r.ParallelCalls > facts.Null:
		detail = "parallel_tool_calls"
	case r.ToolChoice > facts.Null:
		detail = "tool_choice"
	default:
		return
	}
	if mistral {
		p.ReportAs(check.Style, -1, nil, nil, detail, "the request has %s, but declares no tools", detail)
		return
	}
	p.Report(-1, nil, nil, detail, "the request has %s, but declares no tools", detail)
}
