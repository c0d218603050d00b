package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer"
)

// Gauges that rules can query besides the counters of the tallies.
const (
	MetricExpected  = "llmtap_expected_service"   // 1 for each service in alerts.services, with the label service
	MetricCollected = "llmtap_collector_observes" // 1 if the collector reported on the last minute, with or without calls; 0 if it was down
	MetricQuiet     = "llmtap_usually_quiet"      // share of the days of the past week on which no service called a model for ten minutes, within an hour of this time of day; there is none before a day is known
	MetricAlerts    = "ALERTS"                    // 1 for each firing alert, with its labels, alertname and alertstate, as in Prometheus; only of alerts whose rules query it

	// MetricVersionEvidence is the evidence that a new version fails more often than the version baseline or, with the labels measure and
	// direction, is above what is usual of the stage more often, see package regression. 1 is none; a version that is not worse reaches x with a probability of at most 1/x.
	MetricVersionEvidence = "llmtap_version_evidence"

	// Gauges of the alarms about what is unusual of a stage, see package usual. They exist while an alarm lasts. The label measure is
	// duration, first_token, input_tokens, output_tokens, history, calls, cost, spend, how answers end, such as answer_limit, tool_errors, or cache;
	// direction is high or low.
	MetricUnusual      = "llmtap_unusual"               // now: the share of calls above what is usual, of calls their number a minute, of spend dollars a minute, of answers, errors of tools and the cache their share
	MetricUnusualSince = "llmtap_unusual_since_seconds" // Unix time at which it began, by estimate
	MetricUsual        = "llmtap_usual"                 // the value above which usually few calls are, in seconds, tokens, messages or dollars, or else the usual number, dollars or share; has the label basis and no direction

	// Counters of money, by the labels of calls. They count what was measured: accepted calls with usage.
	MetricCost     = "llmtap_cost_dollars_total"
	MetricUnpriced = "llmtap_unpriced_calls_total" // whose model has no known price

	// Gauges of each budget in alerts.budgets, with the label budget, and service and environment if it is for one.
	MetricBudget         = "llmtap_budget_dollars"          // a month
	MetricBudgetSpent    = "llmtap_budget_spent_dollars"    // this month
	MetricBudgetForecast = "llmtap_budget_forecast_dollars" // of all of this month; there is none before a day is known
	MetricBudgetUnpriced = "llmtap_budget_unpriced_calls"   // this month, which are not in the others
	MetricBudgetSince    = "llmtap_budget_since_seconds"    // Unix time since which the spend is known, unless that is since the month began

	// Gauges of rate limits, by what responses said in the last minutes. The label kind is requests, tokens, input_tokens or output_tokens.
	MetricLimitRemaining = "llmtap_rate_limit_remaining"            // the least in the last one or two minutes
	MetricLimit          = "llmtap_rate_limit_limit"                // there is none if responses do not say it
	MetricLimitExhausted = "llmtap_rate_limit_exhausted_in_seconds" // until nothing remains at this pace; only of limits that fall from minute to minute

	// Native histograms of the calls of a stage that were answered, with the labels service, environment and stage, and a sample a
	// minute: rate and increase need a range of at least two minutes.
	MetricDuration     = "llmtap_call_duration_seconds"
	MetricFirstToken   = "llmtap_call_first_token_seconds" // of streams
	MetricInputTokens  = "llmtap_call_input_tokens"
	MetricOutputTokens = "llmtap_call_output_tokens"
	MetricCallCost     = "llmtap_call_cost_dollars" // of calls whose price and usage are known

	// The other gauges describe llmtap's own health. The first four exist once per partition of the stream, with the
	// label partition.
	MetricTallyAge     = "llmtap_tally_age_seconds"      // age of the newest tally received
	MetricBacklogAge   = "llmtap_backlog_age_seconds"    // age of the oldest event not stored yet
	MetricBacklogRatio = "llmtap_backlog_ratio"          // share (0 to 1) of the stream's limit of age or bytes that events not stored yet use; the higher of the two
	MetricUnread       = "llmtap_unread_events"          // events that left the stream before they were stored, including events of other partitions
	MetricStoreUp      = "llmtap_store_up"               // 1 if the store answers, otherwise 0
	MetricDiskFree     = "llmtap_disk_free_reserves"     // free space of the disk of the embedded servers, divided by disk.reserve; below 1, events are refused
	MetricObserved     = "llmtap_health_observations_ok" // 1 if NATS reported the data for the first four, otherwise 0
)

var healthMetrics = []string{MetricTallyAge, MetricBacklogAge, MetricBacklogRatio, MetricUnread, MetricStoreUp, MetricDiskFree, MetricObserved}

