package promapi

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
)

// FleetPath is the path under which the page of NewFleet is served.
const FleetPath = "/metrics/fleet"

// NewFleet returns the page of the current values of the tallies, for a Prometheus that scrapes them: the same series as those of
// Handler. They have no timestamps, since they may be a few seconds behind the clock. Counters begin anew when llmtap starts, as
// rate and increase expect. The protobuf format says when; the text formats do not, since a series more per counter would.
func NewFleet(engines func() []*engine.Engine, logger *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(fleet{engines})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxConcurrent,
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})
}

// fleet implements prometheus.Collector.
type fleet struct{ engines func() []*engine.Engine }

// Describe describes nothing: which series there are, is known when they are collected.
func (fleet) Describe(chan<- *prometheus.Desc) {}

func (f fleet) Collect(out chan<- prometheus.Metric) {
	for _, e := range f.engines() {
		for _, c := range e.Current() {
			names := slices.Sorted(maps.Keys(c.Labels))
			values := make([]string, len(names))
			for i, name := range names {
				values[i] = c.Labels[name]
			}
			desc := prometheus.NewDesc(c.Metric, rules.Help(c.Metric), names, nil)
			if c.Gauge {
				out <- metric(prometheus.NewConstMetric(desc, prometheus.GaugeValue, c.Value, values...))
			} else {
				out <- metric(prometheus.NewConstMetricWithCreatedTimestamp(desc, prometheus.CounterValue, c.Value, c.Since, values...))
			}
		}
	}
}

// metric returns m, or the error in its place, which the handler logs.
func metric(m prometheus.Metric, err error) prometheus.Metric {
	if err != nil {
		return prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
	return m
}
