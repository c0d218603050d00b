// Package signals finds problems that no rule about a single request can find: broken answers, useless retries,
// histories that remain refused (RULES.md section 6).
//
//	request   ─> loops, a history shrunk or rewritten, placeholders ────┐
//	answer    ─> stream cut, truncated calls, finish reason, overlap ───┼─> []Signal
//	completed ─> latent defects, failures, retry storms ────────────────┘
//
// The signals of runs, tool calls and conversations without an end come from the parts of the stream analyzer that
// track them; their ids are defined here.
package signals

import "strings"

// IDs of signals.
const (
	LatentViolation          = "latent_violation"            // accepted, although the targets in Signal.RejectedBy reject the defect
	MaskedFailure            = "masked_failure"              // a run reported ok although its last call failed
	ConversationEndedOnError = "conversation_ended_on_error" // no request followed a failed call, and no run event explains that
	RetryStorm               = "retry_storm"
	PoisonedSession          = "poisoned_session"
	ReplyNeverArrived        = "reply_never_arrived"
	HistoryRewritten         = "history_rewritten"
	HistoryShrunk            = "history_shrunk"
	ConcurrentRequests       = "concurrent_session_requests"
	StreamErrorIn200         = "stream_error_in_200"
	StreamCut                = "stream_cut"
	TruncatedToolCall        = "truncated_tool_call"
	FinishMismatch           = "finish_mismatch"
	ErrorRuleMismatch        = "error_rule_mismatch"
	Unexplained400           = "unexplained_400"
	SanitizerAtWork          = "sanitizer_at_work"
	ProviderTightened        = "provider_tightened"
	NoResponse               = "no_response"
	AgentLoop                = "agent_loop"
	ModelChanged             = "model_changed"
	CacheBroken              = "cache_broken"
)

// OfFailures lists the signals about a failed call. Their tallies have the cause and root cause of that call.
var OfFailures = []string{ConversationEndedOnError, MaskedFailure, PoisonedSession, ProviderTightened, RetryStorm}

// A Doc describes a signal in one sentence.
type Doc struct {
	ID  string `json:"id"`
	Doc string `json:"doc"`
}

// All lists the signals in alphabetical order of their ids.
var All = []Doc{
	{AgentLoop, "An agent made the same calls with the same arguments five times or more, and the replies were the same each time."},
	{CacheBroken, "A change of the agent kept the provider from reading a prompt from its cache."},
	{ConcurrentRequests, "Two requests of one history were under way at the same time, in a conversation with a given id."},
	{ConversationEndedOnError, "Nothing followed a call that the provider refused, and no run event explains it."},
	{ErrorRuleMismatch, "The provider's error text names one defect, and the request shows another."},
	{FinishMismatch, "An answer calls tools and its finish reason denies it, or the reverse."},
	{HistoryRewritten, "The agent sent an answer back with other arguments, or another text, than the model returned."},
	{HistoryShrunk, "A history lost more messages than it gained: it was compacted."},
	{LatentViolation, "An accepted request has a defect that its own target, or another one of its dialect, rejects."},
	{MaskedFailure, "A run reported success although its last call had failed."},
	{ModelChanged, "A provider answers with another model than before."},
	{NoResponse, "A request got no answer: the connection failed, or none arrived in time."},
	{PoisonedSession, "A history keeps being refused for one defect in it while it grows."},
	{ProviderTightened, "A provider rejects what it previously accepted from the same version of a service."},
	{ReplyNeverArrived, "A tool call was never answered."},
	{RetryStorm, "One request was sent at least three times within ten minutes and refused for good each time."},
	{SanitizerAtWork, "A history contains text that a gateway or framework inserts for missing content; not visible in captured shapes."},
	{StreamCut, "A stream ended without its last event, and the agent had not cancelled it."},
	{StreamErrorIn200, "An answer began with status 200 and contains an error."},
	{TruncatedToolCall, "The arguments of a call end at the token limit."},
	{Unexplained400, "A request was refused with status 400 or 422, and neither the text nor the request explains it."},
}

// Table returns All as a Markdown table.
func Table() string {
	var b strings.Builder
	b.WriteString("| signal | meaning |\n|---|---|\n")
	for _, s := range All {
		b.WriteString("| `" + s.ID + "` | " + s.Doc + " |\n")
	}
	return b.String()
}
