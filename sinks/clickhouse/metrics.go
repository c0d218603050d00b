package clickhouse

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	received, written, errors *prometheus.CounterVec
	duration                  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		received: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_rows_received_total", Help: "Rows to insert, by table. A repeated write counts again.",
		}, []string{"table"}),
		written: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_rows_written_total", Help: "Rows acknowledged by ClickHouse, by table.",
		}, []string{"table"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_inserts_failed_total", Help: "Failed inserts, by reason: server (temporary), setup (operator action required), rows.",
		}, []string{"reason"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_sinks_clickhouse_insert_duration_seconds", Help: "Duration of one insert, by table.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}, []string{"table"}),
	}
	for _, r := range []fault{faultServer, faultSetup, faultRows} {
		m.errors.WithLabelValues(string(r))
	}
	return m
}
