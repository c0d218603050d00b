package cause

// mistral contains the wordings of Mistral's API and of its open-source validator, which vLLM and others use.
var mistral = newTable("mistral", []row{
	{words: "not the same number of function calls and responses", cause: "missing_tool_reply", also: "unknown_tool_call_id duplicate_tool_reply", source: "mistralai/client-python#234"},
	{words: "more tool responses than tool calls", cause: "duplicate_tool_reply", source: "mistralai/mistral-common validator.py:304"},
	{words: "duplicate tool call id … in tool results", cause: "duplicate_tool_reply", source: "mistralai/mistral-common validator.py"},
	{words: "duplicate tool call id … in assistant message", cause: "duplicate_call_id", source: "mistralai/mistral-common validator.py"},
	{words: "unexpected tool call id … in tool results", cause: "unknown_tool_call_id", source: "mistralai/mistral-common validator.py"},
	{words: "tool call id has to be defined", cause: "missing_required_field", open: "missing_tool_call_id", source: "mistralai/mistral-common validator.py:446"},
	{words: "tool call id was … but must be", cause: "tool_call_id_format", source: "anomalyco/opencode#1680"},
	{words: "function name was … but must be", cause: "function_name_format", source: "mistralai/mistral-common validator.py"},
	{words: "unexpected role tool", cause: "orphan_tool_reply", source: "charmbracelet/crush#279"},
	{words: "unexpected role roleenum.tool", cause: "orphan_tool_reply", source: "mistralai/mistral-inference#135"},
	{words: "expected last role", cause: "role_order", source: "huggingface/smolagents#757"},
	{words: "conversation must start with", cause: "role_order", source: "mistralai/mistral-common validator.py:370"},
	{words: "either content or tool_calls, but not none", cause: "empty_content", open: "assistant_content_missing", source: "OpenHands/OpenHands#8685"},
	{words: "either content or tool_calls, but not both", cause: "content_with_tool_calls", source: "mistralai/mistral-common validator.py"},
	{words: "system prompt must have content", cause: "empty_content", source: "mistralai/mistral-common validator.py:221"},
	{words: "extra_forbidden … body, messages, … reasoning", cause: "unsupported_field", open: "reasoning_content_forbidden", source: "BerriAI/litellm#30884"},
})
