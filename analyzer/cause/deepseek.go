package cause

// deepSeek contains the wordings of DeepSeek that differ from OpenAI's. Its server is written in Rust, so errors about the JSON
// structure come from serde ("Failed to deserialize the JSON body into the target type"), with status 422 until 2025, then 400.
var deepSeek = newTable("deepseek", []row{
	{words: "insufficient tool messages following tool_calls", cause: "missing_tool_reply", source: "TurixAI/TuriX-CUA#15"},
	// The same text reports a duplicate reply and a duplicate call id. If no value follows "of", the ids are empty.
	{words: "duplicate value for tool_call_id", cause: "duplicate_call_id", open: "duplicate_tool_reply", also: "missing_tool_call_id", source: "craft-ai-agents/craft-agents-oss#630"},
	{words: "invalid tool call arguments", cause: "arguments_invalid_json", source: "agno-agi/agno#8880"},
	{words: "missing reasoning_content field", cause: "reasoning_content_missing", source: "Sylinko/Everywhere#287"},
	{words: "in the thinking mode must be passed back", cause: "reasoning_content_missing", source: "the-open-agent/openagent#2206"},
	{words: "successive user or assistant messages", cause: "role_order", source: "olimorris/codecompanion.nvim#760"},
	{words: "last message of … must be a user message", cause: "role_order", source: "microsoft/autogen#7279"},
	{words: "does not support this tool_choice", cause: "tool_choice_invalid", source: "deepseek-ai/awesome-deepseek-integration#598"},
	{words: "content exists risk", cause: "content_policy", source: "deepseek-ai/DeepSeek-V2#30"},

	{words: "failed to deserialize … function.arguments … expected a string", cause: "arguments_not_string", source: "unlinked"},
	{words: "failed to deserialize … role: unknown variant", cause: "unsupported_role", source: "decolua/9router#773"},
	{words: "failed to deserialize … unknown variant … expected one of system", cause: "unsupported_role", source: "decolua/9router#773"},
	{words: "failed to deserialize … type: tool_choice", cause: "tool_choice_invalid", source: "BerriAI/litellm#37470"},
	{words: "failed to deserialize … type: tools[", cause: "tool_schema_invalid", source: "danny-avila/LibreChat#12804"},
	{words: "failed to deserialize … type: response_format", cause: "response_format_invalid", source: "unlinked"},
	{words: "failed to deserialize … missing field content", cause: "missing_required_field", open: "tool_content_missing assistant_content_missing", source: "pig-mesh/deepseek4j#41"},
	{words: "failed to deserialize … missing field tool_call_id", cause: "missing_required_field", open: "missing_tool_call_id", source: "inferred from serde's form"},
	{words: "failed to deserialize … missing field", cause: "missing_required_field", open: "malformed_tool_call", source: "danny-avila/LibreChat#12804"},
	{words: "failed to deserialize … messages[ … invalid type", cause: "content_type_invalid", open: "tool_content_not_string arguments_not_string", source: "cline/cline#230"},
	{words: "unknown field … expected one of messages, model", cause: "unsupported_parameter", source: "BerriAI/litellm#14225"},
	{words: "failed to deserialize … unknown field", cause: "unsupported_field", source: "inferred from serde's form"},
})
