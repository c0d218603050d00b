package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
)

var t0 = time.Date(2026, 11, 21, 9, 21, 5, 0, time.UTC)

// incident is DESIGN.md's incident 0 while it fires.
func incident() alerts.Alert {
	return alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, Value: 43.0 / 98, Peak: 43.0 / 98,
		Labels: map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "severity": "critical"},
		Annotations: map[string]string{
			"summary":     "checkout-agent/planner: 43.88% of calls are failing",
			"description": "More than 30% of the model calls of checkout-agent/planner failed in the last 10 minutes.",
		},
		StartsAt: t0, UpdatedAt: t0,
		Evidence: alerts.Evidence{
			Window: 10 * time.Minute, Failed: 43, Calls: 98,
			Shares: []alerts.Share{
				{
					Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 41,
					Fix:          "When the agent saves an assistant message, keep its tool_calls together with its content.",
					FirstVersion: "2.4.0", FirstAt: t0.Add(-8 * time.Minute), LastClean: "2.3.9",
				},
				{Cause: "rate_limit", Failed: 2, FirstVersion: "1.0.0", FirstAt: t0.Add(-900 * time.Hour)},
			},
			Versions: []alerts.VersionCount{
				{Version: "2.3.9", Calls: 48, FirstSeen: t0.Add(-72 * time.Hour)},
				{Version: "2.4.0", Failed: 43, Calls: 50, FirstSeen: t0.Add(-9 * time.Minute)},
			},
			Example: &analyzer.Example{
				Exchange: "0193-1", Conversation: "order-7781", Status: 400, Rule: "orphan_tool_reply", Message: 4, ToolCallID: "call_9",
				ErrorText: "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
				Summary:   "messages[4] is a tool message for call_9, but messages[3] is an assistant message without tool_calls",
				Evidence:  "The previous answer called read_file (call_9); this request sends that assistant message back without tool_calls.",
			},
			More: []*analyzer.Example{
				{Exchange: "0193-7", Conversation: "order-7790", Status: 400, Rule: "orphan_tool_reply", Message: 6, ToolCallID: "call_2", Summary: "messages[6] is a tool message"},
				{Exchange: "0193-8", Conversation: "order-7793", Status: 429, Message: -1, ErrorText: "Rate limit reached <!here>"},
			},
		},
	}
}

func group(as ...alerts.Alert) alerts.Group {
	return alerts.Group{Key: `StageFailureRate{service="checkout-agent",environment="prod",stage="planner"}`, Alerts: as}
}

// later is incident a quarter of an hour later.
func later() alerts.Alert {
	a := incident()
	a.UpdatedAt = t0.Add(14 * time.Minute)
	a.Evidence.Failed, a.Evidence.Calls = 412, 1030
	a.Evidence.Shares = []alerts.Share{
		a.Evidence.Shares[0],
		{Cause: "missing_tool_reply", RootCause: "unknown_no_history", Failed: 30, FirstVersion: "2.1.0", FirstAt: t0.Add(-500 * time.Hour), LastClean: "2.0.7"},
		{Cause: "rate_limit", Failed: 2},
	}
	a.Evidence.Shares[0].Failed = 380
	a.Evidence.Versions = []alerts.VersionCount{
		{Version: "2.3.9", Calls: 500, FirstSeen: t0.Add(-72 * time.Hour)},
		{Version: "2.4.0", Failed: 400, Calls: 510, FirstSeen: t0.Add(-9 * time.Minute)},
		{Version: "2.4.1", Failed: 12, Calls: 20, FirstSeen: t0.Add(10 * time.Minute), LastFailed: t0.Add(11 * time.Minute), CallsSince: 8},
		{Version: "2.4.2", Calls: 80, FirstSeen: t0.Add(12*time.Minute + 10*time.Second), CallsSince: 80},
	}
	a.Evidence.LastFailed, a.Evidence.CallsSince = t0.Add(12*time.Minute+40*time.Second), 80
	return a
}

func resolved() alerts.Alert {
	a := later()
	a.State, a.EndsAt, a.UpdatedAt = alerts.Resolved, t0.Add(65*time.Minute), t0.Add(65*time.Minute)
	return a
}

// silent ended because the stage made no calls any more.
func silent() alerts.Alert {
	a := resolved()
	a.Evidence.CallsSince, a.Evidence.Versions = 0, a.Evidence.Versions[:2]
	return a
}

// second is another alert of a group of several stages; its stage has a Chinese name and no version.
func second() alerts.Alert {
	a := incident()
	a.Labels = map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "总结 <!channel> *x*", "severity": "warning"}
	a.StartsAt, a.UpdatedAt, a.FoundLate = t0.Add(time.Minute), t0.Add(2*time.Minute), true
	a.Unavailable = "ClickHouse has not answered since 09:20:00 UTC."
	a.Evidence = alerts.Evidence{
		Window: 10 * time.Minute, Failed: 6, Calls: 50,
		Shares:   []alerts.Share{{Cause: "server_error", Failed: 6}},
		Versions: []alerts.VersionCount{{Failed: 6, Calls: 50, FirstSeen: t0}},
		Example: &analyzer.Example{
			Conversation: "a'b & <c>", Exchange: "0193-2", Status: 503, Message: -1,
			ErrorText: "<html>\n<b>503</b> `Service` Unavailable & more</html>",
		},
	}
	return a
}

