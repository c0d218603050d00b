package session

// The root causes: what an agent did to make a request defective. This is the complete list; RULES.md 4.2 defines the ids.
const (
	// CallsDropped: the agent saved the assistant message without its calls. Detail "some": only some calls are missing;
	// "message": the whole message is missing.
	CallsDropped = "tool_calls_dropped_on_save"
	// Truncated: the agent shortened its history between a call and its reply. Detail: head, middle or tail.
	Truncated = "history_truncated_mid_pair"
	// ReplayedUnbound: a new run or process loaded replies from storage without their calls.
	ReplayedUnbound = "replayed_history_without_binding"
	// SanitizerDropped: code that repairs histories removed a malformed call, or a call of an incomplete group, but kept the
	// reply.
	SanitizerDropped = "call_dropped_by_sanitizer"
	// CallsTruncated: the agent ran only the first k of several calls.
	CallsTruncated = "parallel_calls_truncated"
	// ToolSkipped: the agent did not run the tool, did not add a reply, and continued without a message from the user.
	ToolSkipped = "tool_skipped"
	// Crashed: the process ended between call and reply; another process continued from the saved history.
	Crashed = "crash_between_call_and_reply"
	// UserInterrupt: the user's next message arrived before the tool had replied.
	UserInterrupt = "user_interrupt"
	// SkippedOrInterrupted is ToolSkipped or UserInterrupt, or Crashed if the processes are unknown. The request shows only that
	// the reply is missing; only tool or run events could distinguish these causes.
	SkippedOrInterrupted = "tool_skipped_or_interrupted"
	// Interleaved: a message was inserted between a call and its reply. Detail is the role of that message.
	Interleaved = "interleaved_injection"
	// CallsSplit: the calls of one answer were saved as several assistant messages.
	CallsSplit = "calls_split_over_messages"
	// ConcurrentWriters: two requests of one conversation were in flight at the same time, and both wrote to its history.
	ConcurrentWriters = "concurrent_writers"
	// HistoryReordered: a reply and its call are in another order than before.
	HistoryReordered = "history_reordered"
	// DuplicateReply: a call has more than one reply. Detail resume_replayed: the same reply from another process;
	// retry_appended: the same reply from the same process; double_execution: different replies; approval_plus_result: the
	// first reply was a placeholder.
	DuplicateReply = "duplicate_reply"
	// DuplicateIDFromModel: the model itself gave two calls the same id.
	DuplicateIDFromModel = "duplicate_id_from_model"
	// TurnAppendedTwice: the agent appended one assistant message twice.
	TurnAppendedTwice = "turn_appended_twice"
	// IDRewritten: calls and replies have different ids because the agent changed them. Detail call_side: the ids of the calls
	// changed; reply_side: the id of the reply changed; hardcoded_id, result_used_as_id: the reply has a fixed id, or a part of
	// the result as its id.
	IDRewritten = "id_rewritten"
	// IDFromGateway: the answer itself has the id that this target refuses, so a gateway generated it.
	IDFromGateway = "id_regenerated_by_gateway"
	// ArgumentsAsObject: the arguments were a string in the answer and are the same JSON as a value in the request.
	ArgumentsAsObject = "arguments_reserialised_as_object"
	// ArgumentsAsString: the arguments were an object, or a string of JSON, in the answer, and are that JSON in a string, or in
	// one more string, in the request.
	ArgumentsAsString = "arguments_sent_as_string"
	// ArgumentsCutOnSave: the answer was complete and had complete arguments, which end early in the request.
	ArgumentsCutOnSave = "arguments_truncated_on_save"
	// ArgumentsTruncated: the answer ended inside the arguments. Detail length: at the token limit; cut: the stream broke off.
	ArgumentsTruncated = "arguments_truncated_stream"
	// StreamAssembly: the agent assembled the fragments of a streamed call incorrectly.
	StreamAssembly = "stream_assembly_bug"
	// MalformedByModel: the answer was complete, and the model wrote the malformed call.
	MalformedByModel = "malformed_by_model"
	// IDDroppedOnSave: the call in the answer had the id or name that is missing in the request.
	IDDroppedOnSave = "id_dropped_on_save"
	// FieldLost: the answer had a member of a call or block that is missing in the request. Detail: namespace or signature.
	FieldLost = "field_lost_on_save"
	// ReasoningStripped: the answer had reasoning or a signature that is missing in the request.
	ReasoningStripped = "reasoning_stripped"
	// ReasoningEdited: the thinking text in the request differs from the answer's, but has its signature; or the signature differs.
	ReasoningEdited = "reasoning_edited"
	// EmptyReasoningOmitted: the reasoning was an empty string in the answer, and the member is missing in the request.
	EmptyReasoningOmitted = "empty_reasoning_omitted"
	// ProviderSwitched: the message is from another provider or model with a different answer format. Detail: what changed,
	// which is dialect, variant, family or model.
	ProviderSwitched = "provider_switched"
	// FieldLeak: all messages of a role have the field, so the code that builds messages adds it.
	FieldLeak = "sdk_field_leak"
	// NoHistory: the history before the request is unknown.
	NoHistory = "unknown_no_history"
)

