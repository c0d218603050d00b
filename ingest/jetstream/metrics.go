package jetstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label reason. The reason of a dead letter is also the last token of its subject.
const (
	reasonBadSubject    = "bad_subject"
	reasonBadHeader     = "bad_header"
	reasonLost          = "lost"           // a message, of one or more events, that the stream dropped before it was read
	reasonPublishFailed = "publish_failed" // an event that JetStream rejected
	reasonRow           = "row"            // a row that the store rejects
	reasonDeadLetter    = "dead_letter"    // a dead letter that could not be written
)

type metrics struct {
	published, received, receivedBytes prometheus.Counter
	dropped                            *prometheus.CounterVec
	publishSeconds, commitSeconds      prometheus.Histogram
	lagEvents, lagSeconds              *prometheus.GaugeVec // by partition
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "llmtap_ingest_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
		return f.NewHistogram(prometheus.HistogramOpts{Name: "llmtap_ingest_" + name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: "llmtap_ingest_" + name, Help: help}, []string{"partition"})
	}
	return &metrics{
		published:     counter("events_published_total", "Events published by this process and acknowledged by JetStream."),
		received:      counter("events_received_total", "Events read from the stream, including replayed and undecodable ones."),
		receivedBytes: counter("received_bytes_total", "Payload bytes of the events read from the stream."),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_events_dropped_total", Help: "Events dropped without further processing, by reason.",
		}, []string{"reason"}),
		publishSeconds: histogram("publish_duration_seconds", "Time from publishing a message to its acknowledgement."),
		commitSeconds:  histogram("commit_duration_seconds", "Time to write a reader's checkpoint."),
		lagEvents:      gauge("lag_events", "Messages in the stream after the last one read, by partition; a frame of many events is one."),
		lagSeconds:     gauge("lag_seconds", "Age of the last event in the stream when it was read, by partition."),
	}
}
