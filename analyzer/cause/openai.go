package cause

// openAI contains the wordings of OpenAI's Chat Completions and Responses APIs. Azure and many gateways and servers copy them.
var openAI = newTable("openai", []row{
	// tool pairing
	// OpenAI has a text of its own for a reply to another call; servers that copy its API use this one for both.
	{words: "with role tool must … message with tool_calls", cause: "orphan_tool_reply", open: "unknown_tool_call_id", source: "langchain-ai/task_mAIstro#1"},
	{words: "tool_calls must be followed by tool messages", cause: "missing_tool_reply", source: "aliasrobotics/cai#111"},
	{words: "tool_call_id of … not found in tool_calls of previous message", cause: "unknown_tool_call_id", source: "unlinked"},
	{words: "duplicate value for tool_call_id of … in messages … and messages", cause: "duplicate_tool_reply", open: "duplicate_call_id_in_message", source: "agno-agi/agno#5116"},
	{words: "missing parameter tool_call_id", cause: "missing_required_field", open: "missing_tool_call_id", source: "HemulGM/DelphiOpenAI#54"},
	{words: "no tool call found for", cause: "orphan_tool_reply", source: "can1357/oh-my-pi#106"},
	{words: "no tool output found for", cause: "missing_tool_reply", source: "pydantic/pydantic-ai, recorded"},
	{words: "tool call output is missing for call", cause: "missing_tool_reply", source: "unlinked"},
	{words: "call_id: empty string", cause: "unknown_tool_call_id", rule: "missing_tool_call_id", source: "pipecat#5023"},

	// shape of calls and tool messages
	{words: ".arguments: expected a string", cause: "arguments_not_string", source: "aaif-goose/goose-mobile#20"},
	{words: "tool_calls: empty array", cause: "empty_tool_calls_array", source: "openai/openai-node#1341"},
	{words: "].id: string too long", cause: "tool_call_id_format", source: "openclaw/openclaw#875"},
	{words: "call_id: string too long", cause: "tool_call_id_format", source: "unlinked"},
	{words: "input[ … expected an id that begins with", cause: "tool_call_id_format", source: "unlinked"},
	{words: "function.name: empty string", cause: "function_name_format", open: "malformed_tool_call", source: "continuedev/continue#9784"},
	{words: "function.name: string", cause: "function_name_format", source: "nikkigallery/Whimbox#61"},
	{words: "tools[ … ].name: string", cause: "function_name_format", source: "ragapp#210"},
	{words: "only allowed for messages with role user … with role tool", cause: "tool_content_type", source: "OpenHands/OpenHands#7700"},
	{words: "].output[ … ]. … expected", cause: "tool_content_type", source: "pydantic/pydantic-ai, recorded"},
	{words: "content blocks are expected to be either", cause: "content_type_invalid", open: "tool_content_part_unsupported audio_input_unsupported", source: "pydantic/pydantic-ai, recorded"},
	{words: "output of tool call should be input text", cause: "tool_content_type", source: "ggml-org/llama.cpp#23542"},

	// shape of messages
	{words: "content: expected one of a string or array", cause: "content_type_invalid", open: "tool_content_not_string", source: "pydantic/pydantic-ai#2653"},
	{words: "content: expected a string, got null", cause: "content_null", open: "tool_content_missing assistant_content_missing", source: "langchain-ai/langchainjs#4153"},
	{words: "messages[ … .content: array too", cause: "content_type_invalid", source: "unlinked"},
	{words: "input[ … .content: array too", cause: "content_type_invalid", source: "langchain-ai/langchainjs, a comment"},
	{words: "].name: string", cause: "unsupported_field", source: "openai-python#309"},
	{words: "unknown parameter: messages[", cause: "unsupported_field", source: "unlinked"},
	{words: "unknown parameter: input[", cause: "unsupported_field", source: "microsoft/agent-framework#2203"},
	{words: ".role does not support", cause: "unsupported_role", source: "pydantic/pydantic-ai, recorded"},
	{words: "is not one of [system", cause: "unsupported_role", source: "unlinked"},
	{words: "messages: empty array", cause: "empty_messages", source: "danny-avila/LibreChat#10408"},
	{words: "empty array messages", cause: "empty_messages", source: "danny-avila/LibreChat#10408"},
	{words: "file type you uploaded is not supported", cause: "content_type_invalid", source: "pydantic/pydantic-ai, recorded"},
	{words: "error while downloading", cause: "image_invalid", source: "Arize-ai/openinference, recorded"},
	{words: "uploaded an unsupported image", cause: "image_invalid", source: "CosmosShadow/gptpdf#6"},
	{words: "invalid_image", cause: "image_invalid", source: "Arize-ai/openinference, recorded"},

	// reasoning and server-side state
	{words: "of type reasoning was provided without", cause: "reasoning_item_unpaired", source: "pydantic/pydantic-ai, recorded"},
	{words: "without its required reasoning item", cause: "reasoning_item_unpaired", source: "continuedev/continue#10018"},
	{words: "encrypted content … could not be", cause: "reasoning_signature_invalid", source: "unlinked"},
	{words: "reasoning is not supported with this model", cause: "reasoning_content_forbidden", source: "unlinked"},
	{words: "duplicate item found with id", cause: "duplicate_item_id", source: "vercel/ai#13307"},
	{words: "previous response with id … not found", cause: "previous_response_unresolved", source: "dotnet/extensions#7704"},
	{words: "previous_response_not_found", cause: "previous_response_unresolved", source: "Azure/azure-sdk-for-python#46092"},
	{words: "item with id … not found", cause: "previous_response_unresolved", source: "NousResearch/hermes-agent#10217"},

	// tools and other parameters
	{words: "invalid tools: array too long", cause: "tool_schema_invalid", rule: "tools_limit_exceeded", source: "0x4m4/hexstrike-ai#29"},
	{words: "invalid schema for function", cause: "tool_schema_invalid", source: "kevinwatt/mysql-mcp#5"},
	{words: "invalid_function_parameters", cause: "tool_schema_invalid", source: "nextlevelbuilder/goclaw#1007"},
	{words: "only allowed when tools are specified", cause: "tool_choice_invalid", source: "openai/swarm#30"},
	{words: "supported values are: none, auto", cause: "tool_choice_invalid", source: "unlinked"},
	{words: "invalid_json_schema", cause: "response_format_invalid", source: "unlinked"},
	{words: "response_format … is not supported", cause: "response_format_invalid", source: "web-infra-dev/midscene#259"},
	{words: "param: response_format", cause: "response_format_invalid", source: "epuerta9/deep-research-py#19"},
	{words: "supported values are: json_object", cause: "response_format_invalid", source: "epuerta9/deep-research-py#19"},
	{words: "to use response_format", cause: "response_format_invalid", source: "agno-agi/agno#5317"},
	{words: "unsupported value: … does not support", cause: "unsupported_parameter", source: "gabrii/Cursor-Azure-GPT-5#33"},
	{words: "unsupported value: … is not supported with", cause: "unsupported_parameter", source: "Mirascope/mirascope, recorded"},
	{words: "_tokens: integer", cause: "max_tokens_invalid", source: "unlinked"},
	{words: "max_tokens is too large", cause: "max_tokens_invalid", source: "unlinked"},
	{words: "below minimum value", cause: "invalid_parameter_value", source: "pydantic/pydantic-ai, recorded"},
	{words: "_tokens … above maximum value", cause: "max_tokens_invalid", source: "Gitlawb/openclaude#331"},
	{words: "above maximum value", cause: "invalid_parameter_value", source: "unlinked"},
	{words: "is a required property … in parameter tools", cause: "tool_schema_invalid", source: "posit-dev/querychat#273"},
	{words: "could not parse the json body", cause: "body_invalid", source: "OpenAI's own text for a body that is not JSON"},
	{words: "invalid url (post", cause: "endpoint_unknown", source: "OpenAI's own text for an unknown path"},
})
