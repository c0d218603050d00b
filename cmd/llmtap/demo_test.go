package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The demo is the whole path, from the SDK calls of agents in another process to the Slack message.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long, and the race detector sees nothing new in it")
	}
	needClickHouse(t)
	var stdout, stderr bytes.Buffer
	start := time.Now()
	if err := run(t.Context(), []string{"demo", "--exit", "--format", "json"}, nil, &stdout, &stderr, os.Getenv); err != nil {
		t.Fatalf("demo: %v\n%s", err, &stderr)
	}
	t.Logf("took %v\n%s", time.Since(start).Round(time.Second), &stderr)
	var r demoReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("stdout is not one JSON object: %v\n%s", err, &stdout)
	}
	if r.Lost != 0 || r.Exchanges == 0 || r.Exchanges != r.Published || r.ClickHouse["exchanges"] != r.Exchanges {
		t.Errorf("exchanges: %d published, %d found, %d rows, %d lost", r.Published, r.Exchanges, r.ClickHouse["exchanges"], r.Lost)
	}
	if got, want := slices.Sorted(maps.Keys(r.RootCauses)), []string{"duplicate_reply", "history_truncated_mid_pair", "tool_calls_dropped_on_save", "tool_skipped"}; !cmp.Equal(got, want) {
		t.Errorf("root causes %v, want %v", got, want)
	}
	if got, want := slices.Sorted(maps.Keys(r.Causes)), []string{"duplicate_tool_reply", "missing_tool_reply", "orphan_tool_reply"}; !cmp.Equal(got, want) {
		t.Errorf("causes %v, want %v", got, want)
	}
	if len(r.Alerts) != 1 {
		t.Fatalf("%d alerts, want the planner's and no other: %+v", len(r.Alerts), r.Alerts)
	}
	a := r.Alerts[0]
	want := map[string]string{"service": "checkout-agent", "stage": "planner", "environment": "demo", "severity": "critical"}
	if diff := cmp.Diff(want, a.Labels); a.Alert != "StageFailureRate" || a.State != "firing" || diff != "" {
		t.Errorf("alert %s is %s, labels (-want +got):\n%s", a.Alert, a.State, diff)
	}
	if a.PublishedToPosted <= 0 || a.PublishedToPosted > 60_000 {
		t.Errorf("published to posted took %v ms", a.PublishedToPosted)
	}
}
