package collector

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// A Receiver is a configured notifier.
type Receiver struct {
	alerts.Notifier
	Kind   string // its section of the configuration
	Target string // without secrets
	Human  bool   // it is not sent the watchdog
}

// Receivers returns the configured notifiers. It makes no connections.
func Receivers(cfg *config.Config, store alerts.Store, logger *slog.Logger) ([]Receiver, error) {
	var all []Receiver
	if cfg.Slack.Channel != "" {
		n, err := slack.New(cfg.Slack, slack.Options{Store: store, ExternalURL: cfg.UI.ExternalURL, Logger: logger})
		if err != nil {
			return nil, fmt.Errorf("create the Slack notifier: %w", err)
		}
		all = append(all, Receiver{n, "slack", cfg.Slack.Channel, true})
	}
	if cfg.Webhook.URL != "" {
		n, err := webhook.New(cfg.Webhook, webhook.Options{GroupBy: append(slices.Clone(cfg.Alerts.GroupBy), healthLabel), ExternalURL: cfg.UI.ExternalURL})
		if err != nil {
			return nil, fmt.Errorf("create the webhook notifier: %w", err)
		}
		all = append(all, Receiver{n, "webhook", Host(cfg.Webhook.URL), true})
	}
	if len(cfg.Alertmanager.URLs) > 0 {
		list, err := alertmanager.New(cfg.Alertmanager, alertmanager.Options{Store: store, ExternalURL: cfg.UI.ExternalURL, Logger: logger})
		if err != nil {
			return nil, fmt.Errorf("create the Alertmanager notifier: %w", err)
		}
		for _, n := range list {
			all = append(all, Receiver{n, "alertmanager", n.Host(), false})
		}
	}
	return all, nil
}

// Host returns the host of rawURL, whose other parts may be secret.
func Host(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// notifiers returns the log, the notifiers of the process and the configured ones.
func (c *Collector) notifiers(store alerts.Store) ([]alerts.Notifier, error) {
	configured, err := Receivers(&c.cfg, store, c.logger)
	if err != nil {
		return nil, err
	}
	all := []alerts.Notifier{withoutWatchdog{logNotifier{c.logger}}}
	for _, n := range c.opts.Notifiers {
		all = append(all, withoutWatchdog{n})
	}
	for _, r := range configured {
		if r.Human {
			all = append(all, withoutWatchdog{r.Notifier})
		} else {
			all = append(all, r.Notifier)
		}
	}
	return all, nil
}

// healthLabel groups alerts of llmtap's health, in addition to the configured labels.
const healthLabel = "component"

// severityNone is the severity of alerts for machines, such as the watchdog.
const severityNone = "none"

// withoutWatchdog drops groups that contain only alerts for machines.
type withoutWatchdog struct{ alerts.Notifier }

var _ alerts.Paced = withoutWatchdog{}

func (w withoutWatchdog) Notify(ctx context.Context, g alerts.Group) error {
	if slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool { return a.Severity() != severityNone }) {
		return w.Notifier.Notify(ctx, g)
	}
	return nil
}

// Pace returns the pace of the wrapped notifier.
func (w withoutWatchdog) Pace() alerts.Pace {
	if n, ok := w.Notifier.(alerts.Paced); ok {
		return n.Pace()
	}
	return alerts.Pace{}
}

// logNotifier logs every change of an alert, so that alerts are visible before Slack is configured.
type logNotifier struct{ logger *slog.Logger }

func (n logNotifier) Notify(ctx context.Context, g alerts.Group) error {
	for i := range g.Alerts {
		a := &g.Alerts[i]
		n.logger.WarnContext(ctx, "alert", "state", a.State, "alert", a.Name, "severity", a.Labels["severity"],
			"service", a.Labels["service"], "stage", a.Labels["stage"], "failed", a.Evidence.Failed, "calls", a.Evidence.Calls)
	}
	return nil
}
