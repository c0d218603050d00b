package analyzer

import "strings"

// A SignalDoc says in a sentence what a signal is put out for.
type SignalDoc struct {
	ID  string `json:"id"`
	Doc string `json:"doc"`
}

// Signals are all signals, in the order of their ids.
var Signals = []SignalDoc{
	{ConcurrentRequests, "Two requests of one history were under way at once, in a conversation with a given id."},
	{ConversationEndedOnError, "Nothing came after a call that the provider refused, and no run event says why."},
	{ErrorRuleMismatch, "The provider's error text speaks of one defect, and the request shows another."},
	{FinishMismatch, "An answer calls tools and its finish reason denies it, or the other way round."},
	{HistoryRewritten, "The agent sent an answer back with other arguments, or another text, than the model gave it."},
	{HistoryShrunk, "A history lost more messages than it gained: it was compacted."},
	{LatentViolation, "An accepted request has a defect that its own target, or another one of its dialect, rejects."},
	{MaskedFailure, "A run reported that it went well, and its last call had failed."},
	{NoResponse, "A request got no answer: the connection failed, or none came in time."},
	{PoisonedSession, "A history is refused again and again for one defect in it, while it grows."},
	{ProviderTightened, "A provider rejects what it accepted from the same version of a service before."},
	{ReplyNeverArrived, "A tool call was never answered."},
	{RetryStorm, "One request was sent at least three times within ten minutes, and refused for good each time."},
	{SanitizerAtWork, "A history holds text that a gateway or framework puts in for what is missing; not seen in captured shapes."},
	{StreamCut, "A stream ended without its last event, and the agent had not called it off."},
	{StreamErrorIn200, "An answer began with status 200 and has an error in it."},
	{TruncatedToolCall, "The arguments of a call end where the tokens did."},
	{Unexplained400, "A request was refused with status 400 or 422, and neither the text nor the request says why."},
}

// SignalTable renders Signals as a Markdown table.
func SignalTable() string {
	var b strings.Builder
	b.WriteString("| signal | says |\n|---|---|\n")
	for _, s := range Signals {
		b.WriteString("| `" + s.ID + "` | " + s.Doc + " |\n")
	}
	return b.String()
}
