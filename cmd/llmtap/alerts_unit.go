package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/alerts/ruletest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var alertsTestCommand = &command.Command{
	Name:  "alerts test",
	Args:  "FILE...",
	Short: "Run unit tests of alert rules",
	Long: `A file in the format of promtool test rules names rule files, defines series and
lists the alerts that fire at given times. llmtap evaluates the rules as llmtap up
does, at each evaluation_interval. A failure is reported with the line of its
expectation and a diff: - is expected, + is actual.

  rule_files: [my-rules.yaml]
  evaluation_interval: 5s
  tests:
    - name: 16 failed calls
      interval: 5s
      input_series:
        - series: 'llmtap_failed_calls_total{service="shop",stage="planner"}'
          values: '0 16x120'
      alert_rule_test:
        - eval_time: 1m
          alertname: PlannerFails
          exp_alerts:
            - exp_labels: {service: shop, severity: warning}
              exp_annotations: {summary: '16 calls of the planner of shop failed'}

Start each counter at 0, as llmtap does. Unlike promtool, an alertname without a
rule and a missing rule file are errors: they would test nothing.

Exit code: 1 if a test fails or a file is invalid.`,
	Examples: `  llmtap alerts test my-rules.test.yaml
  llmtap alerts test --format json tests/*.yaml | jq '.failures[].text'`,
	Run: runAlertsTest,
}

func runAlertsTest(ctx context.Context, c *command.Call) error {
	flags := configFlag(c)
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	s, err := flags.Load()
	if err != nil {
		return err
	}
	r, err := ruletest.Run(ctx, s.Alerts.Rules(), c.Args)
	if err != nil {
		return err
	}
	if err := writeTested(c.Stdout, *format, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if r.Failed > 0 {
		return &command.ExitError{Code: command.ExitFailed, Err: fmt.Errorf("%d failed", r.Failed)}
	}
	return nil
}

func writeTested(w io.Writer, format string, r *ruletest.Report) error {
	if format == "json" {
		return command.WriteJSON(w, r)
	}
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintln(&b, f)
	}
	fmt.Fprintf(&b, "%s of %s, %d failed\n", terminal.Plural(r.Tests, "test"), terminal.Plural(r.Files, "file"), r.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}
