package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/alertcheck"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
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
              exp_annotations:
                summary: '16 calls of the planner of shop failed'

Start each counter at 0, as llmtap does. Unlike promtool, an alertname without a
rule and a missing rule file are errors: they would test nothing.

Exit code: 1 if a test fails or a file is invalid.`,
	Examples: `  llmtap alerts test my-rules.test.yaml
  llmtap alerts test --format json tests/*.yaml | jq '.failures[].text'`,
	Run: runAlertsTest,
}

func runAlertsTest(ctx context.Context, c *command.Call) error {
	flags := config.AddFlags(c.Flags, c.Getenv, "alerts.evaluation_interval")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	cfg, err := flags.Load()
	if err != nil {
		return err
	}
	return alertcheck.Test(ctx, c.Stdout, cfg.Alerts, c.Args, *format)
}
