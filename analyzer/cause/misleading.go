package cause

// misleading contains wordings that, according to users, have a different meaning at one provider. This table is matched before
// the others, and only if the caller names the provider. If a violated rule confirms the literal meaning, that meaning wins.
var misleading = newTable("hosts", []row{
	// sent in the event stream of a response with status 200 if an assistant message has no content
	{words: "with role tool must be a response to a preceding message", only: "qoder", cause: "content_null", open: "orphan_tool_reply tool_reply_before_call late_tool_reply unknown_tool_call_id", source: "a proxy's comment, measured 2026-09"},
})
