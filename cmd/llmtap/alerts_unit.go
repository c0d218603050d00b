package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/alerts/ruletest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

const alertsTestHelp = `Run unit tests of alert rules: files in the format of promtool test rules, which name the rule files, give series, and say
what fires when. Rules are evaluated as llmtap up evaluates them, at each evaluation_interval. What fails comes with the
line of its expectation and a diff: - is expected only, + is what there is.

  llmtap alerts test my-rules.test.yaml
  llmtap alerts test --format json tests/*.yaml | jq '.failures[].text'

  rule_files: [my-rules.yaml]
  evaluation_interval: 5s
  tests:
    - name: 16 failed calls
      interval: 5s
      input_series:
        - {series: 'llmtap_failed_calls_total{service="shop",stage="planner"}', values: '0 16x120'}
      alert_rule_test:
        - eval_time: 1m
          alertname: PlannerFails
          exp_alerts:
            - exp_labels: {service: shop, severity: warning}
              exp_annotations: {summary: '16 calls of the planner of shop failed'}

Begin each counter with 0, as llmtap does. What promtool lets pass though it tests nothing is a mistake here: an alertname
that no rule has, a rule file that is absent.

Exit code 1: a test fails, or there are mistakes in a file.`

func runAlertsTest(ctx context.Context, c *cli) error {
	fs := c.flags("alerts test", alertsTestHelp)
	file := fs.String("config", "", "configuration `file`, with the interval of evaluations; "+config.SystemFile+" when there is one")
	format := fs.String("format", "text", "output as `text|json`")
	if err := c.parse(fs); err != nil {
		return err
	}
	if *format != "text" && *format != "json" {
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, json", *format)}
	}
	if fs.NArg() == 0 {
		return &exitError{exitBadInput, errors.New("name the files with the tests; see llmtap alerts test --help")}
	}
	s, err := config.Load(*file, c.getenv)
	if err != nil {
		return err
	}
	r, err := ruletest.Run(ctx, s.Alerts, fs.Args())
	if err != nil {
		return err
	}
	if err := writeTested(c.stdout, *format, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if r.Failed > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d failed", r.Failed)}
	}
	return nil
}

func writeTested(w io.Writer, format string, r *ruletest.Report) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintln(&b, f)
	}
	fmt.Fprintf(&b, "%s of %s, %d failed\n", plural(r.Tests, "test"), plural(r.Files, "file"), r.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}
