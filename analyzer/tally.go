package analyzer

// A Tally is the counts that one second of stream time added, by label set. It is a pure function of the stream:
// closed when stream time passes it, published once, in order.
type Tally struct {
	Partition int     `json:"partition"`
	Epoch     uint64  `json:"epoch"`  // of the partition's lease
	Second    int64   `json:"second"` // Unix time; every earlier second of the partition is closed too
	Counts    []Count `json:"counts,omitempty"`
	// Examples hold at most one failed exchange per (service, stage, cause, root cause) of the second.
	Examples []Example `json:"examples,omitempty"`
}

// Metrics of a Count. Labels of all but the last two: service, service_version, environment, agent, stage, provider,
// model; failed and new ones also carry status, cause and root_cause. The last two have service and environment: they are of
// processes, not of calls, and doc.go says how exact they are.
const (
	MetricCalls     = "llmtap_calls_total"
	MetricFailed    = "llmtap_failed_calls_total"
	MetricRetries   = "llmtap_retries_total"           // attempts of an SDK after the first; in no other count of calls
	MetricCancelled = "llmtap_cancelled_calls_total"   // given up by the agent; in no other count of calls
	MetricFindings  = "llmtap_findings_total"          // labels also rule, severity, root_cause
	MetricNew       = "llmtap_new_causes_total"        // failed calls whose cause and root cause the stage's ledger did not know
	MetricLost      = "llmtap_lost_events_total"       // missing in a process's sequence, those of dropped exchanges too
	MetricDropped   = "llmtap_dropped_exchanges_total" // as hooks say
)

// Metrics returns the names of all.
func Metrics() []string {
	return []string{MetricCalls, MetricFailed, MetricRetries, MetricCancelled, MetricFindings, MetricNew, MetricLost, MetricDropped}
}

// A Count is an increment of one counter series.
type Count struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
	N      uint64            `json:"n"`
}

// An Example is the proof an alert shows: one exchange, and what was wrong in it.
type Example struct {
	Labels       map[string]string `json:"labels"` // of the failed series it stands for
	Exchange     string            `json:"exchange"`
	Conversation string            `json:"conversation"`
	Status       int               `json:"status"`
	ErrorText    string            `json:"error_text,omitempty"`
	Rule         string            `json:"rule,omitempty"`
	Message      int               `json:"message"` // 0-based index; -1 when no message is concerned
	ToolCallID   string            `json:"tool_call_id,omitempty"`
	Summary      string            `json:"summary,omitempty"`
	Evidence     string            `json:"evidence,omitempty"`
	Fix          string            `json:"fix,omitempty"`
	PublishedAt  int64             `json:"published_at"` // Unix nanoseconds of the response's stream time

	// What the ledger knows of the service's stage, cause and root cause; empty when it knows nothing.
	FirstVersion string `json:"first_version,omitempty"` // service version of the first call that failed so
	FirstAt      int64  `json:"first_at,omitempty"`      // Unix nanoseconds of its stream time
	LastClean    string `json:"last_clean,omitempty"`    // newest other version that the stage had made calls with before it
}
