package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
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
	args := config.AddFlags(c.Flags, c.Getenv)
	if err := c.Parse(); err != nil {
		return err
	}
	s, err := args.Load()
	if err != nil {
		return err
	}
	list, err := collector.Receivers(&s.Config, memoryStore{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	list = append(list, collector.Heartbeat(&s.Config)...)
	if len(list) == 0 {
		return command.BadInputf("no receivers are configured; set slack.channel, webhook.url, alertmanager.urls or alerts.heartbeat_url")
	}
	failed := 0
	for _, r := range list {
		verdict := verdictOK
		text, err := testNotify(ctx, r)
		if err != nil {
			failed++
			verdict, text = verdictFail, err.Error()
		}
		if _, err := fmt.Fprintf(c.Stdout, "%-4s  %-12s  %s: %s\n", verdict, r.Kind, r.Destination, text); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	if failed > 0 {
		return &command.ExitError{Code: command.ExitFailed, Err: fmt.Errorf("%d of %d were not reached", failed, len(list))}
	}
	return nil
}

// testNotify sends a test alert to r and describes the outcome.
func testNotify(ctx context.Context, r collector.Receiver) (string, error) {
	now := time.Now().UTC().Truncate(time.Second)
	a := alerts.Alert{
		Name: "TestNotify", State: alerts.Firing, Labels: map[string]string{"severity": "info"}, StartsAt: now, UpdatedAt: now,
		Annotations: map[string]string{
			"summary":     "this is a test, nothing is wrong",
			"description": "Someone ran llmtap alerts test-notify. llmtap sends alerts here.",
		},
	}
	g := alerts.Group{Key: "TestNotify " + now.Format(time.RFC3339), Alerts: []alerts.Alert{a}}
	switch {
	case r.Kind == "heartbeat":
		g.Alerts[0].Name = "Watchdog"
		return "the heartbeat arrived", r.Notify(ctx, g)
	case r.System:
		return "the test alert arrived and ends in 4 minutes", r.Notify(ctx, g)
	}
	if err := r.Notify(ctx, g); err != nil {
		return "", err
	}
	end := &g.Alerts[0]
	end.State, end.EndsAt = alerts.Resolved, time.Now().UTC()
	end.UpdatedAt = end.EndsAt
	if err := r.Notify(ctx, g); err != nil {
		return "", fmt.Errorf("the test alert arrived, but its end did not: %w", err)
	}
	return "the test alert and its end arrived", nil
}

// memoryStore is an alerts.Store of one run.
type memoryStore map[string][]byte

func (m memoryStore) Get(_ context.Context, key string) ([]byte, error) { return m[key], nil }

func (m memoryStore) Put(_ context.Context, key string, value []byte) error {
	m[key] = value
	return nil
}
