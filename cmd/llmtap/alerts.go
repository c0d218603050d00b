package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

const alertsHelp = `Work on alert rules, which are Prometheus rule files, before they wake anyone. Without files it is about the rules that
the configuration names, else about the shipped ones.

  llmtap alerts check my-rules.yaml                 is every line right?
  llmtap alerts test my-rules.test.yaml             do they fire for the series of a unit test, and else not?
  llmtap alerts backtest --since 7d my-rules.yaml   when would it have fired, for how long, with what evidence?
  llmtap alerts test-notify                         does a message arrive in Slack, Alertmanager, at the webhook?

Help on one: llmtap alerts check --help`

// alertsCommands are the second words.
var alertsCommands = map[string]func(ctx context.Context, c *cli) error{
	"check": runAlertsCheck, "test": runAlertsTest, "backtest": runAlertsBacktest, "test-notify": runAlertsNotify,
}

func runAlerts(ctx context.Context, c *cli) error {
	if len(c.args) == 0 {
		fmt.Fprintln(c.stderr, alertsHelp)
		return &exitError{code: exitBadInput}
	}
	name := c.args[0]
	if run := alertsCommands[name]; run != nil {
		c.args = c.args[1:]
		return run(ctx, c)
	}
	switch name {
	case "help", "-h", "-help", "--help":
		fmt.Fprintln(c.stdout, alertsHelp)
		return nil
	}
	return &exitError{exitBadInput, fmt.Errorf("%q is none of check, test, backtest, test-notify; see llmtap alerts --help", name)}
}

const alertsCheckHelp = `Check alert rules: what Prometheus refuses, metrics and labels that llmtap does not count, templates that fail or use a
label that the expression's result does not have. Each mistake comes with its line.

  llmtap alerts check my-rules.yaml

Exit code 1: there are mistakes.`

func runAlertsCheck(ctx context.Context, c *cli) error {
	fs := c.flags("alerts check", alertsCheckHelp)
	file := fs.String("config", "", "configuration `file`, with the interval and the rule files; "+config.SystemFile+" when there is one")
	if err := c.parse(fs); err != nil {
		return err
	}
	s, err := config.Load(*file, c.getenv)
	if err != nil {
		return err
	}
	cfg := s.Alerts
	if fs.NArg() > 0 {
		cfg.RuleFiles = fs.Args()
	}
	rules, problems := alerts.Lint(ctx, cfg)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	if len(problems) == 0 {
		fmt.Fprintf(&b, "%s, no mistakes\n", plural(rules, "alert rule"))
	}
	if _, err := io.WriteString(c.stdout, b.String()); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	if len(problems) > 0 {
		return &exitError{exitFailed, errors.New(plural(len(problems), "mistake"))}
	}
	return nil
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
