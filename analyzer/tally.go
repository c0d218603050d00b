package analyzer

// A Tally contains the increments of one second of stream time, by label set. It is a pure function of the stream. It
// is closed when stream time passes the second and published once, in order.
type Tally struct {
	Partition int     `json:"partition"`
	Epoch     uint64  `json:"epoch"`  // epoch of the partition's lease
	Second    int64   `json:"second"` // Unix time; all earlier seconds of the partition are closed too
	Counts    []Count `json:"counts,omitempty"`
	// Examples contains at most one failed exchange per combination of service, stage, cause and root cause, and at most
	// one finding per combination of service, stage, rule, cause and root cause.
	Examples []Example `json:"examples,omitempty"`
	// Users are the users hit by failed calls and findings, if calls have users.
	Users []UsersHit `json:"users,omitempty"`
	// RateLimits is what remains of rate limits, if responses said so.
	RateLimits []RateLimit `json:"rate_limits,omitempty"`
}

// Metrics of a Count. All but the last six have the labels service, service_version, environment, agent, stage,
// provider and model; failed calls and new causes also have status, cause and root_cause. The last six have only
// service and environment, because most of them count events of processes, not calls; doc.go describes how exact they are.
const (
	MetricCalls     = "llmtap_calls_total"
	MetricFailed    = "llmtap_failed_calls_total"
	MetricRetries   = "llmtap_retries_total"         // attempts of an SDK after the first; not included in other counts of calls
	MetricCancelled = "llmtap_cancelled_calls_total" // calls cancelled by the agent; not included in other counts of calls
	MetricFindings  = "llmtap_findings_total"        // also has the labels rule, severity and root_cause, and for signals about a failed call its cause, for latent_violation the violated rule as the cause
	MetricNew       = "llmtap_new_causes_total"      // failed calls whose cause and root cause are new for the stage
	MetricOdd       = "llmtap_odd_answers_total"     // calls that did not fail, but whose answer did not end as it should; also has the label ended, such as EndedLimit
	// Replies of tools, each once, with the first request that has it and was not refused. All also have the label tool.
	MetricToolReplies = "llmtap_tool_replies_total"
	MetricToolErrors  = "llmtap_tool_errors_total"    // replies that report an error; also has the label confidence, see package toolreply
	MetricRepeated    = "llmtap_repeated_calls_total" // calls that an agent made for the third time or more, with the same arguments and the same reply, see session.Loop

	// What became of the provider's prompt cache in calls whose answers say what was read from it, see package promptcache.
	MetricCacheReusable = "llmtap_cache_reusable_tokens_total"     // tokens that the provider could have read from its cache
	MetricCacheMissed   = "llmtap_cache_missed_tokens_total"       // of these, not read; also has the label reason
	MetricCacheLoss     = "llmtap_cache_missed_microdollars_total" // what that cost, where the price is known; also has the label reason
	MetricCacheBroken   = "llmtap_cache_broken_calls_total"        // calls with missed tokens for an avoidable reason; also has the label reason

	MetricLost    = "llmtap_lost_events_total"       // events missing in the sequences of processes, including events of dropped exchanges
	MetricDropped = "llmtap_dropped_exchanges_total" // exchanges that hooks reported as dropped

	MetricHeartbeats = "llmtap_hook_heartbeats_total" // reports of hooks that their process is alive, once a minute with or without calls, or ends
	MetricVanished   = "llmtap_vanished_hooks_total"  // processes whose heartbeats stopped for 3 minutes without a report of their end

	MetricTextsDropped = "llmtap_dropped_texts_total" // calls whose texts are not stored, see content.Sampling; also has the label reason

	MetricUncaptured = "llmtap_uncaptured_calls_total" // calls to providers that are not recorded: those that hooks reported, and batches; also has the label transport
)

// Values of the label transport, besides those of package event.
const (
	TransportBatch = "batch" // a batch counts once, whatever the number of its calls
	TransportOther = other
)

// Metrics returns the names of all metrics.
func Metrics() []string {
	return []string{
		MetricCalls, MetricFailed, MetricRetries, MetricCancelled, MetricFindings, MetricNew, MetricOdd, MetricToolReplies, MetricToolErrors, MetricRepeated,
		MetricCacheReusable, MetricCacheMissed, MetricCacheLoss, MetricCacheBroken,
		MetricLost, MetricDropped, MetricHeartbeats, MetricVanished, MetricTextsDropped, MetricUncaptured,
	}
}

// A Count is an increment of one counter series.
type Count struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
	N      uint64            `json:"n"`
	// Measured is what was measured of the calls of MetricCalls; nil if nothing was.
	Measured *Measured `json:"measured,omitempty"`
}

// An Example is the evidence in an alert: one exchange and its defect.
type Example struct {
	Labels       map[string]string `json:"labels"`            // labels of the series that the example represents
	Finding      bool              `json:"finding,omitempty"` // the series counts findings, not failed calls
	Exchange     string            `json:"exchange"`
	Conversation string            `json:"conversation"`
	Full         bool              `json:"full,omitempty"` // the service publishes whole bodies: ErrorText and Evidence may quote them
	Status       int               `json:"status"`
	ErrorText    string            `json:"error_text,omitempty"`
	Guessed      bool              `json:"guessed,omitempty"` // the cause is a guess, see cause.Guessed
	Rule         string            `json:"rule,omitempty"`
	Message      int               `json:"message"` // 0-based index of the message; -1 if none
	ToolCallID   string            `json:"tool_call_id,omitempty"`
	ToolName     string            `json:"tool_name,omitempty"`
	Summary      string            `json:"summary,omitempty"`
	Evidence     string            `json:"evidence,omitempty"`
	Fix          string            `json:"fix,omitempty"`
	PublishedAt  int64             `json:"published_at"` // stream time of the response, in Unix nanoseconds

	// From the ledger entry of the failure, or of the defect for a finding; empty without an entry.
	FirstVersion string `json:"first_version,omitempty"` // service version of the first such call
	FirstAt      int64  `json:"first_at,omitempty"`      // stream time of the first such call, in Unix nanoseconds
	LastClean    string `json:"last_clean,omitempty"`    // newest other version of the stage with calls before that
	CleanCalls   uint64 `json:"clean_calls,omitempty"`   // a lower bound of these calls without a failure, see ledger.Entry; 0 if it is unknown
}
