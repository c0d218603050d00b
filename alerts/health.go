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
	MetricTallyAge     = "llmtap_tally_age_seconds"      // of the newest tally that came
	MetricBacklogAge   = "llmtap_backlog_age_seconds"    // of the oldest event that is not stored
	MetricBacklogShare = "llmtap_backlog_percent"        // of what the stream may hold that is not stored, by time or by bytes
	MetricUnread       = "llmtap_unread_events"          // that left the stream before they were stored, those of other partitions too
	MetricStoreUp      = "llmtap_store_up"               // 1 when the store answers, else 0
	MetricObserved     = "llmtap_health_observations_ok" // 1 when NATS told what the first four need, else 0
)

// healthMetrics are those of Observe.
var healthMetrics = []string{MetricTallyAge, MetricBacklogAge, MetricBacklogShare, MetricUnread, MetricStoreUp, MetricObserved}

// isGauge reports whether a count of metric is its value, not an increment.
func isGauge(metric string) bool {
	return metric == MetricExpected || slices.Contains(healthMetrics, metric)
}

// Observe evaluates a Health engine's rules at now over gauges, each of which lasts until the next call. It is called
// every Config.EvaluationInterval; more often changes nothing.
func (e *Engine) Observe(ctx context.Context, now time.Time, gauges []analyzer.Count) error {
	interval := int64(e.cfg.EvaluationInterval.Seconds())
	return e.Add(ctx, &analyzer.Tally{Second: now.Unix()/interval*interval - 1, Counts: gauges})
}

// expected are the gauges of Config.Services.
func expected(cfg Config) *analyzer.Tally {
	t := new(analyzer.Tally)
	for _, s := range cfg.Services {
		t.Counts = append(t.Counts, analyzer.Count{Metric: MetricExpected, Labels: map[string]string{"service": s}, N: 1})
	}
	return t
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
