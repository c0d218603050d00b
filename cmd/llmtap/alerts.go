package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/alertcheck"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

var alertsCommand = &command.Command{
	Name:  "alerts",
	Short: "Check, test and replay alert rules, and send test notifications",
	Long: `Alert rules are Prometheus rule files. Without files the commands use the rule
files of the configuration, else the shipped rules.`,
	Commands: []*command.Command{alertsCheckCommand, alertsTestCommand, alertsBacktestCommand, alertsNotifyCommand},
}

var alertsCheckCommand = &command.Command{
	Name:  "alerts check",
	Args:  "[FILE]...",
	Short: "Check alert rules for errors, with their lines",
	Long: `It reports what Prometheus rejects, metrics and labels that llmtap does not have,
and templates that fail or use a label that the result of the expression lacks.

Exit code: 1 if there are errors.`,
	Examples: "  llmtap alerts check my-rules.yaml",
	Run:      runAlertsCheck,
}

func runAlertsCheck(ctx context.Context, c *command.Call) error {
	flags := config.AddFlags(c.Flags, c.Getenv, "alerts.rule_files")
	if err := c.Parse(); err != nil {
		return err
	}
	cfg, err := flags.Load()
	if err != nil {
		return err
	}
	if len(c.Args) > 0 {
		cfg.Alerts.RuleFiles = c.Args
	}
	return alertcheck.Check(ctx, c.Stdout, cfg.Alerts)
}
