package pagerduty

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/wording"
)

// maxSummary is the longest summary that PagerDuty accepts, in characters.
const maxSummary = 1024

// numbersInterval keeps events in which only numbers changed from filling the log of an alert.
const numbersInterval = 10 * time.Minute

// Actions of an event.
const (
	trigger     = "trigger"
	acknowledge = "acknowledge"
	resolve     = "resolve"
)

// An event is the body of a request to the Events API v2, see
// https://developer.pagerduty.com/docs/send-alert-event (2026-11).
type event struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action"`
	DedupKey   string   `json:"dedup_key"`
	Payload    *payload `json:"payload,omitempty"` // of trigger
	Links      []link   `json:"links,omitempty"`
	Client     string   `json:"client,omitempty"`
	ClientURL  string   `json:"client_url,omitempty"`
}

type payload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`   // what fails: the service, else the provider or the rule
	Severity  string            `json:"severity"` // critical, error, warning or info
	Timestamp time.Time         `json:"timestamp"`
	Component string            `json:"component,omitempty"` // stage
	Group     string            `json:"group,omitempty"`     // environment
	Class     string            `json:"class,omitempty"`     // problem, else rule
	Details   map[string]string `json:"custom_details"`
}

type link struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// A Notifier sends alert groups to one service of PagerDuty. It has no state and is safe for concurrent use.
type Notifier struct {
	url, key string
	opts     alerts.NotifierOptions
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Numbers: numbersInterval} }

// Notify sends the state of g.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	for _, e := range events(&g, n.opts.Access) {
		e.RoutingKey = n.key
		if err := endpoint.Post(ctx, n.opts.Client, n.url, e, n.key); err != nil {
			return fmt.Errorf("send event to PagerDuty: %w", err)
		}
	}
	return nil
}

// events returns the state of g, without the routing key.
func events(g *alerts.Group, access alerts.Access) []event {
	key, paging := "llmtap/"+alerts.GroupID(g.Key), false
	for i := range g.Alerts {
		a := &g.Alerts[i]
		paging = paging || pages(a.Severity()) || pages(a.Highest)
	}
	var out []event
	if paging {
		out = append(out, event{Action: resolve, DedupKey: key})
		key += "/page"
	}
	if !g.Firing() {
		return append(out, event{Action: resolve, DedupKey: key})
	}
	fires := triggered(g, access)
	fires.DedupKey = key
	out = append([]event{fires}, out...) // first: what people wait for
	if g.Ack != nil {
		out = append(out, event{Action: acknowledge, DedupKey: key})
	}
	return out
}

func triggered(g *alerts.Group, access alerts.Access) event {
	a := g.Worst()
	e := event{Action: trigger, Client: "llmtap", ClientURL: wording.AlertURL(access.ExternalURL, g, &a)}
	e.Payload = &payload{
		Source: cmp.Or(a.Labels["service"], a.Labels["provider"], a.Name), Severity: severity(&a), Timestamp: g.Since().UTC(),
		Component: cmp.Or(a.Labels["stage"], a.Labels["agent"]), Group: a.Labels["environment"], Class: cmp.Or(a.Problem, a.Name),
		Details: alertmanager.Alerts(alerts.Group{Key: g.Key, Alerts: []alerts.Alert{a}}, access)[0].Annotations,
	}
	summary := cmp.Or(wording.Summary(&a), a.Name)
	if len(a.Evidence.Shares) > 0 {
		summary += ": " + wording.Why(&a.Evidence, 0)
	}
	e.Payload.Summary = wording.Truncate(summary, maxSummary)
	var others []string
	for _, other := range g.Current() {
		if other.State == alerts.Firing && other.Series() != a.Series() {
			others = append(others, cmp.Or(wording.Summary(&other), other.Name))
		}
	}
	if len(others) > 0 {
		e.Payload.Details["also"] = strings.Join(others, "\n")
	}
	if x := a.Evidence.Example; x != nil {
		if href := wording.ConversationURL(access.ExternalURL, x.Conversation); href != "" {
			e.Links = append(e.Links, link{href, "Conversation with the failure"})
		}
	}
	return e
}

// severity returns the severity of a in PagerDuty's words.
func severity(a *alerts.Alert) string {
	switch s := a.Severity(); {
	case pages(s):
		return "critical"
	case s == "error", s == "warning":
		return s
	}
	return "info"
}

// pages reports whether alerts of a severity page.
func pages(severity string) bool { return severity == "critical" || severity == "page" }
