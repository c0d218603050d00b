package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// --unknown lists unexplained wordings of a running llmtap.
func TestExplainUnknown(t *testing.T) {
	needClickHouse(t)
	up := startUp(t)
	sink := up.open(t)
	t.Cleanup(func() { sink.Close() })
	b := sinktest.Rows(0, 8)
	now := time.Now().Truncate(time.Second)
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.StartedAt = now.Add(-time.Duration(i+1) * time.Hour)
		e.Failed, e.Cause, e.CauseKnown, e.Status = true, "unexplained", cause.None, 400
		e.Labels.Service = fmt.Sprintf("service-%d", i%2)
		e.ErrorText = fmt.Sprintf("it did not like %d of them", i)
		if i >= 5 {
			e.ErrorText = "so it went"
		}
		e.ErrorCluster = cause.Cluster(e.ErrorText)
	}
	b.Exchanges[0].Cause = "auth"                            // explained
	b.Exchanges[7].StartedAt = now.Add(-30 * 24 * time.Hour) // long ago
	must.Do(t, sink.Write(t.Context(), b))
	ask := func(args ...string) string {
		t.Helper()
		return succeed(t, append([]string{"explain", "--unknown", "--data-dir", up.dir}, args...)...)
	}
	type row struct {
		Wording     string
		FailedCalls int       `json:"failed_calls"`
		FirstSeen   time.Time `json:"first_seen"`
		LastSeen    time.Time `json:"last_seen"`
		Services    []string
		Example     string `json:"example_text"`
	}
	var rows []row
	for d := json.NewDecoder(strings.NewReader(ask("--format", "jsonl"))); d.More(); {
		var r row
		must.Do(t, d.Decode(&r))
		rows = append(rows, r)
	}
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour).UTC() }
	want := []row{
		{"it did not like N of them", 4, ago(5), ago(2), []string{"service-0", "service-1"}, "it did not like 1 of them"},
		{"so it went", 2, ago(7), ago(6), []string{"service-0", "service-1"}, "so it went"},
	}
	must.Agree(t, cmp.Diff(want, rows), "wordings")
	if text := ask("--since", "3 hours"); !strings.Contains(text, "it did not like N of them") || strings.Contains(text, "so it went") {
		t.Errorf("last three hours:\n%s", text)
	}
	must.Contain(t, ask("--since", "90 minutes"), "(no rows from ", "last 90 minutes")
}
