// Package promapi serves the tallies to the tools that people have: as the read-only part of Prometheus's HTTP API, for Grafana,
// promtool, Argo Rollouts and Flagger, and as a page of current values that a Prometheus can scrape.
//
//	Grafana ── /api/v1/query_range ──> Handler ── PromQL engine ──> Engine.Queryable: a copy of the selected samples
//	Prometheus ── /metrics/fleet ────> Fleet ────────────────────> Engine.Current: the last value of each series
//
// # Why it is not Prometheus's own package
//
// github.com/prometheus/prometheus/web/api/v1 would add 443 packages to the 677 of llmtap: storage, scraping and service discovery
// for a dozen clouds. The evaluation, which is hard to get right, is Prometheus's; only the envelope is ours. Its source is
// https://prometheus.io/docs/prometheus/latest/querying/api/.
//
// # What differs
//
// Samples reach back alerts.retention, an hour by default, and exist once per evaluation interval of stream time, which is a few
// seconds behind the clock; those of histograms once a minute, so rate needs a range of two minutes or more. There are neither
// exemplars, targets nor recording rules. Groups of rules are not those of their files: each contains the rules with the same
// interval. The page to scrape has no histograms: the bounds of their buckets in seconds and dollars are none of a scrape's.
package promapi
