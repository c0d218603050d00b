package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/testnotify"
)

var alertsNotifyCommand = &command.Command{
	Name:  "alerts test-notify",
	Short: "Send a test alert to every configured receiver",
	Long: `It reports each answer. The alert is marked as a test: Slack gets one message that
turns from blue to green, the webhook gets two posts, and the heartbeat URL one
request. Alertmanager gets an alert that ends after four minutes: it drops an
alert that ends before its group_wait.

Exit code: 1 if a receiver was not reached.`,
	Examples: `  llmtap alerts test-notify --config llmtap.yaml
  llmtap alerts test-notify --slack-token-file token --slack-channel '#oncall'
  LLMTAP_ALERTMANAGER_URLS=http://alertmanager:9093 llmtap alerts test-notify`,
	Run: runAlertsNotify,
}

func runAlertsNotify(ctx context.Context, c *command.Call) error {
	flags := config.AddFlags(c.Flags, c.Getenv)
	if err := c.Parse(); err != nil {
		return err
	}
	cfg, err := flags.Load()
	if err != nil {
		return err
	}
	return testnotify.Run(ctx, c.Stdout, &cfg.Config)
}
