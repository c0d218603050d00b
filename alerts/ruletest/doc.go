// Package ruletest runs unit tests of alert rules: files in the format of promtool test rules, against the rules as an
// alerts.Engine evaluates them, over given series and simulated time.
//
//	unit test file ─┬─ series ────────> tsdb.DB ─> rules, at each evaluation_interval ─> compare ─> Failure
//	                └─ expected alerts and samples ────────────────────────────────────────┘
//
// # Where it is stricter than promtool
//
// Rules are limited to those that llmtap evaluates: no recording rules and no unknown metrics. Three errors that promtool
// ignores although they test nothing are failures here: a rule_files pattern that matches no file, an alertname that no
// rule has, a duplicate series.
//
// # Why not Prometheus's own runner
//
// It is package main, and its packages rules and promqltest would add Alertmanager's API models and a test library to the
// binary. The tests of package rules compare the verdicts of both.
package ruletest
