// Package testnotify sends a test alert to the configured receivers.
package testnotify

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/routing"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// Run sends a test alert to every receiver of cfg and writes one line per receiver. It returns an error if a receiver
// failed.
func Run(ctx context.Context, w io.Writer, cfg *config.Config) error {
	receivers, err := collector.Receivers(cfg, alerts.NotifierOptions{})
	if err != nil {
		return err
	}
	receivers = append(receivers, collector.Heartbeat(cfg)...)
	if len(receivers) == 0 {
		return command.BadInputf("no receivers are configured; set slack.channel, webhook.url, pagerduty.routing_key, msteams.webhook_url, email.to, routing.receivers, alertmanager.urls or alerts.heartbeat_url")
	}
	failed := 0
	for _, r := range receivers {
		r.Notifier = routing.Unrouted(r.Notifier)
		status := "ok"
		text, err := notify(ctx, r)
		if err != nil {
			failed++
			status, text = "fail", err.Error()
		}
		if _, err := fmt.Fprintf(w, "%-4s  %-12s  %s: %s\n", status, r.Kind, r.Destination, text); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d receivers failed", failed, len(receivers))
	}
	return nil
}

// notify sends a test alert to r and describes the answer.
func notify(ctx context.Context, r collector.Receiver) (string, error) {
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
