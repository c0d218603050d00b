package slack

import (
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Acknowledgements, silences and inhibitions are shown in the message, and each change is one line in the thread. A group
// that is resolved while it is silenced has no line about that.
func TestStatus(t *testing.T) {
	f, cfg := newSlack(t)
	store := &alertstest.Store{}
	n := newNotifier(t, cfg, store)
	threads := 0
	show := func(g alerts.Group, message, thread string) {
		t.Helper()
		notify(t, n, g)
		notify(t, n, g) // sent again after a crash
		n = newNotifier(t, cfg, store)
		text := plainBlocks(t, []byte(f.top()[0].Blocks))
		must.Contain(t, text, message)
		var lines []string
		for _, m := range f.thread()[threads:] {
			lines = append(lines, plainText(m.Text))
		}
		threads = len(f.thread())
		must.Equal(t, strings.Join(lines, "\n"), thread, "thread")
	}
	quiet := &silence.Silence{ID: "1", CreatedBy: "anna <!here>", Comment: "deploy *2.4.1*", EndsAt: t0.Add(4 * time.Hour)}
	ack := &alerts.Ack{By: bob.id, ByName: bob.name, At: t0.Add(time.Minute)}
	g := func(a alerts.Alert, s *silence.Silence, by *alerts.Inhibitor, ack *alerts.Ack) alerts.Group {
		a.Silence, a.Inhibitor = s, by
		g := group(a)
		g.Ack = ack
		return g
	}
	show(g(incident(), nil, nil, nil), "CRITICAL", "")
	const acknowledged = ":eyes: Acknowledged by <@U00000BOB> 09:22:05 UTC"
	show(g(incident(), nil, nil, ack), acknowledged, acknowledged)
	silenced := ":no_bell: Silenced by anna <!here> until 2026-11-21 13:21:05 UTC: deploy 2.4.1"
	show(g(incident(), quiet, nil, ack), silenced, silenced)
	longer := *quiet
	longer.EndsAt = t0.Add(8 * time.Hour)
	show(g(later(), &longer, nil, ack), "until 2026-11-21 17:21:05 UTC", strings.Replace(silenced, "13:", "17:", 1))
	show(g(later(), nil, nil, ack), acknowledged, "🔔 The silence has ended, still firing after 14 min: CRITICAL checkout-agent/planner: 412 of 1,030 calls failed (40%)\n"+
		"New cause: 30 of 412: a tool call in the history has no reply directly after it (cause missing_tool_reply)")
	part := ":link: Part of ProviderOutage: 10 services of openai fail"
	show(g(later(), nil, &alerts.Inhibitor{ID: "x", Name: "ProviderOutage", Summary: "10 services of openai fail"}, nil), part, ":eyes: No longer acknowledged\n"+part)
	show(g(later(), nil, nil, nil), "CRITICAL", "🔔 No longer part of another alert, still firing after 14 min: CRITICAL checkout-agent/planner: 412 of 1,030 calls failed (40%)")
	show(g(later(), quiet, nil, nil), silenced, silenced)
	show(g(resolved(), quiet, nil, nil), "RESOLVED", "")
	if m := f.top(); len(m) != 1 || strings.Contains(m[0].Blocks, "\\u003c!here") {
		t.Errorf("%d messages, blocks %s", len(m), m[0].Blocks)
	}
}
