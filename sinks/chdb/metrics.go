package chdb

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

type metrics struct {
	restarts, dropped prometheus.Counter
	queries           *prometheus.CounterVec
	duration          *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		restarts: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_restarts_total", Help: "Restarts of the embedded ClickHouse after it exited.",
		}),
		queries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_queries_total", Help: "Statements served by the embedded ClickHouse, by kind and exception code of ClickHouse (0 if none).",
		}, []string{"kind", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_sinks_chdb_query_duration_seconds", Help: "Time from receiving a statement to the end of its response.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"kind"}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_reports_dropped_total", Help: "Statements missing from the other metrics because the queue of reports was full.",
		}),
	}
}

func (m *metrics) query(q httpd.Query) {
	m.queries.WithLabelValues(q.Kind, strconv.Itoa(q.Code)).Inc()
	m.duration.WithLabelValues(q.Kind).Observe(float64(q.Nanoseconds) / 1e9)
}
