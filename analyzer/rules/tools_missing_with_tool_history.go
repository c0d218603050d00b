package rules

import "github.com/llmtap/llmtap/analyzer/check"

// ToolsMissingWithToolHistory finds requests that have calls in their history but declare no tools.
var ToolsMissingWithToolHistory = &check.Rule{
	ID:    "tools_missing_with_tool_history",
	Order: 410,
	Cause: "tools_missing_with_tool_history",
	Doc: `history with tool calls in a request without tools

Bedrock answers "The toolConfig field must be defined when using toolUse and toolResult content blocks"; Anthropic did so
in 2024. Others accept it. Usual causes: a summary or a final answer is asked for with the same history, but without
tools, so that the model does not call again. Send the tools and forbid their use instead (tool_choice none), or
turn calls and results into text.`,
	Fix: "Send the tools with every request whose history has calls, with tool_choice none where the model must not call.",
	// Reports on Anthropic are contradictory: such requests were refused in 2024, accepted in 2025, and, according to a gateway,
	// refused in 2026.
	Severity: bedrocks.reject,
	Run:      toolsMissingWithToolHistory,
}

func toolsMissingWithToolHistory(p *check.Pass) {
	if !hasBlocksWithIDs(p.Target) {
		return
	}
	r := p.Request
	if r.Bare || r.Stored || r.ToolCount > 0 || r.OpenTools {
		return
	}
	if len(p.Pairing.Calls) > 0 {
		c := &p.Pairing.Calls[0]
		p.Report(c.Message, c.ID, c.Name, "", "message %d (assistant) calls %s, but the request declares no tools", c.Message, function(c.Call))
	} else if len(p.Pairing.Replies) > 0 {
		rep := &p.Pairing.Replies[0]
		p.Report(rep.Message, rep.ID, nil, "", "message %d (user) answers %s, but the request declares no tools", rep.Message, name(rep.ID))
	}
}
