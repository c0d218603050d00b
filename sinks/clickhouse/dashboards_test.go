package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// incident is what incidents/0.txt would leave behind, half an hour ago: version 1.4.0 of the planner is clean, 1.5.0
// saves answers without their tool calls, and the calls of every second conversation fail. Three days ago two calls of
// another service failed with a text that nobody knows.
func incident() *sinks.Batch {
	begin := time.Now().Add(-30 * time.Minute)
	b := sinktest.Rows(0, 40)
	findings := b.Findings
	b.Findings = nil
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		at := begin.Add(time.Duration(i) * 30 * time.Second)
		e.StartedAt, e.StoredAt = at, at.Add(time.Second)
		e.Labels.Service, e.Labels.Stage, e.Labels.ServiceVersion = "trips", "planner", "1.4.0"
		e.Conversation = fmt.Sprintf("conv-%d", i)
		e.Status, e.Failed, e.Cause, e.CauseKnown, e.CauseClass, e.RootCause, e.ErrorText = 200, false, "", "", "", "", ""
		e.InputTokens, e.OutputTokens, e.Duration = 100, 10, time.Duration(i)*time.Second
		if i >= 20 {
			e.Labels.ServiceVersion = "1.5.0"
		}
		f := findings[i]
		f.Exchange, f.Labels, f.Conversation, f.FirstSeen, f.Status = e.ID, e.Labels, e.Conversation, at, 200
		f.ExchangeVersion = e.Labels.ServiceVersion
		if i >= 20 && i%2 == 0 {
			e.Status, e.Failed, e.Cause, e.RootCause, e.ErrorText = 400, true, "orphan_tool_reply", "tool_calls_dropped_on_save", "bad request"
			f.Status, f.Fingerprint, f.FirstVersion, f.LastClean = 400, "aaaaaaaaaaaaaaaa", "1.5.0", "1.4.0"
			if i == 30 { // of a partition that saw it first in a later version
				f.FirstVersion, f.LastClean = "1.5.1", "1.5.0"
			}
			b.Findings = append(b.Findings, f)
		}
		if i < 3 { // accepted, but only by this provider
			f.Rule, f.Fingerprint, f.Severity, f.RootCause = "tool_content_not_string", "bbbbbbbbbbbbbbbb", analyzer.Lenient, ""
			f.FirstVersion, f.LastClean = "1.2.0", "" // weeks ago
			b.Findings = append(b.Findings, f)
		}
	}
	b.Exchanges[39].Retry = 1
	for i := range 2 {
		e := b.Exchanges[i]
		e.ID, e.StartedAt, e.Labels.Service = fmt.Sprintf("unknown-%d", i), begin.AddDate(0, 0, -3).Add(time.Duration(i)*time.Second), "quotes"
		e.Status, e.Failed, e.Cause, e.CauseKnown, e.ErrorText, e.ErrorCluster = 400, true, "unexplained", "none", fmt.Sprintf("no %d", i), "no N"
		b.Exchanges = append(b.Exchanges, e)
	}
	for i := range b.ToolCalls {
		c := &b.ToolCalls[i]
		c.Labels, c.AskedAt = b.Exchanges[i].Labels, b.Exchanges[i].StoredAt
		c.State = [...]string{analyzer.CallAnswered, analyzer.CallAnswered, analyzer.CallMissing, analyzer.CallOpen}[i%4]
	}
	for i := range b.Runs { // every tenth says ok although its last call failed
		r := &b.Runs[i]
		r.Labels, r.SeenAt, r.Status, r.Calls = b.Exchanges[i].Labels, b.Exchanges[i].StoredAt, "ok", 3
		if i%10 == 2 {
			r.Failed, r.LastStatus, r.LastCause, r.LastExchange = 1, 400, "orphan_tool_reply", b.Exchanges[i].ID
		}
	}
	b.Alerts = b.Alerts[:1]
	b.Alerts[0].StartedAt = begin.Add(10 * time.Minute)
	return b
}

