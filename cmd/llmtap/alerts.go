package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/alertcheck"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/testnotify"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var alertsCommand = &command.Command{
	Name:  "alerts",
	Short: "Check, test and replay alert rules, silence alerts, and test receivers",
	Long: `Alert rules are Prometheus rule files. Without files the commands use the rule
files of the configuration, else the shipped rules.`,
	Commands: []*command.Command{alertsCheckCommand, alertsTestCommand, alertsBacktestCommand, alertsSilenceCommand, alertsNotifyCommand},
}

var alertsCheckCommand = &command.Command{
	Name:  "alerts check",
	Args:  "[FILE]...",
	Short: "Check alert rules for errors, with their lines",
	Long: `It reports what Prometheus rejects, metrics and labels that llmtap does not have,
and templates that fail or use a label that the result of the expression lacks.

Exit code: 1 if there are errors, 3 if a file has no alert rules.`,
	Examples: "  llmtap alerts check my-rules.yaml",
	Run:      runAlertsCheck,
}

func runAlertsCheck(ctx context.Context, c *command.Call) error {
	cfg, err := c.ParseConfig("alerts.rule_files")
	if err != nil {
		return err
	}
	if len(c.Args) > 0 {
		cfg.Alerts.RuleFiles = c.Args
	}
	return alertcheck.Check(ctx, c.Stdout, cfg.Alerts)
}

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
	format := c.Format(command.Text, command.JSON)
	cfg, err := c.ParseConfig("alerts.evaluation_interval")
	if err != nil {
		return err
	}
	return alertcheck.Test(ctx, c.Stdout, cfg.Alerts, c.Args, *format)
}

var alertsBacktestCommand = &command.Command{
	Name:  "alerts backtest",
	Args:  "[FILE]...",
	Short: "Replay alert rules over stored data",
	Long: `It evaluates the rules over the calls and findings stored in ClickHouse, with the
engine that evaluates them live, and reports when each rule would have fired, for
how long, and on what evidence. It notifies nobody. Without files it uses the rule
files of the configuration, else the shipped rules.

Not replayed: rules on the health of llmtap, lost events, rate limits, budgets
and repeated calls of tools, which are not stored or not read. A cause counts as
new if no stored call failed for it before. What is usual is learned from the four
weeks before.

Exit code: 0 whether a rule fired or not, 3 if there are no rules or no calls.

` + query.Times,
	Examples: `  llmtap alerts backtest
  llmtap alerts backtest --since 24h my-rules.yaml
  llmtap alerts backtest --since 2026-11-20 --until 2026-11-21T09:30:00Z
  llmtap alerts backtest --format json my-rules.yaml | jq '.alerts[].peak'`,
	Run: runAlertsBacktest,
}

func runAlertsBacktest(ctx context.Context, c *command.Call) error {
	servers := connect.Flags(c)
	since := c.Parameters.String("since", "7d", "start `time`")
	until := c.Parameters.String("until", "", "end `time`; empty: now")
	format, style := c.Format(command.Text, command.JSON), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	now := style.In(time.Now())
	from, err := queries.ParseTime(*since, now)
	to := now.UTC()
	if err == nil && *until != "" {
		to, err = queries.ParseTime(*until, now)
	}
	if err == nil && !from.Before(to) {
		err = errors.New("--since is not before --until")
	}
	if err != nil {
		return command.BadInput(err)
	}
	effective, err := servers.Config()
	if err != nil {
		return err
	}
	cfg := effective.Alerts
	if len(c.Args) > 0 {
		cfg.RuleFiles = c.Args
	}
	r, err := backtest.New(cfg, from, to, style)
	switch {
	case err != nil:
		return command.BadInput(err)
	case len(r.NeverFired)+len(r.NotTested) == 0:
		return &command.ExitError{Code: command.ExitNothing, Err: errors.New("no alert rules in " + strings.Join(cfg.RuleFiles, ", "))}
	}
	err = servers.WithStore(ctx, func(q rows.Querier) error { return r.Run(ctx, cfg, effective.Prices, q, c.Stderr) })
	if err != nil {
		return err
	}
	if err := r.Write(c.Stdout, *format); err != nil {
		return err
	}
	if r.Calls == 0 {
		return &command.ExitError{Code: command.ExitNothing}
	}
	return nil
}

var alertsNotifyCommand = &command.Command{
	Name:  "alerts test-notify",
	Short: "Send a test alert to every configured receiver",
	Long: `It reports each answer. The alert is marked as a test: Slack gets one message that
turns from blue to green, the webhook gets two posts, Teams two posts, e-mail
two mails, PagerDuty an alert of severity info that is resolved at once, and the
heartbeat URL one request. Alertmanager gets an alert that ends after four minutes: it
drops an alert that ends before its group_wait.

Exit code: 1 if a receiver was not reached.`,
	Examples: `  llmtap alerts test-notify --config llmtap.yaml
  llmtap alerts test-notify --slack-token-file token --slack-channel '#oncall'
  LLMTAP_ALERTMANAGER_URLS=http://alertmanager:9093 llmtap alerts test-notify`,
	Run: runAlertsNotify,
}

func runAlertsNotify(ctx context.Context, c *command.Call) error {
	cfg, err := c.ParseConfig()
	if err != nil {
		return err
	}
	return testnotify.Run(ctx, c.Stdout, &cfg.Config)
}
