package sinks

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label reason in metrics.dropped. They state why the batcher stopped before it had stored all rows.
const (
	reasonRejected = "rejected" // the sink or a commit returned a permanent error
	reasonShutdown = "shutdown" // not stored within BatcherConfig.DrainTimeout
)

type metrics struct {
	received, written, deadLettered, dropped *prometheus.CounterVec
	retries                                  prometheus.Counter
	duration                                 prometheus.Histogram
	queuedRows, queuedBytes                  prometheus.Gauge
}

// newMetrics registers the metrics of one Batcher. A process with several batchers wraps the registerer of each with
// distinct labels (prometheus.WrapRegistererWith).
func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		received:     counter("llmtap_sinks_rows_received_total", "Rows added to the batcher, by table.", "table"),
		written:      counter("llmtap_sinks_rows_written_total", "Rows stored by the sink, by table.", "table"),
		deadLettered: counter("llmtap_sinks_rows_dead_lettered_total", "Rows refused by a table that accepts other rows, by table.", "table"),
		dropped:      counter("llmtap_sinks_rows_dropped_total", "Rows not stored when the batcher stopped. They are read again from the stream.", "reason"),
		retries:      f.NewCounter(prometheus.CounterOpts{Name: "llmtap_sinks_write_retries_total", Help: "Retries of writes and commits."}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_sinks_write_duration_seconds", Help: "Time from the first attempt to write a batch to its commit, including backoff.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		queuedRows:  f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_sinks_queued_rows", Help: "Rows in the batch that is being filled."}),
		queuedBytes: f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_sinks_queued_bytes", Help: "Estimated size of the batch that is being filled."}),
	}
	for _, r := range []string{reasonRejected, reasonShutdown} {
		m.dropped.WithLabelValues(r)
	}
	for _, t := range Tables {
		m.deadLettered.WithLabelValues(t.Name())
	}
	return m
}

// countRows adds the number of rows in b to v by table, excluding the rows in dead.
func countRows(v *prometheus.CounterVec, b *Batch, dead []DeadRow) {
	for _, t := range Tables {
		n := t.Len(b)
		for i := range dead {
			if dead[i].Table == t.Name() {
				n--
			}
		}
		v.WithLabelValues(t.Name()).Add(float64(n))
	}
}