var knownMetrics = slices.Concat(analyzer.Metrics(), []string{
	MetricExpected, MetricCollected, MetricQuiet, MetricAlerts, MetricVersionEvidence, MetricUnusual, MetricUnusualSince, MetricUsual,
	MetricLimitRemaining, MetricLimit, MetricLimitExhausted,
}, moneyMetrics, histograms, healthMetrics)

var moneyMetrics = []string{MetricCost, MetricUnpriced, MetricBudget, MetricBudgetSpent, MetricBudgetForecast, MetricBudgetUnpriced, MetricBudgetSince}

var histograms = []string{MetricDuration, MetricFirstToken, MetricInputTokens, MetricOutputTokens, MetricCallCost}

// Labels of the series from tallies. Any other label of an alert does not filter its evidence.
var (
	callLabels    = []string{"service", "stage", "environment", "service_version", "agent", "provider", "model"}
	failedLabels  = slices.Concat(callLabels, []string{"status", "cause", "root_cause"})
	oddLabels     = slices.Concat(callLabels, []string{"ended"})
	replyLabels   = slices.Concat(callLabels, []string{"tool"})
	cacheLabels   = slices.Concat(callLabels, []string{"reason"})
	errorLabels   = slices.Concat(replyLabels, []string{"confidence"})
	findingLabels = slices.Concat(callLabels, []string{"rule", "severity", "cause", "root_cause"})
	limitLabels   = []string{"service", "environment", "provider", "model", "kind"}
	processLabels = []string{"service", "environment"}

	uncapturedLabels = slices.Concat(processLabels, []string{"transport"})
	droppedLabels    = slices.Concat(processLabels, []string{"reason"})
)

// labelsOf returns the labels that series of metric can have.
func labelsOf(metric string) []string {
	switch metric {
	case analyzer.MetricFailed, analyzer.MetricNew:
		return failedLabels
	case analyzer.MetricFindings:
		return findingLabels
	case analyzer.MetricOdd:
		return oddLabels
	case analyzer.MetricToolReplies, analyzer.MetricRepeated:
		return replyLabels
	case analyzer.MetricToolErrors:
		return errorLabels
	case analyzer.MetricCacheMissed, analyzer.MetricCacheLoss, analyzer.MetricCacheBroken:
		return cacheLabels
	case analyzer.MetricLost, analyzer.MetricDropped, analyzer.MetricHeartbeats, analyzer.MetricVanished:
		return processLabels
	case analyzer.MetricUncaptured:
		return uncapturedLabels
	case analyzer.MetricTextsDropped:
		return droppedLabels
	case MetricVersionEvidence:
		return []string{"service", "stage", "environment", "service_version", "baseline", "measure", "direction"}
	case MetricAlerts:
		return slices.Concat(findingLabels, []string{"alertname", "alertstate", "component", "partition", "status", "baseline", "transport", "kind"})
	case MetricUnusual, MetricUnusualSince:
		return []string{"service", "stage", "environment", "measure", "direction"}
	case MetricUsual:
		return []string{"service", "stage", "environment", "measure", "basis"}
	case MetricLimitRemaining, MetricLimit, MetricLimitExhausted:
		return limitLabels
	case MetricBudget, MetricBudgetSpent, MetricBudgetForecast, MetricBudgetUnpriced, MetricBudgetSince:
		return []string{"budget", "service", "environment"}
	case MetricDuration, MetricFirstToken, MetricInputTokens, MetricOutputTokens, MetricCallCost:
		return []string{"service", "stage", "environment"}
	case MetricExpected:
		return []string{"service"}
	case MetricTallyAge, MetricBacklogAge, MetricBacklogRatio, MetricUnread:
		return []string{"partition"}
	case MetricStoreUp, MetricDiskFree, MetricObserved, MetricCollected, MetricQuiet:
		return nil
	}
	return callLabels
}

