package cause

// qwen contains the wordings of Qwen's DashScope. Its pairing errors are OpenAI's texts in double quotes after
// "<400> InternalError.Algo.InvalidParameter:", so the rows for them are in openai.go.
var qwen = newTable("qwen", []row{
	{words: "function.arguments parameter … must be in json format", cause: "arguments_invalid_json", source: "continuedev/continue#11556"},
	{words: "empty tool_calls is not supported", cause: "empty_tool_calls_array", source: "vscode-unify-chat-provider#65"},
	{words: "range of max_tokens should be", cause: "max_tokens_invalid", source: "open-webui/open-webui#10507"},
	{words: "range of input length should be", cause: "context_length_exceeded", source: "agentscope-ai/QwenPaw#6255"},
	{words: "data_inspection_failed", cause: "content_policy", source: "unlinked"},
	{words: "datainspectionfailed", cause: "content_policy", source: "unlinked"},
	{words: "account is in good standing", cause: "billing", source: "tencentmusic/supersonic#1572"},
	{words: "arrearage", cause: "billing", source: "tencentmusic/supersonic#1572"},
	{words: "string value length … exceeds the maximum allowed", cause: "payload_too_large", source: "QwenLM/qwen-code#747"},
})
