package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// Values of the label code beside 2xx to 5xx, and of upstream where there is none.
const (
	codeRefused     = "refused"     // the proxy's own answer, before any upstream
	codeUnreachable = "unreachable" // the upstream gave no answer
	codeCancelled   = "cancelled"   // the client went before there was one
	noUpstream      = "none"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, stats func() llmtap.Stats) *metrics {
	f := promauto.With(reg)
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "llmtap_ingest_proxy_published_exchanges_total", Help: "Exchanges whose request and response NATS has stored.",
	}, func() float64 { return float64(stats().Published) })
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "llmtap_ingest_proxy_dropped_exchanges_total", Help: "Exchanges given up for want of memory, or because NATS will never take them.",
	}, func() float64 { return float64(stats().Dropped) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_proxy_waiting_events", Help: "Events that wait to be stored by NATS.",
	}, func() float64 { return float64(stats().Pending) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_proxy_waiting_bytes", Help: "Memory in use for what is recorded and not yet stored by NATS.",
	}, func() float64 { return float64(stats().Bytes) })
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_proxy_requests_total",
			Help: "Requests by upstream and class of the answer's status, or what kept it from having one.",
		}, []string{"upstream", "code"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_ingest_proxy_request_seconds", Help: "Time from a request's header to the end of its answer, by upstream.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900},
		}, []string{"upstream"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_ingest_proxy_in_flight_requests", Help: "Requests whose answer has not ended."}),
	}
}
