package cause

import (
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// TestWordings classifies the texts of each provider, in its own envelope: about the defects that rules find, and about
// failures that have nothing to do with the history.
func TestWordings(t *testing.T) {
	envelope := map[facts.Variant]string{
		facts.OpenAI:       `{"error":{"message":%q,"type":"invalid_request_error","param":"messages.[3].role","code":null}}`,
		facts.DeepSeek:     `{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`,
		facts.Qwen:         `{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: %s","type":"invalid_request_error"},"request_id":"1"}`,
		facts.GeminiOpenAI: "[{\n  \"error\": {\n    \"code\": 400,\n    \"message\": %q,\n    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n]",
		facts.MiniMax:      `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, %s (2013)","http_code":"400"}}`,
		facts.Mistral:      `{"object":"error","message":%q,"type":"invalid_request_error","param":null,"code":"3230"}`,
		facts.OpenRouter:   `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":%q,"provider_name":"X"}},"user_id":"user_x"}`,
	}
	f := func(v facts.Variant, cause, text string) {
		t.Helper()
		body := fmt.Sprintf(envelope[v], text)
		if got := Classify(Input{Status: 400, Text: []byte(body), Variant: v}); got.ID != cause {
			t.Errorf("%s: %s by %q, want %s", body, got.ID, got.StatedBy, cause)
		}
		// the same through a gateway whose own table is matched first
		body = fmt.Sprintf(envelope[facts.OpenRouter], body)
		if got := Classify(Input{Status: 502, Text: []byte(body), Variant: facts.OpenRouter}); got.ID != cause {
			t.Errorf("%s: %s by %q, want %s", body, got.ID, got.StatedBy, cause)
		}
	}
	f(facts.OpenAI, "orphan_tool_reply", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
	f(facts.OpenAI, "missing_tool_reply", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_x")
	f(facts.OpenAI, "unknown_tool_call_id", "Invalid parameter: 'tool_call_id' of 'call_9' not found in 'tool_calls' of previous message.")
	f(facts.OpenAI, "duplicate_tool_reply", "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_9', in messages[7] and messages[8].")
	f(facts.OpenAI, "missing_required_field", "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.")
	f(facts.OpenAI, "arguments_not_string", "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object instead.")
	f(facts.OpenAI, "content_type_invalid", "Invalid type for 'messages[2].content': expected one of a string or array of objects, but got an object instead.")
	f(facts.OpenAI, "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.")
	f(facts.OpenAI, "invalid_model", "The model `gpt-x` does not exist or you do not have access to it.")
	f(facts.OpenAI, "auth", "Incorrect API key provided: sk-x. You can find your API key at https://example.com.")
	f(facts.OpenAI, "rate_limit", "Rate limit reached for gpt-x in organization org-x on tokens per min.")
	f(facts.OpenAI, "content_policy", "Your request was rejected as a result of our safety system.")
	f(facts.OpenAI, "server_error", "The server had an error while processing your request. Sorry about that!")

	f(facts.DeepSeek, "orphan_tool_reply", "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
	f(facts.DeepSeek, "missing_tool_reply", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)")
	f(facts.DeepSeek, "duplicate_call_id", "Duplicate value for 'tool_call_id' of call_00_x in message[2]")
	f(facts.DeepSeek, "unsupported_role", "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user` at line 1 column 9")
	f(facts.DeepSeek, "content_type_invalid", "Failed to deserialize the JSON body into the target type: messages[3]: invalid type: map, expected a string at line 1 column 9")
	f(facts.DeepSeek, "reasoning_content_missing", "The `reasoning_content` in the thinking mode must be passed back to the API.")
	f(facts.DeepSeek, "billing", "Insufficient Balance")
	f(facts.DeepSeek, "content_policy", "Content Exists Risk")

	f(facts.Qwen, "orphan_tool_reply", `messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".`)
	f(facts.Qwen, "missing_tool_reply", `An assistant message with \"tool_calls\" must be followed by tool messages responding to each \"tool_call_id\". The following tool_call_ids did not have response messages: message[5].role`)
	f(facts.Qwen, "arguments_invalid_json", `The \"function.arguments\" parameter of the code model must be in JSON format.`)
	f(facts.Qwen, "empty_tool_calls_array", "Empty tool_calls is not supported in message")
	f(facts.Qwen, "context_length_exceeded", "Range of input length should be [1, 1000]")

	f(facts.GeminiOpenAI, "missing_tool_reply", "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	f(facts.GeminiOpenAI, "orphan_tool_reply", "Please ensure that function response turn comes immediately after a function call turn.")
	f(facts.GeminiOpenAI, "tool_turn_misplaced", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	f(facts.GeminiOpenAI, "missing_required_field", "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n")
	f(facts.GeminiOpenAI, "auth", "API key not valid. Please pass a valid API key.")

	f(facts.MiniMax, "missing_tool_reply", "tool call result does not follow tool call")
	f(facts.MiniMax, "arguments_invalid_json", "invalid function arguments json string, tool_call_id: call_x")
	f(facts.Mistral, "orphan_tool_reply", "Unexpected role 'tool' after role 'user'")
	f(facts.Mistral, "role_order", "Unexpected role 'user' after role 'tool'")
	f(facts.Mistral, "missing_tool_reply", "Not the same number of function calls and responses")
}
