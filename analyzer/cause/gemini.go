package cause

// gemini contains the wordings of the Gemini API, Vertex AI and the OpenAI-compatible endpoint, which wraps them in a JSON
// array. "Request contains an invalid argument." does not name a cause and has no row, so the violated rules decide.
var gemini = newTable("gemini", []row{
	// Gemini only counts the replies, so a missing, extra or late reply and a reply with an unknown id have the same text.
	{words: "number of function response parts", cause: "missing_tool_reply", open: "duplicate_tool_reply unknown_tool_call_id missing_tool_call_id", source: "google-gemini/gemini-cli#4504"},
	{words: "function response turn comes immediately after", cause: "orphan_tool_reply", open: "unknown_tool_call_id duplicate_tool_reply", source: "lobehub/lobehub#7298"},
	{words: "function call turn comes immediately after", cause: "tool_turn_misplaced", also: "orphan_tool_reply missing_tool_reply", source: "google-gemini/gemini-cli#26486"},
	// The endpoint looks up the function name by the id of the reply, so an unknown id leads to an empty name.
	{words: "function_response.name: name cannot be empty", cause: "missing_required_field", open: "unknown_tool_call_id missing_tool_call_id orphan_tool_reply", source: "langflow-ai/langflow#9437"},
	{words: "missing a thought_signature", cause: "thought_signature_missing", source: "lbjlaq/Antigravity-Manager#3202"},
	{words: "corrupted thought signature", cause: "reasoning_signature_invalid", source: "docs.apiyi.com"},
	{words: "invalid thought signature", cause: "reasoning_signature_invalid", source: "docs.apiyi.com"},
	{words: "function_response.parts is not supported", cause: "tool_content_type", source: "google-gemini/gemini-cli#19436"},
	{words: "function_response … proto field is not repeating", cause: "tool_content_type", source: "vercel/ai#3589"},
	{words: "invalid function name", cause: "function_name_format", source: "ccs#25"},
	{words: "at contents … proto field is not repeating", cause: "content_type_invalid", source: "DanielEdrisian/AlexSideBar-Public#104"},
	{words: "unknown name … at generation_config.response", cause: "response_format_invalid", source: "unlinked"},
	{words: "max_output_tokens value of … supported range", cause: "max_tokens_invalid", source: "unlinked"},
	{words: "unknown name … at contents", cause: "unsupported_field", source: "google-gemini/gemini-cli#13972"},
	{words: "unknown name … at tools", cause: "tool_schema_invalid", source: "unlinked"},
	{words: "unknown name … at request.tools", cause: "tool_schema_invalid", source: "can1357/oh-my-pi#1405"},
	{words: "unknown name … at request.contents", cause: "unsupported_field", source: "unlinked"},
	{words: "unknown name", cause: "unsupported_parameter", source: "google-gemini/gemini-cli#13972"},
	{words: "function_declarations[", cause: "tool_schema_invalid", source: "iBUHub/AIStudioToAPI#154"},
	{words: "parts must not be empty", cause: "empty_content", source: "chatwise#250"},
	{words: "required oneof field data", cause: "empty_content", source: "vercel/ai#3775"},
	{words: "must include at least one parts field", cause: "empty_content", source: "router-for-me/CLIProxyAPI#1292"},
	{words: "must have a text parameter", cause: "empty_content", source: "yym68686/uni-api#120"},
	{words: "ending with a model turn", cause: "role_order", source: "router-for-me/CLIProxyAPI#5607"},
	{words: "use a valid role: user, model", cause: "unsupported_role", source: "open-telemetry/opentelemetry-python-contrib, recorded"},
	{words: "supported range is from", cause: "invalid_parameter_value", source: "open-telemetry/opentelemetry-python-contrib, recorded"},
	{words: "cannot fetch content from the provided url", cause: "image_invalid", source: "pydantic/pydantic-ai, recorded"},
	{words: "api key not valid", cause: "auth", source: "crmne/ruby_llm, recorded"},
	{words: "api_key_invalid", cause: "auth", source: "crmne/ruby_llm, recorded"},
	{words: "exceeded your current quota … ai.google.dev", cause: "rate_limit", source: "crmne/ruby_llm, recorded"},
	{words: "models/ … is not found for api version", cause: "invalid_model", source: "pydantic/pydantic-ai, recorded"},
	{words: "publisher model … not found", cause: "invalid_model", source: "open-telemetry/opentelemetry-python-contrib, recorded"},
})
