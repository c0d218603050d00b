// Package promptcache says which tokens of a prompt the provider could have read from its cache, which of them it did not
// read, and why.
package promptcache

// A Verdict is what became of the cache in a call. It is empty if the provider reported no use of its cache, and tokens are
// those that the provider counts.
type Verdict struct {
	// Reusable are the tokens of the longest prefix that the request shares with one that the provider could still hold, or would
	// share without an avoidable change since; 0 if there is none.
	Reusable int64
	Missed   int64  // of Reusable, those that the provider did not read; 0 unless they are at least one unit of its cache
	Reason   string // why they were missed; "" if nothing was
	Element  string // what broke the prefix: "tools", "tools[3]", "system", "messages[4]", or the name of a parameter
	Detail   string // of a changed text: its class, as DetailTime; of others, the name of the tool or what changed, if known
	// Confidence is how certain Reason is: Certain or Likely; "" if nothing was missed.
	Confidence string
}

// Reasons.
const (
	ToolsChanged     = "tools_changed"     // a tool was added, removed, or declared otherwise
	ToolsReordered   = "tools_reordered"   // the same tools in another order
	SystemChanged    = "system_changed"    // the text of the system prompt changed
	MessageEdited    = "message_edited"    // an old message changed
	HistoryCompacted = "history_compacted" // old messages were replaced by a summary, or cut
	ParameterChanged = "parameter_changed" // a parameter that is part of the prefix changed
	ModelSwitched    = "model_switched"    // the model before was another one
	AccountChanged   = "account_changed"   // the API key was another one, of another account as far as the tokens show it
	MarkMissing      = "mark_missing"      // the provider caches only what is marked, and nothing is
	MarkMoved        = "mark_moved"        // the marks leave out what was marked before
	BeyondLookback   = "beyond_lookback"   // more blocks since the last mark than the provider looks back
	TooShort         = "too_short"         // the prompt is shorter than the provider caches
	Idle             = "idle"              // the provider holds it no longer
	Parallel         = "parallel"          // the first calls were made at the same time, before one had written the cache
	RoutingMissing   = "routing_missing"   // without prompt_cache_key, calls of one prefix go to different machines
	Varies           = "varies"            // the prompts of a stage differ in each conversation, before what they share
	Evicted          = "evicted"           // nothing changed: the provider no longer had it
	VersionChanged   = "version_changed"   // something changed because another version of the service continued the history
)

// reasons are all reasons. What is remembered about them depends on their order.
var reasons = [...]string{
	ToolsChanged, ToolsReordered, SystemChanged, MessageEdited, HistoryCompacted, ParameterChanged, ModelSwitched, AccountChanged, MarkMissing, MarkMoved,
	BeyondLookback, TooShort, Idle, Parallel, RoutingMissing, Varies, Evicted, VersionChanged,
}

// Avoidable reports whether a change of the agent avoids the reason. The others are told and never alarmed.
func Avoidable(reason string) bool {
	switch reason {
	case "", HistoryCompacted, TooShort, Idle, Parallel, Evicted, VersionChanged:
		return false
	}
	return true
}

// Confidences.
const (
	Certain = "certain" // the request shows it
	Likely  = "likely"  // it explains what the provider reported, and something else may too
)

// Classes of a changed text.
const (
	DetailTime     = "time"
	DetailDate     = "date"
	DetailUUID     = "uuid"
	DetailCounter  = "counter"
	DetailKeyOrder = "key order" // the same JSON with its keys in another order
	DetailUser     = "user data" // a name, an address, an id: other text of the same place
)
