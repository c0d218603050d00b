package analyzer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/ingest/event"
)

// Reasons of llmtap_analyzer_dropped_total.
const (
	dropDuplicate  = "duplicate"  // a second request or response of an exchange that waits for the other half
	dropLate       = "late"       // the other half of an exchange that was given up
	dropParts      = "parts"      // parts of a body that never became whole
	dropEncoding   = "encoding"   // a body that cannot be decompressed within the bounds
	dropOverflow   = "overflow"   // the oldest of what waits, for want of memory
	dropSession    = "session"    // a conversation forgotten for want of memory
	dropUnreadable = "unreadable" // a request body that is no JSON of its dialect
	dropImport     = "import"     // an exchange of an import that was broken off between its halves
	dropKind       = "kind"       // an event that is none of the contract's
)

type metrics struct {
	in, out, dropped *prometheus.CounterVec
	replayed         prometheus.Counter
	seconds          prometheus.Histogram
	sessions, state  prometheus.Gauge
	open             prometheus.Gauge

	kinds                            [event.Tool + 1]prometheus.Counter
	exchanges, findings, calls, tick prometheus.Counter
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
		open: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_analyzer_open_exchanges", Help: "Requests that wait for their response.",
		}),
	}
	for k := event.KindUnknown; k <= event.Tool; k++ {
		m.kinds[k] = m.in.WithLabelValues(k.String())
	}
	m.exchanges, m.findings = m.out.WithLabelValues("exchanges"), m.out.WithLabelValues("findings")
	m.calls, m.tick = m.out.WithLabelValues("tool_calls"), m.out.WithLabelValues("tallies")
	return m
}

// Observe records how long the caller took for a batch of events. The analyzer itself has no clock.
func (a *Analyzer) Observe(d time.Duration) { a.metrics.seconds.Observe(d.Seconds()) }
