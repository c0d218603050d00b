package session

// The root causes: what an agent did to make a request defective. The list is closed; the ids are those of RULES.md 4.2.
const (
	// CallsDropped: the agent saved the assistant message without its calls. Detail "some": without some of its calls.
	CallsDropped = "tool_calls_dropped_on_save"
	// Truncated: the agent shortened its history between a call and its reply. Detail: head, middle or tail.
	Truncated = "history_truncated_mid_pair"
	// ReplayedUnbound: a new run or process loaded replies from storage without their calls.
	ReplayedUnbound = "replayed_history_without_binding"
	// SanitizerDropped: code that repairs histories removed a malformed call, or one of an incomplete group, and left its
	// reply.
	SanitizerDropped = "call_dropped_by_sanitizer"
	// CallsTruncated: the agent runs only the first k of several calls.
	CallsTruncated = "parallel_calls_truncated"
	// ToolSkipped: the agent did not run the tool, added no reply, and continued without the user.
	ToolSkipped = "tool_skipped"
	// Crashed: the process ended between call and reply; another one continued from the saved history.
	Crashed = "crash_between_call_and_reply"
	// UserInterrupt: the user's next message arrived before the reply, which followed later.
	UserInterrupt = "user_interrupt"
	// SkippedOrInterrupted is ToolSkipped or UserInterrupt, or Crashed where the processes are unknown: the request shows only
	// that there is no reply. Only events of tools or runs could distinguish them.
	SkippedOrInterrupted = "tool_skipped_or_interrupted"
	// Interleaved: a message was inserted between a call and its reply. Detail is its role.
	Interleaved = "interleaved_injection"
	// CallsSplit: the calls of one answer were saved as several assistant messages.
	CallsSplit = "calls_split_over_messages"
	// ConcurrentWriters: two requests of one conversation were in flight at the same time, and both wrote into its history.
	ConcurrentWriters = "concurrent_writers"
	// DuplicateReply: a call has more than one reply. Detail resume_replayed: the same reply from another process;
	// retry_appended: the same reply from the same process; double_execution: another reply; approval_plus_result: the first
	// one was a placeholder.
	DuplicateReply = "duplicate_reply"
	// DuplicateIDFromModel: the model itself gave two calls one id.
	DuplicateIDFromModel = "duplicate_id_from_model"
	// TurnAppendedTwice: the agent appended one assistant message twice.
	TurnAppendedTwice = "turn_appended_twice"
	// IDRewritten: calls and replies have different ids because one side changed them. Detail call_side: the calls;
	// reply_side: the reply; hardcoded_id, result_used_as_id: the reply, and how.
	IDRewritten = "id_rewritten"
	// IDFromGateway: the answer itself had the id that this target refuses, so a gateway made it.
	IDFromGateway = "id_regenerated_by_gateway"
	// ArgumentsAsObject: the answer's arguments were a string, and the request has the same arguments as a JSON value.
	ArgumentsAsObject = "arguments_reserialised_as_object"
	// ArgumentsTruncated: the answer ended inside the arguments. Detail length: at its token limit; cut: the stream broke off.
	ArgumentsTruncated = "arguments_truncated_stream"
	// StreamAssembly: the fragments of a streamed call were assembled wrongly.
	StreamAssembly = "stream_assembly_bug"
	// MalformedByModel: the answer was whole, and the model wrote the malformed call.
	MalformedByModel = "malformed_by_model"
	// IDDroppedOnSave: the answer's call had the id, or name, that the request lacks.
	IDDroppedOnSave = "id_dropped_on_save"
	// ReasoningStripped: the answer had reasoning, or a signature of it, that the request lacks.
	ReasoningStripped = "reasoning_stripped"
	// EmptyReasoningOmitted: the answer's reasoning was an empty string, and the request lacks the member.
	EmptyReasoningOmitted = "empty_reasoning_omitted"
	// ProviderSwitched: the message is from another provider or model, whose answers look different. Detail: dialect,
	// variant, family or model, whichever changed.
	ProviderSwitched = "provider_switched"
	// FieldLeak: all messages of a role have the field, so the code that writes messages adds it.
	FieldLeak = "sdk_field_leak"
	// NoHistory: the history before the request is unknown.
	NoHistory = "unknown_no_history"
)

