package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// Gauges that rules can ask for beside the counters of the tallies.
const (
	// MetricExpected is 1 for each of Config.Services, label service; it is among the tallies' series.
	MetricExpected = "llmtap_expected_service"

	// The others say how llmtap itself is. The first four are of a partition of the stream, label partition.
	MetricTallyAge     = "llmtap_tally_age_seconds"      // of the newest tally received
	MetricBacklogAge   = "llmtap_backlog_age_seconds"    // of the oldest event not stored yet
	MetricBacklogRatio = "llmtap_backlog_ratio"          // events not stored yet, 0 to 1 of the stream's limit of age or of bytes, whichever is closer
	MetricUnread       = "llmtap_unread_events"          // events that left the stream before they were stored, including those of other partitions
	MetricStoreUp      = "llmtap_store_up"               // 1 if the store answers, else 0
	MetricObserved     = "llmtap_health_observations_ok" // 1 if NATS reported what the first four require, else 0
)

// healthMetrics are those of Observe.
var healthMetrics = []string{MetricTallyAge, MetricBacklogAge, MetricBacklogRatio, MetricUnread, MetricStoreUp, MetricObserved}

// A Gauge is the current value of one series.
type Gauge struct {
	Metric string
	Labels map[string]string
	Value  float64
}

// Observe evaluates a Health engine's rules at now over gauges, each of which is valid until the next call. It is called
// every Config.EvaluationInterval; more often changes nothing.
func (e *Engine) Observe(ctx context.Context, now time.Time, gauges []Gauge) error {
	interval := int64(e.cfg.EvaluationInterval.Seconds())
	t := tally{Tally: &analyzer.Tally{Second: now.Unix()/interval*interval - 1}, gauges: gauges}
	return e.add(ctx, t)
}

// expected returns the gauges of Config.Services.
func expected(cfg Config) []Gauge {
	var gauges []Gauge
	for _, s := range cfg.Services {
		gauges = append(gauges, Gauge{MetricExpected, map[string]string{"service": s}, 1})
	}
	return gauges
}

// split leaves the rules of llmtap's own health, or the others.
func split(rules []*rule, health bool) ([]*rule, error) {
	var out []*rule
	for _, r := range rules {
		own, err := r.ofHealth()
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.name, err)
		}
		if own == health {
			out = append(out, r)
		}
	}
	return out, nil
}

// ofHealth reports whether r is about llmtap itself. What asks for nothing, as a watchdog does, is too: it must not wait for
// a tally.
func (r *rule) ofHealth() (bool, error) {
	own, other := 0, 0
	for m := range r.selectors {
		if slices.Contains(healthMetrics, m) {
			own++
		} else {
			other++
		}
	}
	if own > 0 && other > 0 {
		return false, errors.New("it mixes llmtap's health, which is of now, with counts of the stream, which may be behind")
	}
	return other == 0, nil
}
