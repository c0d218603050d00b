package engine

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The rule of an alert has the alert's severity, and an expression that people can read.
func TestExpr(t *testing.T) {
	e := newEngine(t, Default(), Options{})
	a := alerts.Alert{Name: "StageFailureRate", Labels: map[string]string{"service": "a", "severity": "critical"}}
	got := e.Expr(&a)
	if !strings.Contains(got, "0.3") || !strings.Contains(got, "llmtap_failed_calls_total") {
		t.Errorf("expression %q", got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > 120 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
	t.Log("\n" + got)
	a.Labels["severity"] = "page"
	must.Equal(t, e.Expr(&a), "", "an alert of no rule has the expression")
}