// bare is an alert without any evidence.
func bare() alerts.Alert {
	return alerts.Alert{
		Name: "Watchdog", State: alerts.Firing, Value: 1, Labels: map[string]string{"severity": "info"},
		Annotations: map[string]string{"summary": "llmtap evaluates alerts", "description": "This alert always fires."}, StartsAt: t0, UpdatedAt: t0,
	}
}

// The golden files are the JSON that is sent and the text that people see.
func TestGolden(t *testing.T) {
	f := func(name string, g alerts.Group) {
		t.Helper()
		m := render(g, alerts.Access{ExternalURL: "https://llmtap.example.com", URL: "https://llmtap.example.com"})
		raw, err := json.MarshalIndent(m.blocks, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text := plainBlocks(t, raw)
		checkLimits(t, m)
		for file, got := range map[string]string{
			name + ".json": string(raw) + "\n",
			name + ".txt":  "notification: " + m.text + "\n\n" + text,
		} {
			alertstest.Golden(t, file, got)
		}
	}
	f("firing", group(incident()))
	f("updated", group(later()))
	f("resolved", group(resolved()))
	f("silent", group(silent()))
	f("group", group(incident(), second()))
	f("no_evidence", group(bare()))
	// All calls in the window are of the failing version, and the ledger has an entry for each of two causes.
	alone := incident()
	alone.Evidence.Versions, alone.Evidence.More = alone.Evidence.Versions[1:], nil
	f("one_version", group(alone))
	described := bare()
	described.Labels = map[string]string{"service": "checkout-agent", "stage": "planner", "severity": "info"}
	described.Annotations["runbook"] = "List the defects."
	f("runbook", group(described))
	lost := incident()
	lost.Evidence.Example, lost.Evidence.Shares = nil, nil
	f("no_example", group(lost))
}

func checkLimits(t *testing.T, m message) {
	t.Helper()
	raw, err := json.Marshal(m.blocks)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Type string
		Text struct{ Text string }
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) > 50 {
		t.Errorf("%d blocks", len(list))
	}
	for _, b := range list {
		n, limit := utf8.RuneCountInString(b.Text.Text), maxSection
		if b.Type == "header" {
			limit = maxHeader
		}
		if b.Type != "divider" && b.Type != "actions" && (n == 0 || n > limit) {
			t.Errorf("%s of %d characters: %.60s", b.Type, n, b.Text.Text)
		}
	}
	if n := utf8.RuneCountInString(m.text); n > 4000 {
		t.Errorf("text of %d characters", n)
	}
}

// Hostile names and texts produce a message within Slack's limits and without mentions.
func TestHostileContent(t *testing.T) {
	long := strings.Repeat("<!channel> & `<@U123>` \n```*_~", 2000)
	a := incident()
	a.Labels = map[string]string{"service": long, "environment": long, "stage": long, "severity": long}
	a.Annotations = map[string]string{"summary": long, "description": long}
	a.Evidence.Shares, a.Evidence.Versions = nil, nil
	for i := range 20 {
		a.Evidence.Shares = append(a.Evidence.Shares, alerts.Share{Cause: long + fmt.Sprint(i), RootCause: long, Failed: 1, Fix: long})
		a.Evidence.Versions = append(a.Evidence.Versions, alerts.VersionCount{Version: long + fmt.Sprint(i), Failed: 1, Calls: 2})
	}
	a.Evidence.Example = &analyzer.Example{Conversation: long, Exchange: long, Rule: long, ToolCallID: long, Summary: long, Evidence: long, ErrorText: long, Status: 400}
	x := *a.Evidence.Example
	x.Summary = ""
	a.Evidence.More = []*analyzer.Example{&x, &x}
	for i := range a.Evidence.Shares {
		a.Evidence.Shares[i].FirstVersion, a.Evidence.Shares[i].LastClean = long, fmt.Sprint(i)+long
	}
	var all []alerts.Alert
	for i := range 30 {
		b := a
		b.Labels = map[string]string{"service": long, "stage": fmt.Sprint(i), "severity": "critical"}
		all = append(all, b)
	}
	for _, g := range []alerts.Group{group(a), group(all...), {Key: long}} {
		m := render(g, alerts.Access{ExternalURL: "https://llmtap.example.com/"})
		checkLimits(t, m)
		raw, _ := json.Marshal(m.blocks)
		_, sections, _ := strings.Cut(string(raw), `"section"`) // a header is plain text, without mentions
		for _, bad := range []string{`\u003c!channel`, `\u003c@U123`, "<!channel", "<@U123"} {
			if strings.Contains(sections, bad) {
				t.Errorf("%s is not escaped", bad)
			}
		}
		if strings.Contains(m.text, "<!channel") {
			t.Error("the text mentions the channel")
		}
	}
}

func TestText(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(number(0), "0")
	f(number(1030), "1,030")
	f(number(1234567), "1,234,567")
	f(percent(43, 98), "44%")
	f(percent(1, 1000), "<1%")
	f(percent(999, 1000), ">99%")
	f(percent(5, 5), "100%")
	f(percent(0, 0), "0%")
	f(duration(40*time.Second), "40 s")
	f(duration(65*time.Minute), "1 h 5 min")
	f(duration(4*time.Hour), "4 h")
	f(duration(50*time.Hour), "2 d 2 h")
	f(alerts.Truncate("阶段规划", 3), "阶段…")
	f(oneLine(" a\n\tb\x00\xff ", 10), "a b\ufffd")
	f(oneLine("gpt\u202e\u2066cba\u200b\x1b[1m", 20), "gptcba[1m")
	f(code("\u200b\u202e"), "(none)")
}
