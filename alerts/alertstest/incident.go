package alertstest

import (
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

// Incident returns a group with one alert: a warning that fires about dropped tool calls, with a text that only the services' own people may read.
func Incident() alerts.Group {
	start := time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)
	return alerts.Group{Key: `tool_calls_dropped_on_save{service="checkout-agent"}`, Alerts: []alerts.Alert{{
		Name: "StageFailureRate", State: alerts.Firing, StartsAt: start, UpdatedAt: start.Add(2 * time.Minute), Problem: "tool_calls_dropped_on_save",
		Labels:      map[string]string{"service": "checkout-agent", "stage": "planner", "environment": "prod", "severity": "warning"},
		Annotations: map[string]string{"summary": "planner fails"},
		Evidence: alerts.Evidence{
			Window: 10 * time.Minute, Failed: 412, Calls: 1030, LastFailed: start.Add(110 * time.Second),
			Shares: []alerts.Share{{
				Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 412, FirstVersion: "2.4.0", FirstAt: start.Add(-time.Hour), LastClean: "2.3.9",
				Fix: "Save the assistant message with its tool_calls, and send all of it back with the next request. Conversations that were saved without them cannot be repaired: start them anew.",
			}},
			Versions: []alerts.VersionCount{{Version: "2.3.9", Calls: 400}, {Version: "2.4.0", Failed: 412, Calls: 630}},
			Example: &analyzer.Example{
				Conversation: "order-7781-3f9c2ab1-6d0e-4b7f-9c11-52e8a04d7733", Exchange: "x1", Message: 3, Rule: "orphan_tool_reply", ToolCallID: "call_9fQ2", Status: 400,
				Summary: "messages[3] replies to call_9fQ2, which no assistant message before it calls", ErrorText: "a text of the user",
			},
		},
	}}}
}

// Steps are the states of Incident that people must know, in order: it fires, is acknowledged, becomes critical and ends. After each of them,
// numbers change.
func Steps() (out []alerts.Group) {
	g := Incident()
	add := func(change func(*alerts.Group, *alerts.Alert)) {
		g.Alerts = slices.Clone(g.Alerts)
		a := &g.Alerts[0]
		a.Labels, a.UpdatedAt = maps.Clone(a.Labels), a.UpdatedAt.Add(time.Minute)
		change(&g, a)
		out = append(out, g)
	}
	add(func(*alerts.Group, *alerts.Alert) {})
	add(func(g *alerts.Group, a *alerts.Alert) { g.Ack = &alerts.Ack{By: "U1", ByName: "Anna", At: a.UpdatedAt} })
	add(func(_ *alerts.Group, a *alerts.Alert) { a.Labels["severity"] = "critical" })
	add(func(_ *alerts.Group, a *alerts.Alert) { a.State, a.EndsAt = alerts.Resolved, a.UpdatedAt })
	return out
}
