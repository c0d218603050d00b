package httpevents

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/ingest/httpbody"
)

// Values of the label reason.
const (
	reasonMalformed = "malformed"
	reasonTooLarge  = "too_large" // for the NATS server or the stream
)

type metrics struct {
	requests         *prometheus.CounterVec
	received, stored prometheus.Counter
	dropped          *prometheus.CounterVec
	duration         prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, budget *httpbody.Budget) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_http_in_flight_bytes", Help: "Memory of payloads received over HTTP that NATS has not stored yet.",
	}, func() float64 { return float64(budget.Used()) })
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_http_requests_received_total", Help: "Requests to /v1/events by status of the response.",
		}, []string{"code"}),
		received: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_ingest_http_events_received_total", Help: "Events in payloads that were answered for good, stored or not.",
		}),
		stored: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_ingest_http_events_stored_total", Help: "Events received over HTTP and stored by JetStream.",
		}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_http_events_dropped_total", Help: "Events received over HTTP that can never be stored, by reason.",
		}, []string{"reason"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_ingest_http_request_duration_seconds", Help: "Time from the header of a request to its answer, after its events are stored.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
}
