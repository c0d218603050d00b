// Package ruletest runs unit tests of alert rules: files in the format of promtool test rules, against the rules as an
// alerts.Engine evaluates them. Series are given, time is simulated, and what fires is compared with what should.
//
//	unit test file ─parse─> series ──> tsdb head ──> alerts.RuleSet, at each evaluation_interval ──> compare ──> Failure
//	               └──────> expectations ─────────────────────────────────────────────────────────────┘
//
// # Where it is stricter than promtool
//
// Rules are only those that llmtap evaluates: no recording rules, and no metric that it does not count. What promtool lets
// pass, though it tests nothing, is a mistake here: a rule_files pattern that matches no file, an alertname that no rule
// has, a series given twice.
//
// # Why not Prometheus's own runner
//
// It is package main, and what it is made of, packages rules and promqltest, drags Alertmanager's API models and a test
// library into the binary. Verdicts are compared with its own in the tests of this package.
package ruletest
