// Package rules holds the alert rules that llmtap ships: Prometheus rule files over the metrics of analyzer.Count. Each
// file is one subject, and each rule has a case in rules_test.go.
package rules

import "embed"

// FS holds the shipped rule files.
//
//go:embed *.yaml
var FS embed.FS
