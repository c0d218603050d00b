package alerts

import "strings"

// causeWords say in a message what a cause of spec/causes.json means.
var causeWords = map[string]string{
	"orphan_tool_reply":               "tool message without the tool call it answers",
	"missing_tool_reply":              "tool call without a reply",
	"unknown_tool_call_id":            "tool message with an id that no tool call has",
	"duplicate_tool_reply":            "two replies to one tool call",
	"duplicate_call_id":               "one id on two tool calls",
	"tool_turn_misplaced":             "tool call or reply at a forbidden place",
	"role_order":                      "roles in an order the API refuses",
	"arguments_not_string":            "tool call arguments sent as an object, not as a string",
	"arguments_not_object":            "tool call arguments sent as a string, not as an object",
	"arguments_invalid_json":          "tool call arguments that are no valid JSON",
	"tool_content_type":               "tool message whose content has a wrong type",
	"tool_call_id_format":             "tool call id in a form the API refuses",
	"function_name_format":            "function name in a form the API refuses",
	"empty_tool_calls_array":          "empty tool_calls array",
	"content_with_tool_calls":         "assistant message with both or neither of content and tool calls",
	"tools_missing_with_tool_history": "tool messages in the history but no tools in the request",
	"thought_signature_missing":       "function call without its thought signature",
	"reasoning_content_missing":       "assistant message without its reasoning content",
	"reasoning_content_forbidden":     "reasoning content that this API refuses",
	"reasoning_item_unpaired":         "reasoning item without the item it belongs to",
	"thinking_block_missing":          "turn without its thinking block",
	"reasoning_signature_invalid":     "reasoning signature that does not verify",
	"duplicate_item_id":               "one item id twice in the input",
	"previous_response_unresolved":    "reference to a response the API does not have",
	"unsupported_field":               "field that the API does not know",
	"missing_required_field":          "required field is absent",
	"content_type_invalid":            "message content of a wrong type",
	"content_null":                    "message content is null",
	"empty_content":                   "message content is empty",
	"empty_messages":                  "no messages in the request",
	"unsupported_role":                "role that the model does not take",
	"image_invalid":                   "image or file that the model refuses",
	"tool_schema_invalid":             "tool definition that the API refuses",
	"tool_choice_invalid":             "tool_choice that the API refuses",
	"response_format_invalid":         "response format that the API refuses",
	"unsupported_parameter":           "parameter that the model does not take",
	"invalid_parameter_value":         "parameter out of its range",
	"max_tokens_invalid":              "token limit out of its range",
	"context_length_exceeded":         "request longer than the context window",
	"content_policy":                  "refused by the provider's content filter",
	"invalid_model":                   "model unknown or not open to this key",
	"auth":                            "credentials refused",
	"billing":                         "no credit or quota left",
	"rate_limit":                      "rate limit reached",
	"payload_too_large":               "request body too large",
	"server_error":                    "the provider's own error (5xx or overloaded)",
	"model_tool_call_invalid":         "the model's own tool call was invalid",
	"no_response":                     "no answer came",
	"stream_error":                    "the answer broke off with an error",
	"unexplained":                     "the provider's text names no cause",
}

// rootWords say what an agent did. Root causes that are absent here are shown by their names.
var rootWords = map[string]string{
	"tool_calls_dropped_on_save":       "assistant message saved without its tool_calls",
	"history_truncated_mid_pair":       "history cut between a tool call and its reply",
	"replayed_history_without_binding": "history reloaded without the tool calls that its tool messages answer",
	"call_dropped_by_sanitizer":        "tool call removed by a repair of the history",
	"parallel_calls_truncated":         "only the first of several parallel tool calls answered",
	"tool_skipped":                     "tool call skipped, no reply saved",
	"crash_between_call_and_reply":     "agent stopped between a tool call and its reply",
	"user_interrupt":                   "user spoke before the tool call was answered",
	"interleaved_injection":            "another message put between a tool call and its reply",
	"calls_split_over_messages":        "one assistant message split into one per tool call",
	"concurrent_writers":               "two writers mixed one conversation",
	"duplicate_reply":                  "one tool call answered twice",
	"duplicate_id_from_model":          "the model used one tool call id twice",
	"turn_appended_twice":              "one turn appended twice",
	"id_rewritten":                     "tool call id changed between answer and request",
	"arguments_reserialised_as_object": "arguments stored as an object and sent back as one",
	"arguments_truncated_stream":       "arguments of a cut answer sent back",
	"stream_assembly_bug":              "streamed answer put together wrongly",
	"malformed_by_model":               "the model's own output was malformed",
	"id_dropped_on_save":               "tool call id lost when the message was saved",
	"reasoning_stripped":               "reasoning removed from the history",
	"empty_reasoning_omitted":          "empty reasoning left out",
	"provider_switched":                "history of another provider sent to this one",
	"sdk_field_leak":                   "an SDK's own field sent to the API",
}

// ID names what the share is told by: its root cause if that is known, else its cause.
func (s Share) ID() string {
	if s.RootCause == "" || s.RootCause == "unknown_no_history" {
		return s.Cause
	}
	return s.RootCause
}

// Words is one line for humans: what the agent did if that is known, else why the calls failed.
func (s Share) Words() string {
	id := s.ID()
	words := causeWords[id]
	if id == s.RootCause {
		words = rootWords[id]
	}
	switch {
	case id == "":
		return "cause not known yet"
	case words == "":
		return strings.ReplaceAll(id, "_", " ")
	}
	return words
}
