package collector

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The log has one line per change of an alert, not one per alert of the group.
func TestLogNotifier(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n := newLogNotifier(slog.New(slog.NewTextHandler(&out, nil)))
	lines := func(g alerts.Group) string {
		t.Helper()
		out.Reset()
		must.Do(t, n.Notify(t.Context(), g))
		var list []string
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(line, "state=")
			list = append(list, strings.TrimSpace(line[:strings.Index(line, " stage=")]))
		}
		return strings.Join(list, "\n")
	}
	expect := func(what, got, want string) {
		t.Helper()
		must.Equal(t, got, want, "%s", what)
	}
	alert := func(severity string) alerts.Alert {
		return alerts.Alert{
			Name: "X", State: alerts.Firing, StartsAt: time.Unix(1e9, 0), Labels: map[string]string{"service": "shop", "severity": severity},
			Evidence: alerts.Evidence{Failed: 10, Shares: []alerts.Share{{Cause: "a", Failed: 10}}},
		}
	}
	g := alerts.Group{Key: "X", Alerts: []alerts.Alert{alert("warning")}}
	warning, critical := "firing alert=X severity=warning service=shop", "firing alert=X severity=critical service=shop"
	expect("a new alert", lines(g), warning)
	expect("the same", lines(g), "")
	g.Alerts[0].Labels["severity"] = "critical"
	expect("an escalation", lines(g), critical)
	g.Alerts = append(g.Alerts, alert("warning"))
	g.Alerts[1].Name, g.Alerts[1].State = "Y", alerts.Resolved
	expect("an end", lines(g), "resolved alert=Y severity=warning service=shop")
	g.Alerts[0].Evidence.Shares = append(g.Alerts[0].Evidence.Shares, alerts.Share{Cause: "b", Failed: 5})
	expect("a cause", lines(g), critical)
	g.Repeat = true
	expect("a reminder", lines(g), critical)
}