// Summaries maps root causes to what the agent did, as a phrase.
var Summaries = map[string]string{
	CallsDropped:          "assistant message saved without its tool_calls",
	Truncated:             "history truncated between a tool call and its reply",
	ReplayedUnbound:       "history reloaded without the tool calls that its tool messages answer",
	SanitizerDropped:      "tool call removed by code that repairs the history",
	CallsTruncated:        "only the first of several parallel tool calls answered",
	ToolSkipped:           "tool call skipped and no reply saved",
	Crashed:               "agent stopped between a tool call and its reply",
	UserInterrupt:         "user wrote before the tool call was answered",
	SkippedOrInterrupted:  "tool call skipped or interrupted and no reply saved",
	Interleaved:           "another message inserted between a tool call and its reply",
	CallsSplit:            "one assistant message split into one per tool call",
	ConcurrentWriters:     "two writers mixed one conversation",
	HistoryReordered:      "history sent in another order than it was written",
	DuplicateReply:        "one tool call answered twice",
	DuplicateIDFromModel:  "model used one tool call id twice",
	TurnAppendedTwice:     "one turn appended twice",
	IDRewritten:           "tool call id changed between answer and request",
	IDFromGateway:         "tool call id generated by a gateway",
	ArgumentsAsObject:     "arguments stored as an object and sent back as one",
	ArgumentsAsString:     "arguments sent back as a string instead of an object",
	ArgumentsCutOnSave:    "arguments truncated when the message was saved",
	ArgumentsTruncated:    "truncated arguments of an incomplete answer sent back",
	StreamAssembly:        "streamed answer assembled incorrectly",
	MalformedByModel:      "malformed output of the model sent back",
	IDDroppedOnSave:       "tool call id lost when the message was saved",
	FieldLost:             "a field of the model's answer lost when the message was saved",
	ReasoningStripped:     "reasoning removed from the history",
	ReasoningEdited:       "signed reasoning changed",
	EmptyReasoningOmitted: "empty reasoning omitted",
	ProviderSwitched:      "history of another provider sent to this one",
	FieldLeak:             "field of an SDK sent to the API",
	NoHistory:             "history before the request unknown",
}

// Fix returns the change that the agent needs; "" for NoHistory.
func Fix(rootCause string) string { return fixes[rootCause] }

