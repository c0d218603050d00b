package analyzer

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/ingest/event"
)

// Reasons of llmtap_analyzer_dropped_total.
const (
	dropDuplicate   = "duplicate"    // a request, response or part that came before
	dropLate        = "late"         // the other half of an exchange that was given up
	dropParts       = "parts"        // parts of a body that never became whole, or contradict each other
	dropEncoding    = "encoding"     // a body that cannot be decompressed
	dropOverflow    = "overflow"     // the oldest of what waits, for want of memory
	dropSession     = "session"      // a conversation forgotten for want of memory
	dropTooLarge    = "too_large"    // a body beyond the bounds, as it is or decompressed
	dropUnreadable  = "unreadable"   // a request that is no JSON, an accepted answer that is none of its dialect
	dropSequence    = "sequence"     // a leap of a process's sequence that is no loss but garbage
	dropImport      = "import"       // an exchange of an import that was broken off between its halves
	dropMemo        = "memo"         // what is known of a conversation's requests, for want of memory: the next one is read whole
	dropLedger      = "ledger"       // an entry of the ledger, the longest unseen, for want of room
	dropLedgerEntry = "ledger_entry" // an entry that was kept and cannot be read
	dropContent     = "content"      // a message or another part of a body that is too large to be stored
	dropKind        = "kind"         // an event that is none of the contract's
)

type metrics struct {
	in, out, dropped   *prometheus.CounterVec
	replayed           prometheus.Counter
	seconds            prometheus.Histogram
	sessions, state    prometheus.Gauge
	pending, processes prometheus.Gauge
	memos, ledger      prometheus.Gauge
	known              prometheus.Counter

	lost, droppedByHooks prometheus.Counter

	kinds                            [event.Tool + 1]prometheus.Counter
	exchanges, findings, calls, tick prometheus.Counter
	runs, contents, positions        prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		in: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_analyzer_in_events_total", Help: "Events analyzed, replayed ones not counted.",
		}, []string{"kind"}),
		out: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_analyzer_out_rows_total", Help: "Rows put out, tallies included, by table.",
		}, []string{"table"}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_analyzer_dropped_total", Help: "Events, bodies and conversations that were not used, by reason.",
		}, []string{"reason"}),
		replayed: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_analyzer_replayed_events_total", Help: "Events read silently after a start to build state.",
		}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_analyzer_batch_seconds", Help: "Time to analyze one batch of events, as measured by the caller.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		sessions: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_analyzer_sessions", Help: "Conversations remembered.",
		}),
		state: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_analyzer_state_bytes", Help: "Estimated memory of the conversations remembered.",
		}),
		pending: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_analyzer_open_exchanges", Help: "Requests that wait for their response.",
		}),
	}
	m.processes = f.NewGauge(prometheus.GaugeOpts{
		Name: "llmtap_analyzer_instances", Help: "Processes that send events and were not silent for long.",
	})
	m.memos = f.NewGauge(prometheus.GaugeOpts{
		Name: "llmtap_analyzer_memo_bytes", Help: "Estimated memory of what is known of the newest requests of conversations.",
	})
	m.ledger = f.NewGauge(prometheus.GaugeOpts{
		Name: "llmtap_analyzer_ledger_entries", Help: "Defects, causes of failures and service versions that the ledger remembers.",
	})
	m.known = f.NewCounter(prometheus.CounterOpts{
		Name: "llmtap_analyzer_known_bytes_total", Help: "Bytes of requests that were recognised from the request before and not read again.",
	})
	m.lost = f.NewCounter(prometheus.CounterOpts{
		Name: "llmtap_analyzer_lost_events_total", Help: "Events missing in the sequences of the processes that send them.",
	})
	m.droppedByHooks = f.NewCounter(prometheus.CounterOpts{
		Name: "llmtap_analyzer_hook_dropped_exchanges_total", Help: "Exchanges that hooks say they dropped for want of memory.",
	})
	for k := event.KindUnknown; k <= event.Tool; k++ {
		m.kinds[k] = m.in.WithLabelValues(k.String())
	}
	m.exchanges, m.findings = m.out.WithLabelValues("exchanges"), m.out.WithLabelValues("findings")
	m.runs = m.out.WithLabelValues("runs")
	m.contents, m.positions = m.out.WithLabelValues("messages"), m.out.WithLabelValues("history")
	m.calls, m.tick = m.out.WithLabelValues("tool_calls"), m.out.WithLabelValues("tallies")
	return m
}

// received counts an event.
func (m *metrics) received(k event.Kind, emit bool) {
	if emit {
		m.kinds[min(k, event.Tool)].Inc()
	} else {
		m.replayed.Inc()
	}
}
