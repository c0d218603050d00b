package cause

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/rules"
)

// An entry describes a cause.
type entry struct {
	Class   string
	also    []string // rules of other causes that providers report with the same wording
	partly  bool     // its rules find only some of its faults, so its texts name no rule unless their row does
	Meaning string
	Fix     string
}

// registry contains all causes.
var registry = map[string]entry{
	"orphan_tool_reply": {
		Class:   "tool_pairing",
		also:    []string{"tool_reply_before_call", "late_tool_reply"},
		Meaning: "The history contains a tool result without its tool call.",
		Fix:     "Store and resend the assistant message with its tool_calls, and when trimming the history drop a call and its replies together.",
	},
	"missing_tool_reply": {
		Class:   "tool_pairing",
		also:    []string{"tool_reply_before_call"},
		Meaning: "A tool call in the history has no reply directly after it.",
		Fix:     "Append one tool message for every call, also when the tool failed or was skipped, before the next request.",
	},
	"unknown_tool_call_id": {
		Class:   "tool_pairing",
		also:    []string{"orphan_tool_reply"},
		Meaning: "A tool result names an id that the preceding assistant message did not call.",
		Fix:     "Copy tool_call_id unchanged from the id in the model's tool_calls.",
	},
	"duplicate_tool_reply": {
		Class:   "tool_pairing",
		Meaning: "One tool call has two results.",
		Fix:     "Store one tool message per tool_call_id: replace the reply on a retry instead of appending another.",
	},
	"duplicate_call_id": {
		Class:   "tool_pairing",
		Meaning: "Two tool calls of the history share one id.",
		Fix:     "Give every call of the history its own id, and do not append a turn twice when a run resumes.",
	},
	"tool_turn_misplaced": {
		Class:   "tool_pairing",
		Meaning: "A tool call or its result is in a place where the provider allows none.",
		Fix:     "Load the history in the order in which it was written, and cut it only before a user message.",
	},
	"role_order": {
		Class:   "role_order",
		Meaning: "The messages alternate roles in an order that this provider refuses.",
		Fix:     "Merge neighbouring messages of one role, put the system message first, and end with a user or tool message.",
	},
	"arguments_not_string": {
		Class:   "tool_shape",
		Meaning: "A tool call was sent back with its arguments as an object instead of a string.",
		Fix:     "Send function.arguments back as the string that the model gave; serialise it again after parsing.",
	},
	"arguments_not_object": {
		Class:   "tool_shape",
		Meaning: "A tool call was sent with its arguments as a string where this provider requires an object.",
		Fix:     "Parse the arguments before sending them to this provider.",
	},
	"arguments_invalid_json": {
		Class:   "tool_shape",
		Meaning: "The arguments of a tool call in the history are not valid JSON.",
		Fix:     "Parse arguments before storing the turn; when they do not parse, ask the model again or store {} and say so in the tool message.",
	},
	"tool_content_type": {
		Class:   "tool_shape",
		Meaning: "A tool result has a content type that this provider does not accept.",
		Fix:     "Serialise the tool's result to a string before storing it as content.",
	},
	"tool_call_id_format": {
		Class:   "tool_shape",
		Meaning: "A tool call id has a length, a character or a prefix that this provider refuses.",
		Fix:     "When a conversation changes providers, map the ids of its calls and replies to the new provider's format, each reply's id with its call's.",
	},
	"function_name_format": {
		Class:   "tool_shape",
		Meaning: "A function name is empty or does not match the provider's pattern.",
		Fix:     "Use names of letters, digits, _ and -, at most 64 characters, and do not store calls without a name.",
	},
	"empty_tool_calls_array": {
		Class:   "tool_shape",
		Meaning: "An assistant message was sent with an empty tool_calls array.",
		Fix:     "Leave tool_calls out when there are none.",
	},
	"content_with_tool_calls": {
		Class:   "tool_shape",
		Meaning: "An assistant message has both content and tool calls, or neither, and this provider requires exactly one.",
		Fix:     "Drop the text of assistant messages with tool calls for this provider.",
	},
	"tools_missing_with_tool_history": {
		Class:   "request",
		Meaning: "The history contains tool calls, but the request declares no tools.",
		Fix:     "Send the tools with every request of the conversation, summaries included, or turn tool messages into text.",
	},
	"thought_signature_missing": {
		Class:   "reasoning",
		Meaning: "A tool call was sent back without the thought signature that came with it.",
		Fix:     "Store the model's parts unchanged, thought_signature included, and send them back.",
	},
	"reasoning_content_missing": {
		Class:   "reasoning",
		Meaning: "An assistant turn with tool calls was sent back without its reasoning_content.",
		Fix:     "Store reasoning_content with the assistant message and send it back in thinking mode.",
	},
	"reasoning_item_unpaired": {
		Class:   "reasoning",
		Meaning: "A reasoning item and the item that belongs to it were not sent back together.",
		Fix:     "Keep each reasoning item next to the call or message that followed it.",
	},
	"thinking_block_missing": {
		Class:   "reasoning",
		Meaning: "A thinking block is missing at the head of an assistant turn, or was changed.",
		Fix:     "Send thinking blocks back unchanged and in place.",
	},
	"reasoning_signature_invalid": {
		Class:   "reasoning",
		Meaning: "A reasoning signature does not verify: it comes from another model, account or provider.",
		Fix:     "Drop reasoning blocks when a conversation changes model, account or provider.",
	},
	"duplicate_item_id": {
		Class:   "request",
		Meaning: "The input contains the same item id twice.",
		Fix:     "Send either previous_response_id or the whole history, not both.",
	},
	"previous_response_unresolved": {
		Class:   "request",
		Meaning: "The request refers to a response or an item that the provider has not stored.",
		Fix:     "Send the items themselves, or store responses at the provider.",
	},
	"unsupported_field": {
		Class:   "message_shape",
		Meaning: "A message has a field that this provider does not know.",
		Fix:     "Send only the fields of the provider's schema, and strip those that frameworks add.",
	},
	"missing_required_field": {
		Class:   "message_shape",
		Meaning: "A message or a call lacks a field that the provider requires.",
		Fix:     "Fill the field that the text names, and store it with the message.",
	},
	"content_type_invalid": {
		Class:   "message_shape",
		Meaning: "The content of a message has a type that this provider does not accept.",
		Fix:     "Send content as a string or as an array of the provider's part types.",
	},
	"content_null": {
		Class:   "message_shape",
		Meaning: "The content of a message is null where the provider requires a string.",
		Fix:     "Send an empty string instead of null.",
	},
	"empty_content": {
		Class:   "message_shape",
		Meaning: "The content of a message is empty where the provider forbids it.",
		Fix:     "Do not store empty turns, and drop blank text blocks before sending.",
	},
	"empty_messages": {
		Class:   "role_order",
		Meaning: "The request has no messages.",
		Fix:     "Check the code that trims the history: it removed everything.",
	},
	"unsupported_role": {
		Class:   "role_order",
		Meaning: "A message has a role that this provider or model does not know.",
		Fix:     "Map developer to system, and function to tool, for this provider.",
	},
	"image_invalid": {
		Class:   "message_shape",
		Meaning: "An image or a file was refused.",
		Fix:     "Check format, size and address of the file, and whether the model accepts such input.",
	},
	"tool_schema_invalid": {
		Class:   "request",
		partly:  true,
		Meaning: "The definition of a tool is not valid for this provider.",
		Fix:     "Correct the tool's JSON schema, and stay below the limit of tools.",
	},
	"body_invalid": {
		Class:   "request",
		Meaning: "The body is not valid JSON for this server: truncated, NaN, or half of a surrogate pair.",
		Fix:     "Serialise the body with a JSON library, and cut texts between characters, not inside one.",
	},
	"endpoint_unknown": {
		Class:   "request",
		Meaning: "The host or gateway does not serve this path.",
		Fix:     "Correct base_url and the path, or call an API that this host serves.",
	},
	"cache_control_limit": {
		Class:   "request",
		Meaning: "The request has too many or misplaced cache marks.",
		Fix:     "Remove the marks of earlier turns before adding a new one, and stay below the provider's limit.",
	},
	"container_required": {
		Class:   "request",
		Meaning: "A code execution is pending, and its container was not sent back.",
		Fix:     "Store the container's id with the answer, and send it with the tool results.",
	},
	"option_required": {
		Class:   "request",
		Meaning: "This combination of tools and parameters requires an option that is missing.",
		Fix:     "Set the option that the text names.",
	},
	"tool_choice_invalid": {
		Class:   "request",
		Meaning: "tool_choice names a tool that is not declared, or a mode that is not supported.",
		Fix:     "Send tool_choice only with tools, and name a declared one.",
	},
	"response_format_invalid": {
		Class:   "request",
		Meaning: "The response format was refused.",
		Fix:     "Use a response_format and a schema that this model supports.",
	},
	"unsupported_parameter": {
		Class:   "request",
		Meaning: "The request has a parameter that this model does not accept.",
		Fix:     "Leave the parameter out for this model, or rename it as the text says.",
	},
	"invalid_parameter_value": {
		Class:   "request",
		Meaning: "A parameter of the request is out of its range.",
		Fix:     "Set the parameter to a value in the range that the text names.",
	},
	"max_tokens_invalid": {
		Class:   "request",
		Meaning: "The limit for output tokens is outside the model's range.",
		Fix:     "Lower max_tokens to the model's limit.",
	},
	"context_length_exceeded": {
		Class:   "size",
		Meaning: "The input is longer than the model's context window.",
		Fix:     "Trim or summarise the history, whole turns at a time.",
	},
	"content_policy": {
		Class:   "policy",
		Meaning: "A content filter refused the input.",
		Fix:     "Look at the refused text; the message protocol is not at fault.",
	},
	"invalid_model": {
		Class:   "access",
		Meaning: "The model or deployment is unknown or not open to this account.",
		Fix:     "Correct the name of the model, or ask for access.",
	},
	"auth": {
		Class:   "access",
		Meaning: "The provider refused the credentials.",
		Fix:     "Check the API key and its permissions.",
	},
	"billing": {
		Class:   "access",
		Meaning: "The account has no credit or quota left.",
		Fix:     "Top up the account or raise its limit.",
	},
	"rate_limit": {
		Class:   "access",
		Meaning: "The account exceeds its limit of requests or tokens.",
		Fix:     "Back off and retry, spread the load, or raise the limit.",
	},
	"payload_too_large": {
		Class:   "size",
		Meaning: "The body is larger than the provider or a proxy accepts.",
		Fix:     "Send less: smaller files, shorter tool results.",
	},
	"server_error": {
		Class:   "provider",
		Meaning: "The provider failed or was overloaded.",
		Fix:     "Retry with backoff; if it persists, look at the provider's status page.",
	},
	"model_tool_call_invalid": {
		Class:   "provider",
		Meaning: "The model's fresh answer did not match the tool's schema; the history may be fine.",
		Fix:     "Retry, simplify the tool's schema, or use a stronger model.",
	},
	"unexplained": {
		Class:   "unexplained",
		Meaning: "The provider gives no reason, and the request violates no known rule.",
		Fix:     "Look at the request and the full error text; a new rule may be missing.",
	},
	"reasoning_content_forbidden": {
		Class:   "reasoning",
		Meaning: "The request carries reasoning_content, and this provider refuses it.",
		Fix:     "Strip reasoning fields from messages before sending them to this provider.",
	},
	"no_response": {
		Class:   "provider",
		Meaning: "No answer came: the connection failed, timed out or was cancelled.",
		Fix:     "Check the network, time-outs and whether the agent cancels its calls.",
	},
	"stream_error": {
		Class:   "provider",
		Meaning: "The answer started normally and ended in an error that names no cause.",
		Fix:     "Retry; if it persists, look at the provider's status page.",
	},
}

// rulesOf maps a cause to the rules whose violation implies it, in evaluation order.
var rulesOf = func() map[string][]string {
	m := make(map[string][]string)
	for _, r := range rules.InOrder {
		m[r.Cause] = append(m[r.Cause], r.ID)
	}
	return m
}()

// IDs returns the ids of all causes, sorted.
func IDs() []string {
	ids := make([]string, 0, len(registry))
	for id := range registry {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Class returns the class of a cause, "" for an unknown id.
func Class(id string) string { return registry[id].Class }

// OfRule returns the cause implied by a violation of a rule, "" for an unknown rule.
func OfRule(rule string) string {
	if r := rules.ByID(rule); r != nil {
		return r.Cause
	}
	return ""
}

// Meaning returns a sentence on the meaning of a cause and a sentence on its fix; both are "" for an unknown id.
func Meaning(id string) (sentence, fix string) {
	e := registry[id]
	return e.Meaning, e.Fix
}
