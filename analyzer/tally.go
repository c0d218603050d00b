package analyzer

// A Tally contains the increments of one second of stream time, by label set. It is a pure function of the stream: it is
// closed when stream time passes it, and published once, in order.
type Tally struct {
	Partition int     `json:"partition"`
	Epoch     uint64  `json:"epoch"`  // of the partition's lease
	Second    int64   `json:"second"` // Unix time; every earlier second of the partition is closed too
	Counts    []Count `json:"counts,omitempty"`
	// Examples contains at most one failed exchange per (service, stage, cause, root cause).
	Examples []Example `json:"examples,omitempty"`
}

// Metrics of a Count. All but the last two have the labels service, service_version, environment, agent, stage, provider
// and model; failed calls and new causes also have status, cause and root_cause. The last two have service and environment:
// they count events of processes, not calls, and doc.go says how exact they are.
const (
	MetricCalls     = "llmtap_calls_total"
	MetricFailed    = "llmtap_failed_calls_total"
	MetricRetries   = "llmtap_retries_total"           // attempts of an SDK after the first; not in other counts of calls
	MetricCancelled = "llmtap_cancelled_calls_total"   // by the agent; not in other counts of calls
	MetricFindings  = "llmtap_findings_total"          // labels also rule, severity, root_cause
	MetricNew       = "llmtap_new_causes_total"        // failed calls whose cause and root cause are new for the stage
	MetricLost      = "llmtap_lost_events_total"       // missing in the sequences of processes, including those of dropped exchanges
	MetricDropped   = "llmtap_dropped_exchanges_total" // as reported by hooks
)

// Metrics returns the names of all metrics.
func Metrics() []string {
	return []string{MetricCalls, MetricFailed, MetricRetries, MetricCancelled, MetricFindings, MetricNew, MetricLost, MetricDropped}
}

// A Count is an increment of one counter series.
type Count struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
	N      uint64            `json:"n"`
}

// An Example is the proof in an alert: one exchange and its defect.
type Example struct {
	Labels       map[string]string `json:"labels"` // of the failed series that it represents
	Exchange     string            `json:"exchange"`
	Conversation string            `json:"conversation"`
	Status       int               `json:"status"`
	ErrorText    string            `json:"error_text,omitempty"`
	Rule         string            `json:"rule,omitempty"`
	Message      int               `json:"message"` // 0-based index; -1 for none
	ToolCallID   string            `json:"tool_call_id,omitempty"`
	Summary      string            `json:"summary,omitempty"`
	Evidence     string            `json:"evidence,omitempty"`
	Fix          string            `json:"fix,omitempty"`
	PublishedAt  int64             `json:"published_at"` // Unix nanoseconds of the response's stream time

	// From the ledger, for this service, stage, cause and root cause; empty when it has no entry.
	FirstVersion string `json:"first_version,omitempty"` // service version of the first such call
	FirstAt      int64  `json:"first_at,omitempty"`      // Unix nanoseconds of its stream time
	LastClean    string `json:"last_clean,omitempty"`    // newest other version of the stage with calls before that
}
