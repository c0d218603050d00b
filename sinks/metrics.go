package sinks

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of metrics.dropped: why a Batcher stopped with rows in hand. They are read again from the stream.
const (
	reasonRejected = "rejected" // the sink or a commit said a final error
	reasonShutdown = "shutdown" // not stored within BatcherConfig.DrainTimeout
)

type metrics struct {
	in, out *prometheus.CounterVec
	dropped *prometheus.CounterVec
	dead    *prometheus.CounterVec
	retries prometheus.Counter
	seconds prometheus.Histogram
	rows    prometheus.Gauge
	bytes   prometheus.Gauge
}

// newMetrics registers the metrics of one Batcher. A process with two of them gives each a registerer of its own
// labels (prometheus.WrapRegistererWith).
func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		in: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_in_rows_total", Help: "Rows handed to the batcher, by table.",
		}, []string{"table"}),
		out: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_out_rows_total", Help: "Rows stored by the sink, by table.",
		}, []string{"table"}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_dropped_rows_total", Help: "Rows left unstored when the batcher stopped; they are read again from the stream.",
		}, []string{"reason"}),
		dead: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_sinks_dead_rows_total", Help: "Rows that their table refused while it took others, by table; they are dead letters.",
		}, []string{"table"}),
		retries: f.NewCounter(prometheus.CounterOpts{
			Name: "llmtap_sinks_retries_total", Help: "Writes and commits that were tried again.",
		}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_sinks_write_seconds", Help: "Time from the first try of a batch to its commit, waits between tries included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		rows: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_sinks_queue_rows", Help: "Rows that wait in the filling batch.",
		}),
		bytes: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_sinks_queue_bytes", Help: "Estimated size of the rows that wait in the filling batch.",
		}),
	}
	for _, r := range []string{reasonRejected, reasonShutdown} {
		m.dropped.WithLabelValues(r)
	}
	for _, t := range tables {
		m.dead.WithLabelValues(t)
	}
	return m
}

// count adds the rows of b but for the dead ones to v by table.
func count(v *prometheus.CounterVec, b *Batch, dead []DeadRow) {
	n := make(map[string]int, len(tables))
	for i := range dead {
		n[dead[i].Table]--
	}
	for _, t := range tables {
		v.WithLabelValues(t).Add(float64(n[t] + b.length(t)))
	}
}
