package cause

// common holds what servers say in much the same way. It comes after all families, and is what knows a wording that
// nobody has seen. A row fits a clause that talks about certain things of the lexicon, however it puts them; source
// names whose wordings showed it. The order: what the model just answered; money, rates, keys, models, sizes and
// filters, which are nobody's protocol fault; then the history, the finer fault before the coarser.
var common = newTable("common", []row{
	{when: "freshoutput", cause: "model_tool_call_invalid", source: "groq"},

	// access, size, policy
	{when: "billcode", cause: "billing", source: "openai deepseek openrouter"},
	{when: "ratestrong", cause: "rate_limit", source: "openai anthropic azure bedrock cerebras"},
	{when: "billstrong", cause: "billing", source: "openai anthropic openrouter dashscope zhipu"},
	{when: "money moneyless", cause: "billing", source: "anthropic xai litellm"},
	{when: "policy", cause: "content_policy", source: "openai azure deepseek dashscope zhipu"},
	{when: "modelstrong !serverdown", cause: "invalid_model", source: "openai azure openrouter litellm"},
	{when: "namedmodel modelbad !path", cause: "invalid_model", source: "openai copilot azure dashscope"},
	{when: "model<modelbad !feature !thismodel !extra !toolcall !role !path !key !parameter", cause: "invalid_model", source: "openai cohere ollama vertex"},
	{when: "authstrong", cause: "auth", source: "openai anthropic gemini bedrock"},
	{when: "key badkey !role !toolreply", cause: "auth", source: "openai cohere deepseek xai"},
	{when: "ctxstrong", cause: "context_length_exceeded", source: "openai anthropic bedrock llama.cpp"},
	{when: "ctxname toolong inputname", cause: "context_length_exceeded", source: "vllm sglang anthropic"},
	{when: "ctxname toolong !outlimit", cause: "context_length_exceeded", source: "lmstudio siliconflow"},
	{when: "inputname tokens toolong !image !outlimit", cause: "context_length_exceeded", source: "copilot gemini tgi"},
	{when: "ctxname inputname tokens !outlimit !image", cause: "context_length_exceeded", source: "lmstudio"},
	{when: "inputname<outlimit prompt tokens toolong !image", cause: "context_length_exceeded", source: "tgi"},
	{when: "outlimit range", cause: "max_tokens_invalid", source: "openai anthropic bedrock dashscope groq"},
	{when: "bytes toolong !image !callid !functionname", cause: "payload_too_large", source: "anthropic dashscope gemini"},

	// reasoning and stored state
	{when: "thoughtsig missing", cause: "thought_signature_missing", source: "gemini vertex"},
	{when: "signature|thoughtsig unverified", cause: "reasoning_signature_invalid", source: "anthropic openai gemini"},
	{when: "reasoningitem unpaired", cause: "reasoning_item_unpaired", source: "openai"},
	{when: "unpaired reasoning item|id", cause: "reasoning_item_unpaired", source: "openai"},
	{when: "thinkingblock passback|bad|wanted", cause: "thinking_block_missing", source: "anthropic"},
	{when: "reasoningfield mustnot !thinkingblock", cause: "reasoning_content_forbidden", source: "deepseek"},
	{when: "reasoningfield extra|hardno path|fieldkey", cause: "unsupported_field", open: "reasoning_content_forbidden", source: "groq cerebras mistral"},
	{when: "reasoningfield passback !hardno", cause: "reasoning_content_missing", source: "deepseek moonshot"},
	{when: "item duplicate", cause: "duplicate_item_id", source: "openai"},

	// what the request asks for
	{when: "unsupparam path", cause: "unsupported_field", source: "openai"},
	{when: "unsupparam", cause: "unsupported_parameter", source: "openai azure xai nim"},
	{when: "toolchoice bad", cause: "tool_choice_invalid", source: "openai deepseek dashscope vllm moonshot"},
	{when: "stored mismatch|nosupport", cause: "previous_response_unresolved", source: "openai"},
	{when: "respformat bad", cause: "response_format_invalid", source: "openai deepseek groq dashscope"},
	{when: "notools toolcall|toolreply", cause: "tools_missing_with_tool_history", source: "bedrock anthropic litellm"},

	// empty lists
	{when: "callsarr emptyarr !content !callarguments !functionname", cause: "empty_tool_calls_array", source: "openai dashscope"},
	{when: "toolsword emptylist|empty !toolchoice !content !callsarr", cause: "tool_schema_invalid", source: "vllm"},
	{when: "emptylist", cause: "empty_messages", source: "openai anthropic gemini"},
	{when: "msgs empty !content !role !rolename !toolcall", cause: "empty_messages", source: "openai anthropic"},
	{when: "both content|toolcall", cause: "content_with_tool_calls", source: "mistral"},
	{when: "neither fieldrequired", cause: "missing_required_field", open: "assistant_content_missing", source: "deepseek zhipu"},
	{when: "neither", cause: "empty_content", open: "assistant_content_missing", source: "mistral llama.cpp"},

	// definitions
	{when: "functionname pattern|empty", cause: "function_name_format", source: "openai anthropic mistral bedrock"},
	{when: "tooldef extra !schema", cause: "unsupported_field", source: "fireworks anthropic"},
	{when: "tooldef schema bad", cause: "tool_schema_invalid", source: "moonshot gemini openai"},
	{when: "functionname|tooldef duplicate", cause: "tool_schema_invalid", source: "anthropic moonshot"},
	{when: "toolpath hardno|fieldrequired|wantobject|wantarray|wantstring|badrole !extra", cause: "tool_schema_invalid", source: "anthropic mistral"},
	{when: "schema most !respformat !ctxname !outlimit", cause: "tool_schema_invalid", source: "anthropic"},
	{when: "toolsword most !hardno !outlimit", cause: "tool_schema_invalid", source: "openai groq"},

	// calls
	{when: "callarguments wantobject", cause: "arguments_not_object", source: "ollama sglang gemini bedrock"},
	{when: "callarguments wantstring", cause: "arguments_not_string", source: "openai vllm"},
	{when: "extra badjson", cause: "unsupported_field", source: "gemini deepseek"},
	{when: "pymapping", cause: "arguments_not_object", open: "arguments_invalid_json", source: "sglang vllm"},
	{when: "callarguments badjson", cause: "arguments_invalid_json", source: "dashscope minimax llama.cpp"},
	{when: "callarguments badtype", cause: "arguments_not_object", open: "arguments_not_string", source: "bedrock"},
	{when: "pyjson", cause: "arguments_invalid_json", source: "vllm"},
	{when: "toolcall badjson", cause: "arguments_invalid_json", source: "deepseek llama.cpp"},
	{when: "callid pattern !nocall", cause: "tool_call_id_format", source: "openai anthropic mistral bedrock"},
	{when: "callid wantstring", cause: "tool_call_id_format", source: "anthropic openai"},
	{when: "callid mismatch", cause: "unknown_tool_call_id", open: "orphan_tool_reply", source: "openai minimax"},
	{when: "badid !nocall !noreply !pattern", cause: "unknown_tool_call_id", open: "orphan_tool_reply missing_tool_call_id tool_call_id_format", source: "minimax openai"},
	{when: "noreply toolcall|toolreply", cause: "missing_tool_reply", source: "openai anthropic bedrock gemini minimax"},
	{when: "callid fieldrequired", cause: "missing_required_field", open: "missing_tool_call_id", source: "openai mistral"},
	{when: "callarguments fieldrequired !schema !tooldef", cause: "missing_required_field", open: "malformed_tool_call", source: "dashscope"},
	{when: "callid empty", cause: "unknown_tool_call_id", source: "openai"},

	// replies
	{when: "toolreply duplicate", cause: "duplicate_tool_reply", open: "duplicate_call_id_in_message", source: "anthropic mistral openai"},
	{when: "callid duplicate", cause: "duplicate_call_id", open: "duplicate_tool_reply", source: "anthropic mistral deepseek"},
	{when: "toolcall duplicate id|badid !toolreply !functionname !tooldef", cause: "duplicate_call_id", open: "duplicate_tool_reply", source: "anthropic"},
	{when: "unexpectedtool", cause: "orphan_tool_reply", source: "mistral anthropic"},
	{when: "firstlast toolreply !user !mismatch", cause: "orphan_tool_reply", source: "openai anthropic"},
	{when: "orderrule", cause: "role_order", source: "mistral bedrock vllm"},
	{when: "toolreply<toolcall toolong", cause: "orphan_tool_reply", open: "duplicate_tool_reply", source: "bedrock mistral"},
	{when: "placed toolreply<toolcall !user", cause: "orphan_tool_reply", source: "gemini"},
	{when: "placed toolcall", cause: "tool_turn_misplaced", source: "gemini"},
	{when: "onlyin toolcall|toolreply !image", cause: "tool_turn_misplaced", source: "openai anthropic"},
	{when: "toolreply nocall", cause: "orphan_tool_reply", open: "unknown_tool_call_id", source: "openai anthropic gemini deepseek"},
	{when: "toolreply empty content|turn", cause: "empty_content", source: "bedrock"},
	{when: "toolreply|output image badmedia", cause: "tool_content_type", source: "openai"},
	{when: "output wantstring|wantobject|wantarray|badtype|wanted", cause: "tool_content_type", source: "openai bedrock gemini"},
	{when: "toolreply wantstring|wantobject|wantarray|badtype|protolist", cause: "tool_content_type", source: "gemini moonshot lmstudio"},

	// roles
	{when: "alternate role|turn|rolename", cause: "role_order", source: "anthropic bedrock perplexity vllm"},
	{when: "lacking user role|msgs|message !toolcall !toolreply !tooldef !image !content", cause: "role_order", source: "dashscope vllm"},
	{when: "firstlast role|rolename|user|assistant !empty", cause: "role_order", source: "anthropic mistral gemini"},
	{when: "placed role|rolename !toolcall !toolreply", cause: "role_order", source: "anthropic"},
	{when: "rolelist", cause: "unsupported_role", source: "openai deepseek siliconflow"},
	{when: "role badrole|hardno", cause: "unsupported_role", source: "openai gemini minimax together"},
	{when: "sysrole hardno", cause: "unsupported_role", source: "gemini gemma"},

	// content
	{when: "path|content|contentpath|message fieldrequired !tooldef", cause: "missing_required_field", open: "tool_content_missing assistant_content_missing malformed_tool_call", source: "deepseek volcengine bedrock"},
	{when: "image badmedia", cause: "image_invalid", source: "openai anthropic gemini vllm"},
	{when: "null path toolcall !contentpath !callid !callarguments !extra", cause: "missing_required_field", open: "malformed_tool_call", source: "openai"},
	{when: "null content|path|contentpath !feature", cause: "content_null", open: "tool_content_missing assistant_content_missing", source: "openai llama.cpp"},
	{when: "protolist", cause: "content_type_invalid", source: "gemini"},
	{when: "cachecontrol bad|most !empty", cause: "unsupported_field", source: "anthropic bedrock"},
	{when: "path|role fieldkey hardno", cause: "unsupported_field", source: "groq cerebras"},
	{when: "path|role extra", cause: "unsupported_field", source: "groq mistral openai bedrock"},
	{when: "tooldef|functionname schema|extra|fieldrequired|bad !hardno", cause: "tool_schema_invalid", source: "openai anthropic gemini moonshot"},
	{when: "tooldef schema|extra", cause: "tool_schema_invalid", source: "gemini cerebras"},
	{when: "schema bad !respformat !parameter", cause: "tool_schema_invalid", source: "fireworks"},
	{when: "empty content|message", cause: "empty_content", source: "anthropic bedrock moonshot xai"},
	{when: "empty inputname !toolcall", cause: "empty_content", source: "vllm"},
	{when: "content|contentpath|path wantstring|wantarray|wantobject|badtype", cause: "content_type_invalid", open: "tool_content_not_string", source: "openai deepseek ollama xai"},

	// parameters
	{when: "sampling hardno|nosupport", cause: "unsupported_parameter", source: "openai anthropic"},
	{when: "sampling mustset", cause: "invalid_parameter_value", source: "anthropic openai"},
	{when: "sampling range", cause: "invalid_parameter_value", source: "openai vertex groq dashscope"},
	{when: "mustset", cause: "unsupported_parameter", source: "dashscope"},
	{when: "parameter range number|toolong", cause: "invalid_parameter_value", source: "volcengine"},
	{when: "pattern mismatch !toolcall !toolreply !path", cause: "invalid_parameter_value", source: "bedrock"},
	{when: "feature|sampling|parameter invalidvalue", cause: "invalid_parameter_value", source: "openai"},
	{when: "feature hardno|nosupport", cause: "unsupported_parameter", source: "openai ollama gemini dashscope"},
	{when: "parameter hardno", cause: "unsupported_parameter", source: "openai xai groq"},
	{when: "feature parameter bad", cause: "unsupported_parameter", source: "deepseek"},
	{when: "badtype feature|parameter|number !path !content !contentpath !message !role !toolcall !toolreply", cause: "invalid_parameter_value", source: "openai"},
	{when: "badtype !toolcall !toolreply", cause: "content_type_invalid", source: "ollama deepseek"},
	{when: "extra", cause: "unsupported_parameter", source: "fireworks databricks"},
	{when: "fieldrequired parameter|fieldkey", cause: "missing_required_field", source: "volcengine openai"},
	{when: "model empty", cause: "missing_required_field", source: "openai"},
	{when: "fieldrequired !toolreply !toolcall !template", cause: "missing_required_field", source: "openai dashscope"},

	// what speaks of calls and their replies as of a fault, and says no more
	{when: "toolreply toolcall mismatch", cause: "unknown_tool_call_id", open: "orphan_tool_reply missing_tool_reply", source: "openai minimax"},
	{when: "toolreply<toolcall bad !schema !tooldef", cause: "orphan_tool_reply", open: "unknown_tool_call_id duplicate_tool_reply missing_tool_reply", source: "anthropic gemini"},
	{when: "toolcall<toolreply bad !schema !tooldef", cause: "missing_tool_reply", open: "orphan_tool_reply unknown_tool_call_id", source: "anthropic gemini"},
	{when: "rateweak", cause: "rate_limit", source: "gemini nim"},
	{when: "serverdown", cause: "server_error", source: "anthropic nginx envoy"},
	{when: "serverbland", cause: "server_error", weak: true, source: "openai new-api"},

	// what names a part of the request as at fault, and says no more
	{when: "wanted|mustset number !path !content !message !toolcall !toolreply !schema", cause: "invalid_parameter_value", weak: true, source: "dashscope"},
	{when: "outlimit bad", cause: "max_tokens_invalid", weak: true, source: "openai"},
	{when: "toolchoice parameter|bad", cause: "tool_choice_invalid", weak: true, source: "openai"},
	{when: "respformat parameter|bad", cause: "response_format_invalid", weak: true, source: "openai"},
	{when: "sampling parameter|bad", cause: "invalid_parameter_value", weak: true, source: "openai volcengine"},
	{when: "invalidvalue !path !role", cause: "invalid_parameter_value", weak: true, source: "openai"},
	{when: "prompt toolong !image", cause: "context_length_exceeded", weak: true, source: "bytepower"},
	{when: "tooldef bad", cause: "tool_schema_invalid", weak: true, source: "openai"},
	{when: "hardno !operation !role", cause: "unsupported_parameter", weak: true, source: "dashscope azure"},
})