// fixes maps root causes to the change that the agent needs.
var fixes = map[string]string{
	CallsDropped:          "Save the whole assistant message, tool_calls included, before its tool messages; do not rebuild it from role and content.",
	Truncated:             "Shorten the history only between turns: keep or drop an assistant message with tool_calls together with all its tool messages.",
	ReplayedUnbound:       "When a run starts from stored history, load an assistant message with its calls together with the replies, or leave both out.",
	SanitizerDropped:      "When a broken call is removed from the history, remove its replies too; better, answer it with an error.",
	CallsTruncated:        "Reply to every call of an answer; reply to calls beyond a limit with a message that says so, or disable parallel calls.",
	ToolSkipped:           "Append a reply for every call, even if its tool does not run: say in it that the tool was skipped or failed.",
	Crashed:               "Save calls and replies as they arrive; on resume, answer each call without a reply with an error before continuing.",
	UserInterrupt:         "If the user writes while tools run, first append a reply to each open call, even if it only says that the tool was interrupted.",
	SkippedOrInterrupted:  "Before the next message, append a reply to every open call: its result, or that it was skipped, failed or interrupted.",
	Interleaved:           "Insert reminders, summaries and guards only after all replies of a turn, never between a call and its reply.",
	CallsSplit:            "Save an answer with several calls as one assistant message, followed by all its replies.",
	ConcurrentWriters:     "Let only one run at a time write to a conversation: take a lock, or queue the second request until the first is saved.",
	HistoryReordered:      "Number the messages of a conversation as they are written and load them by that number, not by time stamps or random ids.",
	DuplicateReply:        "Before appending a reply, check whether its call has one already; make tool runs idempotent by call id.",
	DuplicateIDFromModel:  "When saving an answer, replace call ids that were used before, and use the new ids in the replies.",
	TurnAppendedTwice:     "Append an answer in one place only, and make saving it idempotent.",
	IDRewritten:           "Use the id of the answer's call unchanged in the saved call and in its reply.",
	IDFromGateway:         "Let the gateway pass ids through, or replace them with ids that every target accepts when saving the answer.",
	ArgumentsAsObject:     "Send the arguments back as the string that arrived; if they are stored parsed, serialize them again.",
	ArgumentsAsString:     "Send the arguments back as the object that arrived; parse a stored string once before it becomes a part of the request.",
	ArgumentsCutOnSave:    "Save the arguments of a call whole; shorten only the results of tools, and check the limit of the column or cache that stores calls.",
	ArgumentsTruncated:    "Do not save a call from an answer that was cut off; raise the token limit or retry.",
	StreamAssembly:        "Collect the fragments of a streamed call by its index, start a new call at each new id, and keep the id and name of the first fragment.",
	MalformedByModel:      "Check calls before saving them; answer a malformed one with an error instead of running it, or ask the model again.",
	IDDroppedOnSave:       "Save the id, type and function name of every call, and put the call's id in its reply.",
	FieldLost:             "Save calls and blocks whole, as they arrived, instead of copying the fields that the code knows.",
	ReasoningStripped:     "Save the reasoning of an answer with its signature and send it back unchanged with its calls.",
	ReasoningEdited:       "Store signed thinking byte for byte, without trimming or redacting its text, or else leave out the whole block.",
	EmptyReasoningOmitted: "Send the reasoning field back even when it is empty; do not omit empty strings.",
	ProviderSwitched:      "When a conversation continues with another provider or model, convert the fields, ids and reasoning of its history.",
	FieldLeak:             "Build messages from the fields that the API accepts; do not serialize objects of the SDK or framework.",
}

// RootCauses lists the ids of root causes. RootCause.ID is "" if the history is known but no root cause fits.
var RootCauses = []string{
	CallsDropped, Truncated, ReplayedUnbound, SanitizerDropped, CallsTruncated, ToolSkipped, Crashed, UserInterrupt, SkippedOrInterrupted,
	Interleaved, CallsSplit, ConcurrentWriters, HistoryReordered, DuplicateReply, DuplicateIDFromModel, TurnAppendedTwice, IDRewritten, IDFromGateway,
	ArgumentsAsObject, ArgumentsAsString, ArgumentsCutOnSave, ArgumentsTruncated, StreamAssembly, MalformedByModel, IDDroppedOnSave,
	FieldLost, ReasoningStripped, ReasoningEdited, EmptyReasoningOmitted, ProviderSwitched, FieldLeak, NoHistory,
}

// explanations maps the rules whose defects have root causes to functions that find them. A defect of a single message, such
// as a second system prompt, needs no root cause, because the rule itself explains it.
var explanations = map[string]func(*explainer) RootCause{
	"orphan_tool_reply":            explainOrphan,
	"tool_reply_before_call":       explainEarly,
	"late_tool_reply":              explainLate,
	"unknown_tool_call_id":         explainUnknownID,
	"missing_tool_reply":           explainMissing,
	"previous_response_unresolved": explainUnresolved,
	"tool_result_not_first":        explainNotFirst,
	"duplicate_tool_reply":         explainRepliedTwice,
	"duplicate_call_id_in_message": explainCalledTwice,
	"duplicate_call_id_in_history": explainCalledTwice,
	"duplicate_item_id":            explainItemTwice,
	"missing_tool_call_id":         explainReplyWithoutID,
	"malformed_tool_call":          explainMalformed,
	"arguments_not_string":         explainArgumentsKind,
	"arguments_not_object":         explainArgumentsNotObject,
	"arguments_invalid_json":       explainArgumentsText,
	"reasoning_content_missing":    explainReasoning,
	"thinking_block_missing":       explainReasoning,
	"thought_signature_missing":    explainReasoning,
	"reasoning_item_unpaired":      explainReasoningItem,
	"reasoning_signature_invalid":  explainSignature,
	"reasoning_content_forbidden":  explainSwitched,
	"unsupported_role":             explainSwitched,
	"unexpected_message_field":     explainField,
	"tool_call_id_format":          explainIDFormat,
}
