package chdb

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

type metrics struct {
	restarts prometheus.Counter
	queries  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	dropped  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		restarts: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_restarts_total",
			Help: "Times the embedded ClickHouse died and was started again.",
		}),
		queries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_queries_total",
			Help: "Statements the embedded ClickHouse served, by kind and ClickHouse exception code (0 if none).",
		}, []string{"kind", "code"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "llmtap_sinks_chdb_query_seconds",
			Help:    "Time from a statement's request to the end of its response.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"kind"}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_sinks_chdb_reports_dropped_total",
			Help: "Statements missing in the other metrics because the child could not report them in time.",
		}),
	}
}

func (m *metrics) query(q httpd.Query) {
	m.queries.WithLabelValues(q.Kind, strconv.Itoa(q.Code)).Inc()
	m.seconds.WithLabelValues(q.Kind).Observe(float64(q.Nanoseconds) / 1e9)
}
