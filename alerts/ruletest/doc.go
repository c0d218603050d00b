// Package ruletest runs unit tests of alert rules. Test files have the format of promtool test rules. Rules are
// evaluated as in an engine.Engine, over given series and simulated time.
//
//	unit test file ─┬─ series ────────> tsdb.DB ─> rules, at each evaluation_interval ─> compare ─> Failure
//	                └─ expected alerts and samples ────────────────────────────────────────┘
//
// # Where it is stricter than promtool
//
// Only rules that llmtap can evaluate are accepted: no recording rules and no unknown metrics. Three errors that
// promtool ignores, although such tests test nothing, are failures here: a rule_files pattern that matches no file, an
// alertname that no rule has, a duplicate series.
//
// # Why not Prometheus's own runner
//
// The runner (v0.316.0) is in a package main, and the packages rules and promqltest that it imports would add Alertmanager's API
// models and a test library to the binary. The tests of package rules compare the results of both runners.
package ruletest
