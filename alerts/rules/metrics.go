package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer"
)

// Gauges that rules can query besides the counters of the tallies.
const (
	MetricExpected  = "llmtap_expected_service"   // 1 for each service in alerts.services, with the label service
	MetricCollected = "llmtap_collector_observes" // 1 if the collector reported on the last minute, with or without calls; 0 if it was down

	// The other gauges describe llmtap's own health. The first four exist once per partition of the stream, with the
	// label partition.
	MetricTallyAge     = "llmtap_tally_age_seconds"      // age of the newest tally received
	MetricBacklogAge   = "llmtap_backlog_age_seconds"    // age of the oldest event not stored yet
	MetricBacklogRatio = "llmtap_backlog_ratio"          // share (0 to 1) of the stream's limit of age or bytes that events not stored yet use; the higher of the two
	MetricUnread       = "llmtap_unread_events"          // events that left the stream before they were stored, including events of other partitions
	MetricStoreUp      = "llmtap_store_up"               // 1 if the store answers, otherwise 0
	MetricObserved     = "llmtap_health_observations_ok" // 1 if NATS reported the data for the first four, otherwise 0
)

var healthMetrics = []string{MetricTallyAge, MetricBacklogAge, MetricBacklogRatio, MetricUnread, MetricStoreUp, MetricObserved}

var knownMetrics = slices.Concat(analyzer.Metrics(), []string{MetricExpected, MetricCollected}, healthMetrics)

// Labels of the series from tallies. Any other label of an alert does not filter its evidence.
var (
	callLabels    = []string{"service", "stage", "environment", "service_version", "agent", "provider", "model"}
	failedLabels  = slices.Concat(callLabels, []string{"status", "cause", "root_cause"})
	findingLabels = slices.Concat(callLabels, []string{"rule", "severity", "cause", "root_cause"})
	processLabels = []string{"service", "environment"}
)

// labelsOf returns the labels that series of metric can have.
func labelsOf(metric string) []string {
	switch metric {
	case analyzer.MetricFailed, analyzer.MetricNew:
		return failedLabels
	case analyzer.MetricFindings:
		return findingLabels
	case analyzer.MetricLost, analyzer.MetricDropped, analyzer.MetricUncaptured:
		return processLabels
	case MetricExpected:
		return []string{"service"}
	case MetricTallyAge, MetricBacklogAge, MetricBacklogRatio, MetricUnread:
		return []string{"partition"}
	case MetricStoreUp, MetricObserved, MetricCollected:
		return nil
	}
	return callLabels
}
