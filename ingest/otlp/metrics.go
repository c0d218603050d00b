package otlp

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label signal.
const (
	signalTraces  = "traces"
	signalLogs    = "logs"
	signalMetrics = "metrics"
)

// Values of the label reason.
const (
	dropSameCall = "same_call" // another span describes the same call
	dropOther    = "other"     // not an LLM call
	dropInvalid  = "invalid"   // no ids or times, or too large

	refusedBehind      = "behind"
	refusedUnavailable = "unavailable" // NATS is unreachable or refuses to store
	refusedMalformed   = "malformed"
)

type metrics struct {
	received, published, dropped, refused *prometheus.CounterVec
	twice                                 prometheus.Counter
	seconds                               *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		received: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_otlp_items_received_total", Help: "Spans and log records received, and payloads of metrics, by signal.",
		}, []string{"signal"}),
		published: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_otlp_exchanges_published_total", Help: "LLM calls whose request and response NATS has stored, by signal.",
		}, []string{"signal"}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_otlp_items_dropped_total",
			Help: "Spans, log records and payloads of metrics that do not become an exchange, by signal and reason.",
		}, []string{"signal", "reason"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_otlp_payloads_refused_total", Help: "Payloads that were not accepted, by signal and reason.",
		}, []string{"signal", "reason"}),
		twice: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_ingest_otlp_exchanges_twice_total", Help: "LLM calls stored twice, because the span between their spans came last.",
		}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_ingest_otlp_publish_seconds", Help: "Time to store the exchanges of a payload, by signal.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10},
		}, []string{"signal"}),
	}
}
