package analyzer

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Reasons of llmtap_analyzer_events_dropped_total.
const (
	dropDuplicate   = "duplicate"    // a request, response or part that had already arrived
	dropLate        = "late"         // a half of an exchange that had already timed out
	dropParts       = "parts"        // parts of a body that are incomplete or contradict each other
	dropEncoding    = "encoding"     // a body that cannot be decompressed
	dropOverflow    = "overflow"     // the oldest state beyond a limit
	dropSession     = "session"      // a conversation evicted to stay within the memory limit
	dropTooLarge    = "too_large"    // a body that exceeds the limits, compressed or decompressed
	dropUnreadable  = "unreadable"   // a request that is not JSON, or a successful answer that does not match its dialect
	dropSequence    = "sequence"     // an implausible increase of a process's sequence, which is not counted as a loss
	dropImport      = "import"       // an exchange of an import that was interrupted between the two halves
	dropMemo        = "memo"         // a memo evicted to stay within the memory limit; the next request of its conversation is scanned in full
	dropLedger      = "ledger"       // the least recently seen entry of a full ledger
	dropLedgerEntry = "ledger_entry" // a stored ledger entry that cannot be decoded
	dropContent     = "content"      // a message or another part of a body that is too large to store
	dropKind        = "kind"         // an event of an unknown kind
)

type metrics struct {
	dropped   *prometheus.CounterVec
	seconds   prometheus.Histogram
	sessions  prometheus.Gauge
	state     prometheus.Gauge
	pending   prometheus.Gauge
	processes prometheus.Gauge
	memos     prometheus.Gauge
	ledger    prometheus.Gauge

	kinds                                            [event.Hook + 1]prometheus.Counter
	replayed, skipped, lost, hookDropped, uncaptured prometheus.Counter

	// Emitted rows, by table.
	exchanges, findings, calls, runs, contents, positions, tallies prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "llmtap_analyzer_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "llmtap_analyzer_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_analyzer_" + name, Help: help})
	}
	received := vec("events_received_total", "Events analyzed, without those replayed after a start.", "kind")
	rows := vec("rows_emitted_total", "Rows emitted, including tallies, by table.", "table").WithLabelValues
	m := &metrics{
		dropped: vec("events_dropped_total", "Events, bodies, conversations and other state that were dropped, by reason.", "reason"),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_analyzer_batch_duration_seconds", Help: "Time to analyze one batch of events, as measured by the caller.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		sessions:  gauge("conversations", "Conversations in memory."),
		state:     gauge("conversations_bytes", "Estimated memory of the conversations."),
		pending:   gauge("pending_exchanges", "Requests that wait for their response."),
		processes: gauge("processes", "Processes that recently sent events."),
		memos:     gauge("memos_bytes", "Estimated memory of the memos of conversations' newest requests."),
		ledger:    gauge("ledger_entries", "Defects, causes of failures, service versions and verdicts in the ledger."),

		replayed:    counter("events_replayed_total", "Events read silently after a start to rebuild state."),
		skipped:     counter("request_bytes_skipped_total", "Bytes of requests that were known from the request before and not scanned again."),
		lost:        counter("events_lost_total", "Events missing in the sequences of the processes that send them."),
		hookDropped: counter("hook_exchanges_dropped_total", "Exchanges that hooks reported as dropped for lack of memory."),
		uncaptured:  counter("hook_calls_uncaptured_total", "Calls to providers that are not recorded: those that hooks reported as made with clients that they do not capture, and batches."),

		exchanges: rows("exchanges"), findings: rows("findings"), calls: rows("tool_calls"), runs: rows("runs"),
		contents: rows("messages"), positions: rows("history"), tallies: rows("tallies"),
	}
	for k := event.KindUnknown; k <= event.Hook; k++ {
		m.kinds[k] = received.WithLabelValues(k.String())
	}
	return m
}

// received counts an event.
func (m *metrics) received(k event.Kind, emit bool) {
	if emit {
		m.kinds[min(k, event.Hook)].Inc()
	} else {
		m.replayed.Inc()
	}
}