// Every question is answered by the rows of an incident, and ClickHouse can explain how.
func TestQueries(t *testing.T) {
	s := open(t)
	b := incident()
	for range 2 { // what is written twice must not be counted twice
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(t *testing.T, name string, given map[string]string) *clickhouse.Result {
		t.Helper()
		q, err := queries.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		params, err := q.Bind(given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Query(t.Context(), "EXPLAIN indexes = 1 "+q.SQL, params); err != nil {
			t.Errorf("EXPLAIN %s: %v", name, err)
		}
		res, err := s.Query(t.Context(), q.SQL, params)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return res
	}
	given := map[string]map[string]string{
		"conversation": {"conversation_id": "conv-22"},
	}
	want := map[string]string{ // column=value of the rows, those that tell the story
		"failures_by_stage": "service=trips stage=planner service_version=1.5.0 calls=19 failed_calls=10 failed_percent=52.6 retries=1 main_cause=orphan_tool_reply main_root_cause=tool_calls_dropped_on_save\n" +
			"service=trips stage=planner service_version=1.4.0 calls=20 failed_calls=0 failed_percent=0 retries=0 main_cause= main_root_cause=",
		"causes": "cause=orphan_tool_reply root_cause=tool_calls_dropped_on_save failed_calls=10 percent_of_failed=100 stages=[trips/planner] versions=[1.5.0] statuses=[400] last_error_text=bad request last_conversation_id=conv-38",
		"first_bad_version": "rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save first_bad=1.5.0 last_clean=1.4.0 findings=10 conversations=10\n" +
			"rule_id=tool_content_not_string root_cause= first_bad=1.4.0 last_clean= findings=3 conversations=3",
		"whose_change": "rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save first_version=1.5.0 last_clean_version=1.4.0 findings=10 conversations=10 failed_calls=10 versions_with_it=[1.5.0] failed_with_cause=orphan_tool_reply\n" +
			"rule_id=tool_content_not_string root_cause= first_version=1.2.0 last_clean_version= findings=3 conversations=3 failed_calls=0 versions_with_it=[1.4.0] failed_with_cause=",
		"conversation": "service=trips service_version=1.5.0 status=400 cause=orphan_tool_reply new_findings=[tool message answers call_00000022, but the assistant message before it has no tool_calls] error_text=bad request seconds=22",
		"finding_examples": "rule_id=orphan_tool_reply severity=reject service_version=1.5.0 tool_call_id=call_00000038 conversation_id=conv-38\n" +
			"rule_id=tool_content_not_string severity=lenient service_version=1.4.0 tool_call_id=call_00000002 conversation_id=conv-2",
		"masked_runs": "service_version=1.4.0 last_cause=orphan_tool_reply last_status=400 runs=2 calls_in_them=6\n" +
			"service_version=1.5.0 last_cause=orphan_tool_reply last_status=400 runs=2 calls_in_them=6",
		"open_tool_calls": "state=missing service_version=1.4.0 calls=5\nstate=missing service_version=1.5.0 calls=5\n" +
			"state=open service_version=1.4.0 calls=5\nstate=open service_version=1.5.0 calls=5",
		"latent_violations": "rule_id=tool_content_not_string service=trips stage=planner findings=3 predicted_rejects=3 versions=[1.4.0]",
		"tokens_by_service": "service=trips stage=planner model=deepseek-chat calls=40 input=4000 output=400 in_failed_calls=1100",
		"unknown_errors":    "wording=no N failed_calls=2 services=[quotes] statuses=[400] example_text=no 1 last_exchange_id=unknown-1",
		"alerts":            "ended_at=<nil> state=firing severity=critical name=StageFailureRate failed=412 calls=1030 peak_value=0.45 first_bad=1.4.0 last_clean=1.3.9",
	}
	for _, name := range queries.Names() {
		t.Run(name, func(t *testing.T) {
			res := ask(t, name, given[name])
			if len(res.Rows) == 0 {
				t.Fatal("no rows")
			}
			if w, ok := want[name]; ok {
				if d := cmp.Diff(w, pick(res, w)); d != "" {
					t.Errorf("answer (-want +got):\n%s\nall: %v\n%s", d, res.Columns, text(res))
				}
			}
		})
	}

	t.Run("slowest first", func(t *testing.T) {
		res := ask(t, "slowest", map[string]string{"since": "90 minutes", "service": "trips"})
		if len(res.Rows) != 40 || res.Rows[0][0] != 39.0 {
			t.Errorf("%d rows, the first took %v s", len(res.Rows), res.Rows[0][0])
		}
	})
	t.Run("whose change of one rule", func(t *testing.T) {
		for rule, want := range map[string]int{"orphan_tool_reply": 1, "tool_content_not_string": 1, "rate_limit": 0} {
			if res := ask(t, "whose_change", map[string]string{"rule": rule}); len(res.Rows) != want {
				t.Errorf("whose_change of %s: %d rows", rule, len(res.Rows))
			}
		}
	})
	t.Run("parameters", func(t *testing.T) {
		for _, given := range []map[string]string{{"service": "other"}, {"since": "1 second"}, {"stage": "executor"}} {
			if res := ask(t, "causes", given); len(res.Rows) != 0 {
				t.Errorf("causes %v: %d rows", given, len(res.Rows))
			}
		}
	})
}

// pick writes res as column=value, with the columns of the first line of want.
func pick(res *clickhouse.Result, want string) string {
	first, _, _ := strings.Cut(want, "\n")
	var lines []string
	for _, row := range res.Rows {
		var line []string
		for i, c := range res.Columns {
			if strings.Contains(" "+first, " "+c.Name+"=") {
				line = append(line, fmt.Sprintf("%s=%v", c.Name, row[i]))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}
