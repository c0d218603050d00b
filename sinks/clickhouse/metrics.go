package clickhouse

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	in, out *prometheus.CounterVec
	errors  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		in: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_in_rows_total", Help: "Rows to insert, by table; a repeated write counts again.",
		}, []string{"table"}),
		out: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_out_rows_total", Help: "Rows that ClickHouse acknowledged, by table.",
		}, []string{"table"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_clickhouse_errors_total", Help: "Failed inserts, by whose fault it is: server (it passes), setup (an operator must act), rows.",
		}, []string{"reason"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmtap_sinks_clickhouse_insert_seconds", Help: "Time of one insert, by table.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}, []string{"table"}),
	}
	for _, r := range []fault{faultServer, faultSetup, faultRows} {
		m.errors.WithLabelValues(string(r))
	}
	return m
}
