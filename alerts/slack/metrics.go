package slack

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	connected prometheus.Gauge       // 0 or 1
	presses   *prometheus.CounterVec // by action and result
}

// newLimitedFor registers the counter of rate limits.
func newLimitedFor(reg prometheus.Registerer) prometheus.Counter {
	return promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "llmtap_slack_rate_limited_seconds_total", Help: "Time for which Slack accepted no calls of a method, because of its rate limit.",
	})
}

// newMetrics registers the metrics of a Socket Mode connection. If reg is nil, they are not exported.
func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		connected: f.NewGauge(prometheus.GaugeOpts{
			Name: "llmtap_slack_socket_connected", Help: "1 while Slack delivers presses of buttons to this process, otherwise 0.",
		}),
		presses: f.NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_slack_presses_total",
			Help: "Presses of buttons, by result: done, ended (the incident), refused, failed (not stored, or not answered), or dropped (too many at once).",
		}, []string{"action", "result"}),
	}
}
