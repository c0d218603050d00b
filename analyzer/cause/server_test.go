package cause

import "testing"

func TestWrittenBy(t *testing.T) {
	f := func(text, server, gateway string) {
		t.Helper()
		c := Classify(Input{Status: 400, Text: []byte(text)})
		if c.Server != server || c.Gateway != gateway {
			t.Errorf("%s: written by %q, forwarded by %q, want %q and %q", text, c.Server, c.Gateway, server, gateway)
		}
	}
	f(`{"error":{"message":"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.","param":"messages.[3].role","code":null}}`, "openai", "")
	f(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","param":null,"code":"invalid_request_error"}}`, "deepseek", "")
	f(`An assistant message with 'tool_calls' must be followed by tool messages. (insufficient tool messages following tool_calls message)`, "deepseek", "")
	f(`<400> InternalError.Algo.InvalidParameter: messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".`, "qwen", "")
	f(`an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'`, "kimi", "")
	f(`{"error":{"message":"Invalid request: tool_call_id  is not found","type":"invalid_request_error"}}`, "kimi", "")
	f(`invalid params, tool call result does not follow tool call (2013)`, "minimax", "")
	f(`{"error":{"code":"1214","message":"messages 参数非法。请检查文档。"}}`, "glm", "")
	f(`{"object":"error","message":"Not the same number of function calls and responses","type":"invalid_request_error","param":null,"code":"3230"}`, "mistral", "")
	f(`'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'x' is unsupported)]`, "groq", "")
	f(`{"code":"Client specified an invalid argument","error":"Each message must have at least one content element."}`, "xai", "")
	f(`[{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}]`, "gemini_openai", "")
	f("messages.1: `tool_use` ids were found without `tool_result` blocks immediately after", "anthropic", "")
	f("An error occurred (ValidationException) when calling the ConverseStream operation: messages.6: `tool_use` ids were found without `tool_result` blocks", "bedrock", "")
	f("Unable to submit request because function call `x` in the 2. content block is missing a `thought_signature`.", "vertex_gemini", "")
	f(`json: cannot unmarshal string into Go struct field ChatRequest.messages of type []api.Message`, "ollama", "")

	f(`litellm.BadRequestError: OpenAIException - Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.`, "openai", "litellm")
	f(`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"tool_call_id  is not found","provider_name":"X"}}}`, "kimi", "openrouter")
	f(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls' (request id: 2024)","type":"upstream_error"}}`, "deepseek", "one-api")

	f(`{"error":{"message":"Invalid token (request id: 2026)","type":"new_api_error"}}`, "", "new-api")

	// A wording that many servers share identifies none.
	for _, text := range []string{
		"", "Bad Request", "<html><h1>400 Bad Request</h1><center>nginx</center></html>",
		`An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.`,
		`{"error":{"message":"Request contains an invalid argument.","type":"invalid_request_error"}}`,
		`tool_call_id is not found`, "request id: 1", "see the docs of litellm",
	} {
		f(text, "", "")
	}
}
