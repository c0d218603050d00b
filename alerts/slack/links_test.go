package slack

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
)

// The link leads to the page of the problem if the alert is about one.
func TestLinks(t *testing.T) {
	f := func(problem, want string) {
		t.Helper()
		g := alerts.Group{Key: "key", Alerts: []alerts.Alert{{Name: "Burst", State: alerts.Firing, Problem: problem}}}
		if got := links(g, alerts.Access{ExternalURL: "https://llmtap.example.com"}); !strings.HasPrefix(got, "<https://llmtap.example.com/"+want) {
			t.Errorf("problem %q: %s, want %s", problem, got, want)
		}
	}
	f("dropped", "problem/"+alerts.GroupID("key")+"|Open problem>")
	f("", "incident/")
}