// helps are the help texts of metrics, as the Prometheus API and scrapes show them.
var helps = map[string]string{
	analyzer.MetricCalls:         "Calls to models that ended, whether they failed or not.",
	analyzer.MetricFailed:        "Calls to models that failed, by status, cause and root cause.",
	analyzer.MetricRetries:       "Attempts of SDKs after the first one. Other metrics do not count them.",
	analyzer.MetricCancelled:     "Calls that the agent cancelled. Other metrics do not count them.",
	analyzer.MetricFindings:      "Violations of the message protocol, and signals about calls.",
	analyzer.MetricNew:           "Failed calls whose cause and root cause are new for the stage.",
	analyzer.MetricOdd:           "Answers of calls that did not fail, but did not end as they should: cut off at a token limit, empty, refused or filtered.",
	analyzer.MetricToolReplies:   "Replies of tools to calls, each counted once, by tool.",
	analyzer.MetricToolErrors:    "Replies of tools that report an error, by tool and by how certain that is.",
	analyzer.MetricRepeated:      "Calls of tools that an agent made for the third time in a row or more, with the same arguments and the same reply, by tool.",
	analyzer.MetricCacheReusable: "Input tokens that the provider could have read from its prompt cache, of calls whose answers say what was read.",
	analyzer.MetricCacheMissed:   "Of the tokens that the provider could have read from its prompt cache, those that it did not read, by reason.",
	analyzer.MetricCacheLoss:     "Millionths of a dollar that the missed tokens cost more than from the cache, by reason. Only of models with a known price.",
	analyzer.MetricCacheBroken:   "Calls that missed the prompt cache for a reason that the agent could avoid, by reason.",
	analyzer.MetricTextsDropped:  "Calls whose texts are not stored, by reason: sampled or quota.",
	analyzer.MetricLost:          "Events that hooks numbered but that never arrived.",
	analyzer.MetricDropped:       "Exchanges that hooks reported as dropped.",
	analyzer.MetricHeartbeats:    "Reports of hooks, once a minute with or without calls, that their process is alive, or that it ends.",
	analyzer.MetricVanished:      "Processes whose hooks stopped reporting for 3 minutes without reporting their end.",
	analyzer.MetricUncaptured:    "Calls that are not recorded, by transport: grpc, websocket, http3, batch or other.",
	MetricExpected:               "1 for each service that is expected to call models at all times.",
	MetricCollected:              "1 if the collector reported on the last minute, 0 if it was down.",
	MetricQuiet:                  "Share of the days of the past week on which no service called a model for ten minutes, within an hour of this time of day.",
	MetricAlerts:                 "1 for each firing alert, with its labels. Only of alerts whose rules query it.",
	MetricVersionEvidence:        "Evidence that a new version fails more often than the version before (baseline) or, with a measure, has more calls above what is usual; 1000 is proof.",
	MetricUnusual:                "What is unusual now, while an alarm lasts: the share of calls above what is usual, the number of calls or the dollars a minute, or the share of answers that end like this.",
	MetricUnusualSince:           "Estimated Unix time at which that began.",
	MetricLimitRemaining:         "What remains of a rate limit, by the headers of responses: the minimum of the last one or two minutes.",
	MetricLimit:                  "The rate limit itself, if responses report it.",
	MetricLimitExhausted:         "Seconds until the rate limit is used up at the pace of the last minutes. Only of limits that fall from minute to minute.",
	MetricUsual:                  "What is usual instead: the seconds, tokens, messages or dollars that about 5% of calls exceed, the number of calls or the dollars a minute, or the share.",
	MetricCost:                   "Dollars that calls cost, by the price table of the configuration.",
	MetricUnpriced:               "Calls whose cost is unknown, because the model is not in the price table.",
	MetricBudget:                 "Dollars of the budget of a month.",
	MetricBudgetSpent:            "Dollars of the budget spent this month.",
	MetricBudgetForecast:         "Dollars that this month will cost, if each remaining hour costs as much as the same hour a week before.",
	MetricBudgetUnpriced:         "Calls of this month whose cost is unknown.",
	MetricBudgetSince:            "Unix time since which the spend of this month is known. Absent if all of it is known.",
	MetricDuration:               "Durations of answered calls: a native histogram with a sample a minute.",
	MetricFirstToken:             "Time until the first token of answered streams: a native histogram with a sample a minute.",
	MetricInputTokens:            "Input tokens of answered calls: a native histogram with a sample a minute.",
	MetricOutputTokens:           "Output tokens of answered calls: a native histogram with a sample a minute.",
	MetricCallCost:               "Cost of answered calls whose price and usage are known: a native histogram with a sample a minute.",
	MetricTallyAge:               "Age of the newest counts received.",
	MetricBacklogAge:             "Age of the oldest event that is not stored yet.",
	MetricBacklogRatio:           "Share of the stream's limit of age or bytes that events not stored yet use, the higher of the two.",
	MetricUnread:                 "Events that left the stream before they were stored.",
	MetricStoreUp:                "1 if ClickHouse answers, otherwise 0.",
	MetricDiskFree:               "Free space of the disk of the embedded servers, in multiples of disk.reserve. Below 1, new events are refused.",
	MetricObserved:               "1 if NATS reported the data for the metrics of the stream, otherwise 0.",
}

// Help returns the help text of a metric, or "".
func Help(metric string) string { return helps[metric] }

// KnownMetrics returns the names of all metrics that rules can query.
func KnownMetrics() []string { return slices.Clone(knownMetrics) }
