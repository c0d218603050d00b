package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestAlerts(t *testing.T) {
	history := &Table{
		Columns: []Column{{"alert_id", "String"}, {"name", "String"}, {"severity", "String"}, {"state", "String"}, {"labels", "Map"}, {"summary", "String"}, {"started_at", "DateTime64"}, {"ended_at", "DateTime64"}, {"silenced_by", "String"}},
		Rows: [][]any{
			{"a/1", hostile, hostile, "firing", map[string]string{"service": hostile, "stage": hostile}, hostile, testNow.Add(-time.Hour), testNow.Add(-4 * time.Minute), hostile},
			{"a2", "ProviderOutage", "warning", "resolved", map[string]string{"provider": "openai"}, "", testNow.Add(-2 * time.Hour), testNow.Add(-3 * time.Minute), ""},
		},
	}
	resp, body := get(newTest(t, fakeSource{rows: map[string]*Table{"alerts FINAL": history}}, ""), "/alerts")
	must.Equal(t, resp.StatusCode, http.StatusOK, "status")
	for _, want := range []string{"2 alerts fire", `href="/incident/a%2f1"`, `href="/incident/a2">openai<`, "3 min ago"} {
		must.Contain(t, strings.ReplaceAll(body, "%2F", "%2f"), want)
	}
	for _, bad := range []string{"4 min ago", "<script>alert", "<img src=x", "style="} {
		if strings.Contains(body, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	_, body = get(newTest(t, fakeSource{err: fmt.Errorf("dial: %w", ErrUnavailable)}, ""), "/alerts")
	wantAll(t, body, "2 alerts fire", "dial: not available")
}
