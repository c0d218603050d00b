/*
Package routing sends alert groups to the receivers that routes name, besides those that receive all.

	Group ── routes whose matchers match one of its alerts ──> receivers ──> pagerduty, msteams, email, webhook

All routes that match apply. A receiver that was notified of a group is told of its further course, also when it no longer matches: an
incident that became critical ends for the pager when it ends, not when it is a warning again.
*/
package routing

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/email"
	"github.com/llmtap/llmtap/alerts/msteams"
	"github.com/llmtap/llmtap/alerts/pagerduty"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/alerts/webhook"
)

// Config is the configuration of routes and their receivers. The names of its keys are those of Alertmanager.
type Config struct {
	Routes     []Route  `yaml:"routes"`
	Configured []Target `yaml:"receivers"`
}

// A Route names the receivers of groups.
type Route struct {
	// Matchers must all match one alert of the group: its labels, alertname, and the cause and root_cause of most of its failures.
	Matchers  []string `yaml:"matchers"`
	Receivers []string `yaml:"receivers"`
}

// A Target is one or several receivers with a name.
type Target struct {
	Name      string             `yaml:"name"`
	PagerDuty []pagerduty.Config `yaml:"pagerduty_configs"`
	MSTeams   []msteams.Config   `yaml:"msteamsv2_configs"`
	Email     []email.Config     `yaml:"email_configs"`
	Webhook   []webhook.Config   `yaml:"webhook_configs"`
}

var _ alerts.NotifierConfig = Config{}

// configs yields the configurations of t, and the key of each.
func (t *Target) configs() iter.Seq2[string, alerts.NotifierConfig] {
	return func(yield func(string, alerts.NotifierConfig) bool) {
		_ = all("pagerduty_configs", t.PagerDuty, yield) && all("msteamsv2_configs", t.MSTeams, yield) && all("email_configs", t.Email, yield) &&
			all("webhook_configs", t.Webhook, yield)
	}
}

func all[C alerts.NotifierConfig](key string, list []C, yield func(string, alerts.NotifierConfig) bool) bool {
	for i, c := range list {
		if !yield(fmt.Sprintf("%s[%d]", key, i), c) {
			return false
		}
	}
	return true
}

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	named := map[string]bool{}
	for i := range c.Configured {
		t, key, empty := &c.Configured[i], fmt.Sprintf("receivers[%d]", i), true
		switch {
		case t.Name == "":
			fail("%s.name: is empty; routes name receivers", key)
		case named[t.Name]:
			fail("%s.name: %q is that of another receiver", key, t.Name)
		}
		named[t.Name] = true
		for kind, n := range t.configs() {
			empty = false
			if err := n.Validate(); err != nil {
				fail("%s.%s.%w", key, kind, err)
			}
		}
		if empty {
			fail("%s: has no pagerduty_configs, msteamsv2_configs, email_configs or webhook_configs", key)
		}
	}
	used := map[string]bool{}
	for i, r := range c.Routes {
		key := fmt.Sprintf("routes[%d]", i)
		if _, err := silence.ParseMatchers(r.Matchers); err != nil {
			fail("%s.matchers: %w", key, err)
		}
		if len(r.Receivers) == 0 {
			fail("%s.receivers: is empty", key)
		}
		for _, name := range r.Receivers {
			if used[name] = true; !named[name] {
				fail("%s.receivers: %q is not the name of an entry of routing.receivers", key, name)
			}
		}
	}
	for i := range c.Configured {
		if t := &c.Configured[i]; t.Name != "" && !used[t.Name] {
			fail("receivers[%d]: no route names %q, so it would receive nothing", i, t.Name)
		}
	}
	return errors.Join(errs...)
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) (list []alerts.Receiver, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	for i := range c.Configured {
		t := &c.Configured[i]
		var routes []silence.Matchers
		for _, r := range c.Routes {
			if slices.Contains(r.Receivers, t.Name) {
				m, _ := silence.ParseMatchers(r.Matchers) // valid
				routes = append(routes, m)
			}
		}
		for kind, n := range t.configs() {
			receivers, err := n.Receivers(o)
			if err != nil {
				return nil, fmt.Errorf("receiver %s: %s: %w", t.Name, kind, err)
			}
			for _, r := range receivers {
				r.Notifier = &routed{Notifier: r.Notifier, routes: routes, notified: map[string]bool{}}
				r.Destination = fmt.Sprintf("%s %s: %s", t.Name, kind, r.Destination)
				list = append(list, r)
			}
		}
	}
	return list, nil
}

// routed is a notifier of the groups that one of its routes matches.
type routed struct {
	alerts.Notifier
	routes []silence.Matchers

	mu       sync.Mutex
	notified map[string]bool // firing groups of which the notifier has been notified, by key
}

var _ alerts.Paced = (*routed)(nil)

// Pace implements alerts.Paced.
func (n *routed) Pace() alerts.Pace {
	if p, ok := n.Notifier.(alerts.Paced); ok {
		return p.Pace()
	}
	return alerts.Pace{}
}

// Unrouted returns n, or the notifier that receives what is routed to n.
func Unrouted(n alerts.Notifier) alerts.Notifier {
	if r, ok := n.(*routed); ok {
		return r.Notifier
	}
	return n
}

// Notify implements alerts.Notifier.
func (n *routed) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	to := n.notified[g.Key] || n.matches(&g)
	if n.notified[g.Key] = to; !to || !g.Firing() {
		delete(n.notified, g.Key)
	}
	n.mu.Unlock()
	if !to {
		return nil
	}
	return n.Notifier.Notify(ctx, g)
}

// matches reports whether a route matches an alert of g, which has those that have ended, too.
func (n *routed) matches(g *alerts.Group) bool {
	for i := range g.Alerts {
		a := &g.Alerts[i]
		labels := a.Routable()
		if slices.ContainsFunc(n.routes, func(m silence.Matchers) bool { return m.Match(a.Name, labels) }) {
			return true
		}
	}
	return false
}
