package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// A receiver is a notifier that is configured.
type receiver struct {
	alerts.Notifier
	kind   string // its section of the configuration
	where  string // without secrets
	people bool   // it tells people, who are spared the watchdog
}

// receiversOf are the configured notifiers. They call nobody yet.
func receiversOf(cfg *config.Config, store alerts.Store, logger *slog.Logger) ([]receiver, error) {
	var all []receiver
	if cfg.Slack.Channel != "" {
		n, err := slack.New(cfg.Slack, slack.Options{Store: store, ExternalURL: cfg.UI.ExternalURL, Logger: logger})
		if err != nil {
			return nil, fmt.Errorf("prepare slack: %w", err)
		}
		all = append(all, receiver{n, "slack", cfg.Slack.Channel, true})
	}
	if cfg.Webhook.URL != "" {
		n, err := webhook.New(cfg.Webhook, webhook.Options{GroupBy: append(slices.Clone(cfg.Alerts.GroupBy), healthLabel), ExternalURL: cfg.UI.ExternalURL})
		if err != nil {
			return nil, fmt.Errorf("prepare the webhook: %w", err)
		}
		all = append(all, receiver{n, "webhook", urlHost(cfg.Webhook.URL), true})
	}
	if len(cfg.Alertmanager.URLs) > 0 {
		list, err := alertmanager.New(cfg.Alertmanager, alertmanager.Options{Store: store, ExternalURL: cfg.UI.ExternalURL, Logger: logger})
		if err != nil {
			return nil, fmt.Errorf("prepare alertmanager: %w", err)
		}
		for _, n := range list {
			all = append(all, receiver{n, "alertmanager", n.Host(), false})
		}
	}
	return all, nil
}

// notifiersOf are the receivers of alerts. People are spared the watchdog; Alertmanager is told of it.
func (c *collector) notifiersOf(store alerts.Store) ([]alerts.Notifier, error) {
	configured, err := receiversOf(&c.cfg, store, c.logger)
	if err != nil {
		return nil, err
	}
	all := []alerts.Notifier{pager{logNotifier{c.logger}}}
	for _, n := range c.notifiers {
		all = append(all, pager{n})
	}
	for _, r := range configured {
		if r.people {
			all = append(all, pager{r.Notifier})
		} else {
			all = append(all, r.Notifier)
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
