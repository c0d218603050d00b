package slack

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestHiddenParts(t *testing.T) {
	part := func(service string) alerts.Part {
		return alerts.Part{Name: "StageFailureRate", Failed: 412, Calls: 1030, Labels: map[string]string{"service": service, "stage": "planner", "severity": "critical"}}
	}
	f := func(h *alerts.Hidden, want ...string) {
		t.Helper()
		must.Equal(t, strings.Join(markup.Hidden(h), "\n"), strings.Join(want, "\n"), "hidden parts")
	}
	f(nil)
	f(&alerts.Hidden{Alerts: 1, Worst: []alerts.Part{part("<!channel>")}},
		"Hides 1 alert:", "• &lt;!channel&gt;/planner: 412 of 1,030 calls failed (StageFailureRate, critical)")
	findings := part("b")
	findings.Failed, findings.Calls = 0, 0
	f(&alerts.Hidden{Alerts: 9, Worst: []alerts.Part{part("a"), findings}},
		"Hides 9 alerts:", "• a/planner: 412 of 1,030 calls failed (StageFailureRate, critical)", "• b/planner (StageFailureRate, critical)", "• … and 7 more")
}
