package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// Values of the label code other than 2xx to 5xx, and the value of the label upstream for requests without an
// upstream.
const (
	codeRefused     = "refused"     // the proxy refused the request
	codeUnreachable = "unreachable" // no response from the upstream
	codeCancelled   = "cancelled"   // the client disconnected before the response
	noUpstream      = "none"
)

type metrics struct {
	received *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, stats func() llmtap.Stats) *metrics {
	f := promauto.With(reg)
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "llmtap_ingest_proxy_exchanges_published_total", Help: "Exchanges whose request and response NATS has stored.",
	}, func() float64 { return float64(stats().Published) })
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "llmtap_ingest_proxy_exchanges_dropped_total", Help: "Exchanges dropped because the queue was full or NATS rejected them.",
	}, func() float64 { return float64(stats().Dropped) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_proxy_queue_events", Help: "Events that NATS has not stored yet.",
	}, func() float64 { return float64(stats().Pending) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_proxy_queue_bytes", Help: "Memory of events that NATS has not stored yet and of bodies being read.",
	}, func() float64 { return float64(stats().Bytes) })
	return &metrics{
		received: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_proxy_requests_received_total",
			Help: "Requests by upstream and by class of the response status, or the reason why there was no response.",
		}, []string{"upstream", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_ingest_proxy_request_duration_seconds", Help: "Time from the header of a request to the end of its response, by upstream.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900},
		}, []string{"upstream"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_ingest_proxy_requests_in_flight", Help: "Requests whose response has not ended."}),
	}
}
