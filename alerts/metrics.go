package alerts

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	tallies       *prometheus.CounterVec // by result: added, stale, late
	dropped       *prometheus.CounterVec // by reason: max_series, max_alerts
	relabelled    *prometheus.CounterVec // by label
	evaluations   prometheus.Counter
	errors        *prometheus.CounterVec // by stage: evaluate, store
	seconds       prometheus.Histogram
	step          prometheus.Gauge
	series        prometheus.Gauge
	firing        prometheus.Gauge
	current       prometheus.Gauge       // 0 or 1
	notifications *prometheus.CounterVec // by result: delivered, retried, failed
	notifySeconds prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		tallies:     counter("llmtap_alerts_tallies_total", "Tallies received: added, late (counted in a later step) or stale (ignored, seen before).", "result"),
		dropped:     counter("llmtap_alerts_dropped_total", "Counts and alerts dropped because a bound was reached.", "reason"),
		relabelled:  counter("llmtap_alerts_relabelled_total", "Label values replaced by other because the label has too many.", "label"),
		evaluations: f.NewCounter(prometheus.CounterOpts{Name: "llmtap_alerts_evaluations_total", Help: "Steps evaluated, each over all rules."}),
		errors:      counter("llmtap_alerts_errors_total", "Errors while evaluating a rule or writing the alert state.", "stage"),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_alerts_evaluation_seconds",
			Help: "Time to evaluate all rules at one step.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
		step:          f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_alerts_last_step_timestamp_seconds", Help: "Stream time of the last evaluated step."}),
		series:        f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_alerts_series", Help: "Live series."}),
		firing:        f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_alerts_firing", Help: "Alerts that fire now."}),
		current:       f.NewGauge(prometheus.GaugeOpts{Name: "llmtap_alerts_rules_current", Help: "1 while the rules are those of the rule files, 0 after a change of the files that has mistakes."}),
		notifications: counter("llmtap_alerts_notifications_total", "Calls of notifiers: delivered, retried or failed for good.", "result"),
		notifySeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "llmtap_alerts_notification_seconds",
			Help: "Time of one call of a notifier.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 7),
		}),
	}
	m.current.Set(1)
	return m
}
