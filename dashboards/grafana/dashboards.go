// Package grafana contains the dashboards of llmtap for Grafana, and writes their files: go generate ./dashboards/grafana.
//
//	fleet      is it well? calls, failures and alerts of the last hour, from the Prometheus API of llmtap
//	incident   why do calls fail? causes, who is hit and examples, from ClickHouse
//	versions   whose change? from ClickHouse
//	providers  which provider fails or is slow, and what does it cost? from ClickHouse
//	collector  does llmtap itself keep up? from a Prometheus that scrapes its /metrics
//
// The queries of ClickHouse use macros of its data source, see
// https://grafana.com/docs/plugins/grafana-clickhouse-datasource/latest/query-editor/.
package grafana

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/queries"
)

//go:generate go run ./generate

// Files returns the files by name.
func Files() map[string][]byte {
	out := map[string][]byte{}
	for _, d := range []dashboard{fleet, incident, versions, providers, collector} {
		text, err := json.MarshalIndent(d.json(), "", " ")
		if err != nil {
			panic(err) // only numbers and texts
		}
		out[d.name+".json"] = append(text, '\n')
	}
	return out
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// Conditions of the variables. A stage or an environment may be unset, which the labels of all counts allow.
const (
	rows = `$__timeFilter(started_at)
    AND $__conditionalAll(service IN (${service:singlequote}), $service)
    AND $__conditionalAll(stage IN (${stage:singlequote}), $stage)
    AND $__conditionalAll(environment IN (${environment:singlequote}), $environment)
    AND {counted}`
	labels = `service=~"$service", stage=~"$stage", environment=~"$environment"`
)

func filters(s source) []filter {
	return []filter{{"service", "Service", s}, {"stage", "Stage", s}, {"environment", "Environment", s}}
}

var fleet = dashboard{
	name: "fleet", title: "llmtap: fleet", since: "1h", sources: []source{tallies}, filters: filters(tallies),
	description: "Calls and failures of the agent fleet, from the counts of the last hour.",
	panels: []panel{
		{
			title: "Calls per second", kind: "stat", source: tallies, query: `sum(rate(llmtap_calls_total{` + labels + `}[$__rate_interval]))`, unit: "reqps", width: 6, height: 5,
			description: "Calls to models that ended, without retries of SDKs and without calls that the agent cancelled.",
		},
		{
			title: "Failed calls", kind: "stat", source: tallies, unit: "percentunit", bad: 0.05, width: 6, height: 5,
			query:       `sum(increase(llmtap_failed_calls_total{` + labels + `}[10m])) / sum(increase(llmtap_calls_total{` + labels + `}[10m]))`,
			description: "Share of the calls of the last 10 minutes that failed.", empty: "no failures",
		},
		{
			title: "Stages that fail", kind: "stat", source: tallies, unit: "short", bad: 1, width: 6, height: 5,
			query:       `count(sum by (service, environment, stage) (increase(llmtap_failed_calls_total{` + labels + `}[10m])) > 5) or vector(0)`,
			description: "Stages with more than 5 failed calls in the last 10 minutes.",
		},
		{
			title: "Lost and dropped", kind: "stat", source: tallies, unit: "short", bad: 1, width: 6, height: 5,
			query:       `(sum(increase(llmtap_lost_events_total[1h])) or vector(0)) + (sum(increase(llmtap_dropped_exchanges_total[1h])) or vector(0))`,
			description: "Events that hooks numbered but that never arrived, and calls that hooks reported as dropped, in the last hour.",
		},
		{
			title: "Failed calls by cause", kind: "timeseries", source: tallies, unit: "short", stacked: true, legend: "{{cause}}", empty: "no failures",
			query:       `sum by (cause) (increase(llmtap_failed_calls_total{` + labels + `}[$__rate_interval]))`,
			description: "Why calls fail. The cause is what the provider rejected, or what went wrong.",
		},
		{
			title: "Failed calls by stage", kind: "timeseries", source: tallies, unit: "percentunit", legend: "{{service}}/{{stage}}", empty: "no failures",
			query:       `sum by (service, stage) (increase(llmtap_failed_calls_total{` + labels + `}[5m])) / sum by (service, stage) (increase(llmtap_calls_total{` + labels + `}[5m]))`,
			description: "Share of the calls of each stage in 5 minutes that failed.",
		},
		{
			title: "Calls per second by stage", kind: "timeseries", source: tallies, unit: "reqps", legend: "{{service}}/{{stage}}", stacked: true,
			query: `sum by (service, stage) (rate(llmtap_calls_total{` + labels + `}[$__rate_interval]))`, description: "Calls to models that ended.",
		},
		{
			title: "Root causes in the last 10 minutes", kind: "table", source: tallies, empty: "no failures", units: map[string]string{"Value": "short"},
			links:       map[string]string{"service": "/?service=${__value.raw:percentencode}"},
			query:       `topk(20, sum by (service, stage, cause, root_cause, service_version) (increase(llmtap_failed_calls_total{` + labels + `}[10m])) > 0.5)`,
			description: "Failed calls by what the agent did, and by version.",
		},
	},
}

var incident = dashboard{
	name: "incident", title: "llmtap: incident by cause", since: "6h", sources: []source{clickhouse}, filters: filters(clickhouse),
	description: "Why calls fail, since when, who is hit, and examples.",
	panels: []panel{
		{
			title: "Why calls fail", kind: "timeseries", source: clickhouse, unit: "short", stacked: true, width: 24, empty: "no failures",
			description: "Failed calls by what the agent did, or else by why the provider failed or refused them.",
			query: `SELECT $__timeInterval(started_at) AS time, {reason} AS reason, count() AS failed_calls
FROM exchanges_final
WHERE ` + rows + ` AND failed
GROUP BY time, reason
ORDER BY time`,
		},
		{
			title: "Causes, first versions and who is hit", kind: "table", source: clickhouse, width: 24, empty: "no failures",
			description: "Each cause of failed calls, with the first version that shows it in the time of the dashboard.",
			links:       map[string]string{"example": "/exchange/${__value.raw:percentencode}#broken"},
			query: `SELECT cause, root_cause, count() AS failed_calls, uniqIf(conversation_id, conversation_id != '') AS conversations, uniqIf(user, user != '') AS users,
    argMin(service_version, started_at) AS first_version, min(started_at) AS first_failure, max(started_at) AS last_failure, argMax(exchange_id, started_at) AS example
FROM exchanges_final
WHERE ` + rows + ` AND failed
GROUP BY cause, root_cause
ORDER BY failed_calls DESC
LIMIT 50`,
		},
		{
			title: "Conversations that are hit", kind: "table", source: clickhouse, empty: "none",
			description: "The newest conversations with failed calls, and whether a later call of theirs succeeded.",
			links:       map[string]string{"conversation": "/conversation/${__value.raw:percentencode}"},
			query: `SELECT conversation_id AS conversation, countIf(failed) AS failed_calls, topKIf(1)({said cause}, failed)[1] AS main_cause, maxIf(started_at, failed) AS last_failure,
    max(started_at) > last_failure AND NOT argMax(failed, started_at) AS recovered
FROM exchanges_final
WHERE ` + rows + ` AND conversation_id != ''
GROUP BY conversation
HAVING failed_calls > 0
ORDER BY last_failure DESC
LIMIT 100`,
		},
		{
			title: "What providers said", kind: "table", source: clickhouse, empty: "no error texts",
			description: "Error texts of failed calls, one row per wording.",
			links:       map[string]string{"example": "/exchange/${__value.raw:percentencode}#broken"},
			query: `SELECT count() AS failed_calls, any(provider) AS provider, any(status) AS status, any({said cause}) AS cause, substring(any(error_text), 1, 300) AS text, argMax(exchange_id, started_at) AS example
FROM exchanges_final
WHERE ` + rows + ` AND failed AND error_text != ''
GROUP BY error_cluster
ORDER BY failed_calls DESC
LIMIT 50`,
		},
		{
			title: "Stages", kind: "table", source: clickhouse, width: 24, units: map[string]string{"failed_share": "percentunit"},
			links:       map[string]string{"stage": "/?service=${__data.fields.service:percentencode}&stage=${__value.raw:percentencode}"},
			description: "Calls and failed calls of each stage.",
			query: `SELECT service, stage, environment, count() AS calls, countIf(failed) AS failed_calls, failed_calls / calls AS failed_share, topKIf(1)({said cause}, failed)[1] AS main_cause, maxOrNullIf(started_at, failed) AS last_failure
FROM exchanges_final
WHERE ` + rows + `
GROUP BY service, stage, environment
ORDER BY failed_calls DESC, calls DESC
LIMIT 100`,
		},
	},
}

var versions = dashboard{
	name: "versions", title: "llmtap: versions", since: "24h", sources: []source{clickhouse}, filters: filters(clickhouse),
	description: "Whose change made it worse: failures, latency and tokens by service version.",
	panels: []panel{
		{
			title: "Calls by version", kind: "timeseries", source: clickhouse, unit: "short", stacked: true, description: "The rollout of a version.",
			query: `SELECT $__timeInterval(started_at) AS time, concat(service, ' ', service_version) AS version, count() AS calls
FROM exchanges_final
WHERE ` + rows + `
GROUP BY time, version
ORDER BY time`,
		},
		{
			title: "Failed calls by version", kind: "timeseries", source: clickhouse, unit: "percentunit", description: "Share of the calls of each version that failed.",
			query: `SELECT $__timeInterval(started_at) AS time, concat(service, ' ', service_version) AS version, countIf(failed) / count() AS failed_share
FROM exchanges_final
WHERE ` + rows + `
GROUP BY time, version
ORDER BY time`,
		},
		{
			title: "Versions", kind: "table", source: clickhouse, width: 24, height: 10, units: map[string]string{"failed_share": "percentunit", "p95": "s"},
			links:       map[string]string{"service": "/versions?service=${__value.raw:percentencode}"},
			description: "Versions side by side. p95 is the latency of successful calls that 95% do not exceed.",
			query: `SELECT service, stage, service_version, count() AS calls, countIf(failed) AS failed_calls, failed_calls / calls AS failed_share, arrayStringConcat(topKIf(3)({reason}, failed), ', ') AS reasons,
    {latency 0.95} AS p95, {tokens_per_call} AS tokens_per_call, min(started_at) AS first_call, max(started_at) AS last_call
FROM exchanges_final
WHERE ` + rows + `
GROUP BY service, stage, service_version
ORDER BY service, stage, first_call DESC
LIMIT 200`,
		},
		{
			title: "Reasons that are new in a version", kind: "table", source: clickhouse, width: 24, empty: "none",
			description: "Causes and root causes that an earlier version of the same stage does not show in the time of the dashboard.",
			links:       map[string]string{"example": "/exchange/${__value.raw:percentencode}#broken"},
			query: `SELECT service, stage, argMin(why, started_at) AS reason, argMin(service_version, started_at) AS first_version, min(started_at) AS first_failure, count() AS failed_calls, argMax(exchange_id, started_at) AS example
FROM (SELECT service, stage, service_version, started_at, exchange_id, {reason} AS why FROM exchanges_final WHERE ` + rows + ` AND failed)
GROUP BY service, stage, replaceOne(why, 'probably ', '')
ORDER BY first_failure DESC
LIMIT 50`,
		},
	},
}

var providers = dashboard{
	name: "providers", title: "llmtap: providers and cost", since: "24h", sources: []source{clickhouse},
	filters:     append(filters(clickhouse), filter{"provider", "Provider", clickhouse}, filter{"model", "Model", clickhouse}),
	description: "Which provider and model fails, which is slow, and what they cost.",
	variables: []object{{
		"name": "prices", "label": "Prices: provider, model, USD per million tokens of input, cached input and output, and of input written to the cache, in all and for an hour", "type": "textbox", "query": price.Default().Bound(), "hide": 2, "skipUrlSync": true,
		"current": object{"text": price.Default().Bound(), "value": price.Default().Bound()}, "options": []any{},
		"description": "The price table of " + price.Date + ". Check it against your contracts.",
	}},
	panels: []panel{
		{
			title: "Failed calls by provider", kind: "timeseries", source: clickhouse, unit: "percentunit", description: "Share of the calls to each provider that failed.",
			query: `SELECT $__timeInterval(started_at) AS time, provider, countIf(failed) / count() AS failed_share
FROM exchanges_final
WHERE ` + called + `
GROUP BY time, provider
ORDER BY time`,
		},
		{
			title: "Latency, 95%", kind: "timeseries", source: clickhouse, unit: "s", description: "Time until the response ended, which 95% of the successful calls do not exceed.",
			query: `SELECT $__timeInterval(started_at) AS time, concat(provider, ' ', model) AS name, {latency 0.95} AS p95
FROM exchanges_final
WHERE ` + called + `
GROUP BY time, name
HAVING countIf(NOT failed) > 0
ORDER BY time`,
		},
		{
			title: "Providers and models", kind: "table", source: clickhouse, width: 24, units: map[string]string{"failed_share": "percentunit", "p50": "s", "p95": "s", "p99": "s", "first_byte": "s"},
			links:       map[string]string{"provider": "/providers?provider=${__value.raw:percentencode}"},
			description: "Latencies are those of successful calls; first_byte is the median time until the response begins.",
			query: `SELECT provider, model, count() AS calls, countIf(failed) AS failed_calls, failed_calls / calls AS failed_share, topKIf(1)({said cause}, failed)[1] AS main_cause,
    {latency 0.5} AS p50, {latency 0.95} AS p95, {latency 0.99} AS p99, {first_byte 0.5} AS first_byte
FROM exchanges_final
WHERE ` + called + `
GROUP BY provider, model
ORDER BY calls DESC
LIMIT 100`,
		},
		{
			title: "Tokens", kind: "timeseries", source: clickhouse, unit: "short", stacked: true, description: "Input and output tokens that responses reported.",
			query: `SELECT $__timeInterval(started_at) AS time, sum(input_tokens) AS input, sum(output_tokens) AS output
FROM exchanges_final
WHERE ` + called + `
GROUP BY time
ORDER BY time`,
		},
		{
			title: "Cost", kind: "table", source: clickhouse, units: map[string]string{"cost": "currencyUSD", "of_failed_calls": "currencyUSD"},
			description: "Cost by the price table of the dashboard's variable prices, which has public list prices. It is empty for a model without a price. Calls whose response reports no usage are not in it.",
			query: strings.ReplaceAll(queries.Expand(`WITH {price}, {cache tokens}
SELECT service, provider, model, sum(input_tokens) AS input, sum(output_tokens) AS output, if(known = 0, NULL, {dollars}) AS cost
FROM exchanges_final
WHERE `+called+`
GROUP BY service, provider, model
ORDER BY cost DESC NULLS LAST, input DESC
LIMIT 100`), "{prices:String}", "'${prices:raw}'"),
		},
	},
}

// called is rows with the filters of the provider and the model.
const called = rows + `
    AND $__conditionalAll(provider IN (${provider:singlequote}), $provider)
    AND $__conditionalAll(model IN (${model:singlequote}), $model)`

var collector = dashboard{
	name: "collector", title: "llmtap: collector", since: "6h", sources: []source{metrics},
	description: "Whether llmtap itself keeps up. The data source is a Prometheus that scrapes /metrics of each process.",
	panels: []panel{
		{
			title: "Lag", kind: "timeseries", source: metrics, unit: "s", legend: "{{instance}}", query: `max by (instance) (llmtap_ingest_lag_seconds)`,
			description: "Age of the newest event that was read when it was read.",
		},
		{
			title: "Events per second", kind: "timeseries", source: metrics, unit: "cps", legend: "{{instance}}", query: `sum by (instance) (rate(llmtap_ingest_events_received_total[$__rate_interval]))`,
			description: "Events that the role analyze reads from the stream.",
		},
		{
			title: "Lost and dropped", kind: "timeseries", source: metrics, unit: "short", legend: "{{__name__}}", stacked: true,
			query:       `sum by (__name__) ({__name__=~"llmtap_analyzer_events_lost_total|llmtap_analyzer_events_dropped_total|llmtap_analyzer_hook_exchanges_dropped_total|llmtap_sinks_rows_dead_lettered_total"})`,
			description: "Events that never arrived or were unreadable, calls that hooks dropped, and rows that a table refused. All should stay at zero.",
		},
		{
			title: "Rows per second", kind: "timeseries", source: metrics, unit: "cps", legend: "{{table}}", stacked: true, query: `sum by (table) (rate(llmtap_sinks_rows_written_total[$__rate_interval]))`,
			description: "Rows written to ClickHouse.",
		},
		{
			title: "Time to write a batch", kind: "timeseries", source: metrics, unit: "s", legend: "99%", query: `histogram_quantile(0.99, sum by (le) (rate(llmtap_sinks_write_duration_seconds_bucket[$__rate_interval])))`,
			description: "From the first attempt to the commit, with retries.",
		},
		{
			title: "Retries of writes", kind: "timeseries", source: metrics, unit: "short", legend: "{{instance}}", query: `sum by (instance) (increase(llmtap_sinks_write_retries_total[$__rate_interval]))`,
			description: "ClickHouse or NATS did not accept a batch at once.",
		},
		{
			title: "Notifications that wait", kind: "timeseries", source: metrics, unit: "s", legend: "{{receiver}}", query: `max by (receiver) (llmtap_alerts_notifications_oldest_waiting_seconds)`,
			description: "Age of the oldest notification that a receiver has not accepted yet.",
		},
		{
			title: "Evaluation of rules", kind: "timeseries", source: metrics, unit: "s", legend: "99%", query: `histogram_quantile(0.99, sum by (le) (rate(llmtap_alerts_evaluation_duration_seconds_bucket[$__rate_interval])))`,
			description: "Time of one evaluation of all alert rules; it happens every second.",
		},
		{
			title: "Memory of conversations", kind: "timeseries", source: metrics, unit: "bytes", legend: "{{instance}}", query: `sum by (instance) (llmtap_analyzer_conversations_bytes)`,
			description: "State of conversations that the analyzer holds.",
		},
		{
			title: "Leader of alerts", kind: "timeseries", source: metrics, unit: "short", legend: "{{instance}}", query: `sum by (instance) (llmtap_alerts_leader)`,
			description: "1 for the process that sends notifications. The sum should be 1.",
		},
	},
}
