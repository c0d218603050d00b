package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
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
	flags := configFlag(c)
	if err := c.Parse(); err != nil {
		return err
	}
	s, err := flags.Load()
	if err != nil {
		return err
	}
	cfg := s.Alerts
	if len(c.Args) > 0 {
		cfg.RuleFiles = c.Args
	}
	rules, problems := cfg.Rules().Lint(ctx)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	if len(problems) == 0 {
		fmt.Fprintf(&b, "%s, no errors\n", terminal.Plural(rules, "alert rule"))
	}
	if _, err := io.WriteString(c.Stdout, b.String()); err != nil {
		return fmt.Errorf("write errors: %w", err)
	}
	if len(problems) > 0 {
		return &command.ExitError{Code: command.ExitFailed, Err: errors.New(terminal.Plural(len(problems), "error"))}
	}
	return nil
}
