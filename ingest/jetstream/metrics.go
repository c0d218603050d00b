package jetstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label reason, which are also the last token of a dead letter's subject where one is written.
const (
	reasonBadSubject    = "bad_subject"
	reasonBadHeader     = "bad_header"
	reasonLost          = "lost"           // the stream dropped it before it was read
	reasonPublishFailed = "publish_failed" // JetStream refused it
	reasonRow           = "row"            // a row that the store refuses
	reasonDeadLetter    = "dead_letter"    // a dead letter that could not be written
)

type metrics struct {
	in, out, outBytes prometheus.Counter
	dropped           *prometheus.CounterVec
	publish, commit   prometheus.Histogram
	lag, lagSeconds   *prometheus.GaugeVec // by partition
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	seconds := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	return &metrics{
		in:       f.NewCounter(prometheus.CounterOpts{Name: "llmtap_ingest_in_events_total", Help: "Events that JetStream acknowledged to this process."}),
		out:      f.NewCounter(prometheus.CounterOpts{Name: "llmtap_ingest_out_events_total", Help: "Events read from the stream, replayed and undecodable ones included."}),
		outBytes: f.NewCounter(prometheus.CounterOpts{Name: "llmtap_ingest_out_bytes_total", Help: "Payload bytes of the events read from the stream."}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_dropped_events_total", Help: "Events that went no further, by reason.",
		}, []string{"reason"}),
		publish:    f.NewHistogram(prometheus.HistogramOpts{Name: "llmtap_ingest_publish_seconds", Help: "Time from publishing an event to its acknowledgement.", Buckets: seconds}),
		commit:     f.NewHistogram(prometheus.HistogramOpts{Name: "llmtap_ingest_commit_seconds", Help: "Time to write a reader's checkpoint.", Buckets: seconds}),
		lag:        f.NewGaugeVec(prometheus.GaugeOpts{Name: "llmtap_ingest_lag_events", Help: "Events of a partition in the stream after the last one read."}, []string{"partition"}),
		lagSeconds: f.NewGaugeVec(prometheus.GaugeOpts{Name: "llmtap_ingest_lag_seconds", Help: "How long the last event read of a partition had been in the stream."}, []string{"partition"}),
	}
}
