package cause

import (
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// TestWordings classifies the texts of each provider, in its own envelope: about the defects that rules find, and about
// failures that have nothing to do with the history.
func TestWordings(t *testing.T) {
	envelope := map[wire.Variant]string{
		wire.OpenAI:       `{"error":{"message":%q,"type":"invalid_request_error","param":"messages.[3].role","code":null}}`,
		wire.DeepSeek:     `{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`,
		wire.Qwen:         `{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: %s","type":"invalid_request_error"},"request_id":"1"}`,
		wire.GeminiOpenAI: "[{\n  \"error\": {\n    \"code\": 400,\n    \"message\": %q,\n    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n]",
		wire.MiniMax:      `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, %s (2013)","http_code":"400"}}`,
		wire.Mistral:      `{"object":"error","message":%q,"type":"invalid_request_error","param":null,"code":"3230"}`,
		wire.OpenRouter:   `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":%q,"provider_name":"X"}},"user_id":"user_x"}`,
	}
	f := func(v wire.Variant, cause, text string) {
		t.Helper()
		body := fmt.Sprintf(envelope[v], text)
		if got := Classify(Input{Status: 400, Text: []byte(body), Variant: v}); got.ID != cause {
			t.Errorf("%s: %s by %q, want %s", body, got.ID, got.StatedBy, cause)
		}
		// the same through a gateway whose own table is matched first
		body = fmt.Sprintf(envelope[wire.OpenRouter], body)
		if got := Classify(Input{Status: 502, Text: []byte(body), Variant: wire.OpenRouter}); got.ID != cause {
			t.Errorf("%s: %s by %q, want %s", body, got.ID, got.StatedBy, cause)
		}
	}
	f(wire.OpenAI, "orphan_tool_reply", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
	f(wire.OpenAI, "missing_tool_reply", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_x")
	f(wire.OpenAI, "unknown_tool_call_id", "Invalid parameter: 'tool_call_id' of 'call_9' not found in 'tool_calls' of previous message.")
	f(wire.OpenAI, "duplicate_tool_reply", "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_9', in messages[7] and messages[8].")
	f(wire.OpenAI, "missing_required_field", "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.")
	f(wire.OpenAI, "arguments_not_string", "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object instead.")
	f(wire.OpenAI, "content_type_invalid", "Invalid type for 'messages[2].content': expected one of a string or array of objects, but got an object instead.")
	f(wire.OpenAI, "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.")
	f(wire.OpenAI, "invalid_model", "The model `gpt-x` does not exist or you do not have access to it.")
	f(wire.OpenAI, "auth", "Incorrect API key provided: sk-x. You can find your API key at https://example.com.")
	f(wire.OpenAI, "rate_limit", "Rate limit reached for gpt-x in organization org-x on tokens per min.")
	f(wire.OpenAI, "content_policy", "Your request was rejected as a result of our safety system.")
	f(wire.OpenAI, "server_error", "The server had an error while processing your request. Sorry about that!")

	f(wire.DeepSeek, "orphan_tool_reply", "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
	f(wire.DeepSeek, "missing_tool_reply", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)")
	f(wire.DeepSeek, "duplicate_call_id", "Duplicate value for 'tool_call_id' of call_00_x in message[2]")
	f(wire.DeepSeek, "unsupported_role", "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user` at line 1 column 9")
	f(wire.DeepSeek, "content_type_invalid", "Failed to deserialize the JSON body into the target type: messages[3]: invalid type: map, expected a string at line 1 column 9")
	f(wire.DeepSeek, "reasoning_content_missing", "The `reasoning_content` in the thinking mode must be passed back to the API.")
	f(wire.DeepSeek, "billing", "Insufficient Balance")
	f(wire.DeepSeek, "content_policy", "Content Exists Risk")

	f(wire.Qwen, "orphan_tool_reply", `messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".`)
	f(wire.Qwen, "missing_tool_reply", `An assistant message with \"tool_calls\" must be followed by tool messages responding to each \"tool_call_id\". The following tool_call_ids did not have response messages: message[5].role`)
	f(wire.Qwen, "arguments_invalid_json", `The \"function.arguments\" parameter of the code model must be in JSON format.`)
	f(wire.Qwen, "empty_tool_calls_array", "Empty tool_calls is not supported in message")
	f(wire.Qwen, "context_length_exceeded", "Range of input length should be [1, 1000]")

	f(wire.GeminiOpenAI, "missing_tool_reply", "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	f(wire.GeminiOpenAI, "orphan_tool_reply", "Please ensure that function response turn comes immediately after a function call turn.")
	f(wire.GeminiOpenAI, "tool_turn_misplaced", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	f(wire.GeminiOpenAI, "missing_required_field", "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n")
	f(wire.GeminiOpenAI, "auth", "API key not valid. Please pass a valid API key.")

	f(wire.MiniMax, "missing_tool_reply", "tool call result does not follow tool call")
	f(wire.MiniMax, "arguments_invalid_json", "invalid function arguments json string, tool_call_id: call_x")
	f(wire.Mistral, "orphan_tool_reply", "Unexpected role 'tool' after role 'user'")
	f(wire.Mistral, "role_order", "Unexpected role 'user' after role 'tool'")
	f(wire.Mistral, "missing_tool_reply", "Not the same number of function calls and responses")
}
