package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
)

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse and the agents are this binary again
	if len(os.Args) > 1 && os.Args[1] == AgentsCommand {
		if err := RunAgents(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// The demo covers the whole path, from the SDK calls of agents in another process to the Slack message.
func TestRun(t *testing.T) {
	slowtest.Skip(t)
	collectortest.NeedClickHouse(t)
	run(t, io.Discard)
}

// The alert does not wait for the first download of ClickHouse, and the report has the calls made until then.
func TestDownload(t *testing.T) {
	slowtest.Skip(t)
	_, end := collectortest.SlowDownload(t)
	run(t, onAlert{end})
}

// An onAlert is a writer that calls do once an alert is written to it.
type onAlert struct{ do func() }

func (w onAlert) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("ALERT")) {
		w.do()
	}
	return len(p), nil
}

// run runs the demo, which writes its progress to w, too.
func run(t *testing.T, w io.Writer) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	start := time.Now()
	must.Do(t, Run(t.Context(), Options{Exit: true, Format: "json", Seed: 1, Stdout: &stdout, Stderr: io.MultiWriter(&stderr, w)}), "demo", &stderr)
	first, _, _ := strings.Cut(stderr.String(), "\n")
	must.Contain(t, first, "open http://127.0.0.1:", "the first line")
	t.Logf("took %v\n%s", time.Since(start).Round(time.Second), &stderr)
	r := must.JSON[report](t, stdout.Bytes())
	if r.Lost != 0 || r.Exchanges == 0 || r.Exchanges != r.Published || r.ClickHouse["exchanges"] != r.Exchanges {
		t.Errorf("exchanges: %d published, %d counted, %d rows, %d lost", r.Published, r.Exchanges, r.ClickHouse["exchanges"], r.Lost)
	}
	must.Agree(t, cmp.Diff([]string{"duplicate_reply", "history_truncated_mid_pair", "tool_calls_dropped_on_save", "tool_skipped"}, slices.Sorted(maps.Keys(r.RootCauses))), "root causes")
	must.Agree(t, cmp.Diff([]string{"duplicate_tool_reply", "missing_tool_reply", "orphan_tool_reply"}, slices.Sorted(maps.Keys(r.Causes))), "causes")
	if len(r.Alerts) != 1 {
		t.Fatalf("%d alerts, want only that of the planner: %+v", len(r.Alerts), r.Alerts)
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

// An alert that becomes critical, because its first evaluation saw few calls, is one alert.
func TestEscalation(t *testing.T) {
	var stderr bytes.Buffer
	d := &demo{Options: Options{Stderr: &stderr}, started: time.Now()}
	alert := func(severity string, state alerts.State) alerts.Alert {
		return alerts.Alert{Name: "StageFailureRate", State: state, Labels: map[string]string{"stage": "planner", "severity": severity}}
	}
	for _, list := range [][]alerts.Alert{
		{alert("warning", alerts.Firing)},
		{alert("warning", alerts.Firing)},
		{alert("warning", alerts.Resolved), alert("critical", alerts.Firing)},
	} {
		must.Do(t, d.Notify(t.Context(), alerts.Group{Alerts: list}))
	}
	if len(d.alerts) != 1 || d.alerts[0].Severity() != "critical" || strings.Count(stderr.String(), "ALERT") != 2 {
		t.Errorf("%d alerts:\n%s", len(d.alerts), &stderr)
	}
}

// The text of a report has no line above 80 columns.
func TestReport(t *testing.T) {
	r := report{
		Exchanges: 1300, Failed: 42, Causes: map[string]uint64{"orphan_tool_reply": 40, "missing_tool_reply": 2},
		RootCauses: map[string]uint64{"tool_calls_dropped_on_save": 40},
		Alerts:     []alert{{Alert: "StageFailureRate", PublishedToPosted: 4200, text: "CRITICAL checkout-agent/planner\n40 of 100 calls failed"}},
	}
	var b strings.Builder
	must.Do(t, r.write(&b, "text", "data"))
	for _, want := range []string{
		"1300 LLM calls recorded, 42 failed, 0 lost\n", "       40  orphan_tool_reply\n        2  missing_tool_reply\n", "Slack message, 4.2 s after",
		"  │ CRITICAL checkout-agent/planner\n", " query causes --data-dir data\n",
	} {
		must.Contain(t, b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 && !strings.Contains(line, " query ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
