package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// BuiltinToolsNotEnabled finds Google's own tools beside functions without the option that combines them.
var BuiltinToolsNotEnabled = &check.Rule{
	ID:    "builtin_tools_not_enabled",
	Order: 480,
	Cause: "option_required",
	Doc: `Google's own tools beside functions, without the option for it

Gemini's API runs Google Search, URL context and code execution beside functions only if the request asks for their calls in
the answer: "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling".
Vertex AI does not know the option. Usual causes: search was switched on for an agent that has functions; an SDK that drops
the option.`,
	Fix:      "Set toolConfig.includeServerSideToolInvocations to true, and send the toolCall and toolResponse parts of the answers back.",
	Severity: by{wire.Gemini: {wire.GeminiAPI}}.reject,
	Run:      builtinToolsNotEnabled,
}

func builtinToolsNotEnabled(p *check.Pass) {
	r := p.Request
	if p.Target.Dialect != wire.Gemini || p.Target.Variant != wire.GeminiAPI || r.Stored || !r.Builtins || !r.HasFunctions || r.Combines {
		return
	}
	p.Report(-1, nil, nil, "", "the request declares functions and tools of Google without includeServerSideToolInvocations")
}
