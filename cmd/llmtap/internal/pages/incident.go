package pages

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
)

// Incidents implements web.Incidents. Access returns how the readers of the pages reach this collector.
type Incidents struct {
	Groups *engine.SharedGroups
	Access func() alerts.Access
}

// Incident implements web.Incidents.
func (i Incidents) Incident(ctx context.Context, id string) (*web.Incident, error) {
	groups, _, ok := i.Groups.Groups()
	if !ok {
		return nil, fmt.Errorf("the state of the alerts is %w: NATS does not answer", web.ErrUnavailable)
	}
	for _, g := range groups {
		for n := range g.Alerts {
			if a := &g.Alerts[n]; a.ID() == id && access.ScopeOf(ctx).Sees(a.Labels) {
				return i.describe(a, &g, access.ScopeOf(ctx)), nil
			}
		}
	}
	return nil, fmt.Errorf("alert %s %w", id, web.ErrNotFound)
}

func (i Incidents) describe(a *alerts.Alert, g *alerts.Group, scope *access.Scope) *web.Incident {
	ev := &a.Evidence
	out := &web.Incident{
		Alert: describe(a, g, scope), Value: a.Value, Window: ev.Window, Rules: ev.Rules, Failed: ev.Failed, Calls: ev.Calls, LastFailed: ev.LastFailed,
		CallsSince: ev.CallsSince, Description: a.Annotations["description"], Commands: wording.Commands(i.Access(), a),
	}
	if len(ev.Shares) > 0 {
		out.FirstAt = ev.Shares[0].FirstAt
	}
	if ev.Example != nil {
		out.Exchange = ev.Example.Exchange
	}
	for _, s := range ev.Shares {
		out.Causes = append(out.Causes, web.CauseCount{ID: s.ID(), Text: wording.Failure(s), N: s.Failed})
	}
	return out
}

// Meaning implements web.Incidents.
func (Incidents) Meaning(id string) (kind, phrase, fix string) { return wording.Problem(id, false) }

// ProviderMessage implements web.Incidents.
func (Incidents) ProviderMessage(errorText string) string { return wording.ProviderMessage(errorText) }

// Commands implements web.Incidents.
func (i Incidents) Commands(labels map[string]string, since time.Time, exchange, conversation string) []string {
	a := alerts.Alert{Labels: labels, StartsAt: since, Evidence: alerts.Evidence{Failed: 1}}
	if labels["measure"] != "" { // nothing failed
		a.Evidence.Failed = 0
	}
	if id := cmp.Or(exchange, conversation); id != "" {
		a.Evidence.Example = &analyzer.Example{Exchange: exchange, Conversation: conversation}
	}
	return wording.Commands(i.Access(), &a)
}
