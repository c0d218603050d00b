package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/alerts/webhook"
)

// notifiersOf are the configured receivers of alerts. People are spared the watchdog; Alertmanager is told of it.
func (c *collector) notifiersOf(store alerts.Store) ([]alerts.Notifier, error) {
	people := append([]alerts.Notifier{logNotifier{c.logger}}, c.notifiers...)
	if c.cfg.Slack.Channel != "" {
		n, err := slack.New(c.cfg.Slack, slack.Options{Store: store, Logger: c.logger})
		if err != nil {
			return nil, fmt.Errorf("prepare slack: %w", err)
		}
		people = append(people, n)
	}
	if c.cfg.Webhook.URL != "" {
		n, err := webhook.New(c.cfg.Webhook, webhook.Options{GroupBy: append(slices.Clone(c.cfg.Alerts.GroupBy), healthLabel)})
		if err != nil {
			return nil, fmt.Errorf("prepare the webhook: %w", err)
		}
		people = append(people, n)
	}
	var all []alerts.Notifier
	for _, n := range people {
		all = append(all, pager{n})
	}
	if len(c.cfg.Alertmanager.URLs) > 0 {
		list, err := alertmanager.New(c.cfg.Alertmanager, alertmanager.Options{Store: store, Logger: c.logger})
		if err != nil {
			return nil, fmt.Errorf("prepare alertmanager: %w", err)
		}
		for _, n := range list {
			all = append(all, n)
		}
	}
	return all, nil
}

// healthLabel is what alerts of llmtap's own health are grouped by, beside the configured labels.
const healthLabel = "component"

// severityNone is the severity of alerts that are for machines, such as the watchdog.
const severityNone = "none"

// A pager passes on what concerns people.
type pager struct{ alerts.Notifier }

var _ alerts.Paced = pager{}

func (p pager) Notify(ctx context.Context, g alerts.Group) error {
	for i := range g.Alerts {
		if g.Alerts[i].Severity() != severityNone {
			return p.Notifier.Notify(ctx, g)
		}
	}
	return nil
}

// Pace is that of the notifier behind p.
func (p pager) Pace() alerts.Pace {
	if n, ok := p.Notifier.(alerts.Paced); ok {
		return n.Pace()
	}
	return alerts.Pace{}
}
