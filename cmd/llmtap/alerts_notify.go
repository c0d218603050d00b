package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/slack"
)

const alertsNotifyHelp = `Send a test alert to Slack, as the configuration says, and resolve it: one message that turns from blue to green. It says
that it is a test.

  llmtap alerts test-notify --config llmtap.yaml
  llmtap alerts test-notify --slack-token-file /etc/llmtap/slack-token --slack-channel '#oncall'`

func runAlertsNotify(ctx context.Context, c *cli) error {
	fs := c.flags("alerts test-notify", alertsNotifyHelp)
	s, err := c.configFlags(fs).load()
	if err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &exitError{exitBadInput, fmt.Errorf("%q is left over; test-notify takes flags only", fs.Arg(0))}
	}
	if s.Slack.Channel == "" {
		return &exitError{exitBadInput, errors.New("the configuration names no slack.channel; give --slack-channel and --slack-token-file")}
	}
	n, err := slack.New(s.Slack, slack.Options{Store: memoryStore{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("prepare slack: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	a := alerts.Alert{
		Name: "TestNotify", State: alerts.Firing, Labels: map[string]string{"severity": "info"}, StartsAt: now, UpdatedAt: now,
		Annotations: map[string]string{
			"summary":     "this is a test, nothing is wrong",
			"description": "Somebody ran llmtap alerts test-notify. Alerts of llmtap arrive here.",
		},
	}
	key := "TestNotify " + now.Format(time.RFC3339)
	for _, state := range []alerts.State{alerts.Firing, alerts.Resolved} {
		if a.State = state; state == alerts.Resolved {
			a.EndsAt = time.Now().UTC()
			a.UpdatedAt = a.EndsAt
		}
		if err := n.Notify(ctx, alerts.Group{Key: key, Alerts: []alerts.Alert{a}}); err != nil {
			return fmt.Errorf("notify Slack: %w", err)
		}
	}
	_, err = fmt.Fprintf(c.stdout, "a test alert and its end were posted to %s\n", s.Slack.Channel)
	return err
}

// memoryStore is an alerts.Store of one run.
type memoryStore map[string][]byte

func (m memoryStore) Get(_ context.Context, key string) ([]byte, error) { return m[key], nil }

func (m memoryStore) Put(_ context.Context, key string, value []byte) error {
	m[key] = value
	return nil
}
