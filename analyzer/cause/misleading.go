package cause

// misleading holds what one provider says and does not mean, as its users found. It comes first, and is nothing to a
// caller that does not name the provider; where the request shows what the words say, they are taken at their word.
var misleading = newTable("hosts", []row{
	// sent in the stream of a 200 when an assistant message has no content
	{words: "with role tool must be a response to a preceding message", only: "qoder", cause: "content_null", open: "orphan_tool_reply tool_reply_before_call late_tool_reply unknown_tool_call_id", source: "a proxy's comment, measured 2026-09"},
})
