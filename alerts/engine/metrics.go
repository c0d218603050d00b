package engine

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	talliesReceived prometheus.Counter
	talliesLate     prometheus.Counter
	talliesDropped  *prometheus.CounterVec // by reason: stale
	countsDropped   *prometheus.CounterVec // by reason: max_series, max_stages
	alertsDropped   *prometheus.CounterVec // by reason: max_alerts
	valuesReplaced  *prometheus.CounterVec // by label
	errors          *prometheus.CounterVec // by stage: evaluate, store
	evaluation      prometheus.Histogram
	lastEvaluation  prometheus.Gauge
	series          prometheus.Gauge
	firing          prometheus.Gauge
	reloaded        prometheus.Gauge       // 0 or 1
	notifications   *prometheus.CounterVec // by result: delivered, retried, failed
	notification    prometheus.Histogram
	folded          prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "llmtap_alerts_" + name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "llmtap_alerts_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_alerts_" + name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Name: "llmtap_alerts_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		talliesReceived: counter("tallies_received_total", "Tallies received, including late and dropped ones."),
		talliesLate:     counter("tallies_late_total", "Tallies counted in a later step because their own had been evaluated."),
		talliesDropped:  counters("tallies_dropped_total", "Tallies ignored because the engine had already received that second or a newer one.", "reason"),
		countsDropped:   counters("counts_dropped_total", "Counts dropped because alerts.max_series was reached, or not learned as usual because there are too many stages.", "reason"),
		alertsDropped:   counters("alerts_dropped_total", "Alerts dropped because too many groups, or too many alerts of one group, were firing.", "reason"),
		valuesReplaced:  counters("label_values_replaced_total", "Label values replaced by \"other\" because alerts.max_label_values was reached.", "label"),
		errors:          counters("errors_total", "Errors while evaluating a rule or accessing the stored alert state.", "stage"),
		evaluation:      histogram("evaluation_duration_seconds", "Duration of one evaluation of all rules.", prometheus.ExponentialBuckets(0.0001, 4, 8)),
		lastEvaluation:  gauge("last_evaluation_timestamp_seconds", "Stream time of the last evaluation."),
		series:          gauge("series", "Number of live series."),
		firing:          gauge("firing", "Number of firing alerts."),
		reloaded:        gauge("rules_last_reload_successful", "Whether the last load of the rule files succeeded."),
		notifications:   counters("notifications_total", "Notifications sent, by result: delivered, retried or failed.", "result"),
		folded:          counter("folded_groups_total", "Groups of alerts of which people were first notified in a summary of many groups, instead of a message of their own."),
		notification:    histogram("notification_duration_seconds", "Duration of one notification.", prometheus.ExponentialBuckets(0.01, 4, 7)),
	}
	m.reloaded.Set(1)
	return m
}

// failed counts and logs an error; the engine continues.
func (m *metrics) failed(log *slog.Logger, stage string, err error, args ...any) {
	m.errors.WithLabelValues(stage).Inc()
	log.Error("alert engine error", append([]any{"stage", stage, "error", err}, args...)...)
}