// fixes contains what to change in the agent, by root cause.
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
	DuplicateReply:        "Before appending a reply, check whether its call has one already; make tool runs idempotent by call id.",
	DuplicateIDFromModel:  "When saving an answer, replace call ids that were used before, and use the new ids in the replies.",
	TurnAppendedTwice:     "Append an answer in one place only, and make saving it idempotent.",
	IDRewritten:           "Use the id of the answer's call unchanged in the saved call and in its reply.",
	IDFromGateway:         "Let the gateway pass ids through, or replace them with ids that every target accepts when saving the answer.",
	ArgumentsAsObject:     "Send the arguments back as the string that arrived; if they are stored parsed, serialize them again.",
	ArgumentsTruncated:    "Do not save a call from an answer that was cut off; raise the token limit or retry.",
	StreamAssembly:        "Collect the fragments of a streamed call by its index, start a new call at each new id, and keep the id and name of the first fragment.",
	MalformedByModel:      "Check calls before saving them; answer a malformed one with an error instead of running it, or ask the model again.",
	IDDroppedOnSave:       "Save the id, type and function name of every call, and put the call's id in its reply.",
	ReasoningStripped:     "Save the reasoning of an answer with its signature and send it back unchanged with its calls.",
	EmptyReasoningOmitted: "Send the reasoning field back even when it is empty; do not omit empty strings.",
	ProviderSwitched:      "When a conversation continues with another provider or model, convert the fields, ids and reasoning of its history.",
	FieldLeak:             "Build messages from the fields that the API accepts; do not serialize objects of the SDK or framework.",
}

// RootCauses lists the ids of root causes; RootCause.ID is "" for a known history in which nothing fits.
var RootCauses = []string{
	CallsDropped, Truncated, ReplayedUnbound, SanitizerDropped, CallsTruncated, ToolSkipped, Crashed, UserInterrupt, SkippedOrInterrupted,
	Interleaved, CallsSplit, ConcurrentWriters, DuplicateReply, DuplicateIDFromModel, TurnAppendedTwice, IDRewritten, IDFromGateway,
	ArgumentsAsObject, ArgumentsTruncated, StreamAssembly, MalformedByModel, IDDroppedOnSave, ReasoningStripped, EmptyReasoningOmitted,
	ProviderSwitched, FieldLeak, NoHistory,
}

// explanations has the rules whose defects have root causes. Where a message alone is wrong, such as a second system prompt,
// the rule itself explains it.
var explanations = map[string]func(*explainer) RootCause{
	"orphan_tool_reply":            explainOrphan,
	"tool_reply_before_call":       explainEarly,
	"late_tool_reply":              explainLate,
	"unknown_tool_call_id":         explainUnknownID,
	"missing_tool_reply":           explainMissing,
	"previous_response_unresolved": explainUnresolved,
	"duplicate_tool_reply":         explainRepliedTwice,
	"duplicate_call_id_in_message": explainCalledTwice,
	"duplicate_call_id_in_history": explainCalledTwice,
	"duplicate_item_id":            explainItemTwice,
	"missing_tool_call_id":         explainReplyWithoutID,
	"malformed_tool_call":          explainMalformed,
	"arguments_not_string":         explainArgumentsKind,
	"arguments_invalid_json":       explainArgumentsText,
	"reasoning_content_missing":    explainReasoning,
	"thinking_block_missing":       explainReasoning,
	"thought_signature_missing":    explainReasoning,
	"reasoning_item_unpaired":      explainReasoningItem,
	"reasoning_signature_invalid":  explainSwitched,
	"reasoning_content_forbidden":  explainSwitched,
	"unsupported_role":             explainSwitched,
	"unexpected_message_field":     explainField,
	"tool_call_id_format":          explainIDFormat,
}
