package clickhouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A queryTest is the expected result of a query on the rows of incident.
type queryTest struct {
	query string
	given map[string]string
	want  string // the relevant columns of the rows as column=value
}

// The numbers are counted by hand from incident.
var queryTests = []queryTest{
	{"failures_by_stage", nil, `service=trips stage=planner service_version=1.5.0 calls=19 failed_calls=10 failed_percent=52.6 retries=1 main_cause=orphan_tool_reply main_root_cause=tool_calls_dropped_on_save
service=trips stage=planner service_version=1.4.0 calls=20 failed_calls=0 failed_percent=0 retries=0 main_cause= main_root_cause=`},
	{"failures_by_stage", map[string]string{"cause": "rate_limit"}, `service_version=1.4.0 calls=20 failed_calls=0 main_cause=
service_version=1.5.0 calls=19 failed_calls=0 main_cause=`},
	{"failures_over_time", map[string]string{"step": "5 minutes", "since": "3 hours"}, `service=trips stage=planner calls=10 failed_calls=0 failed_percent=0 main_cause=
service=trips stage=planner calls=10 failed_calls=0 failed_percent=0 main_cause=
service=trips stage=planner calls=10 failed_calls=5 failed_percent=50 main_cause=orphan_tool_reply
service=trips stage=planner calls=9 failed_calls=5 failed_percent=55.6 main_cause=orphan_tool_reply`},
	{"failures_over_time", map[string]string{"service": "quotes", "since": "9d"}, `service=quotes stage=planner calls=3 failed_calls=3 failed_percent=100 main_cause=unexplained`},
	{"causes", nil, `cause=orphan_tool_reply root_cause=tool_calls_dropped_on_save failed_calls=10 percent_of_failed=100 retries=0 stages=[trips/planner] versions=[1.5.0] statuses=[400] last_error_text=bad request last_conversation_id=conv-38`},
	{"causes", map[string]string{"since": "7d"}, `cause=orphan_tool_reply failed_calls=10 percent_of_failed=71.4 retries=0
cause=unexplained failed_calls=4 percent_of_failed=28.6 retries=1`},
	{"bursts", nil, `service=trips stage=planner cause=orphan_tool_reply main_root_cause=tool_calls_dropped_on_save failed_calls=10 calls=19 failed_percent=52.6 peak_failed=5 peak_percent=55.6 first_version=1.5.0 examples=[019aa0b0-0000-7014-8000-000000000014 019aa0b0-0000-701e-8000-00000000001e]`},
	{"bursts", map[string]string{"window": "1 minute", "min_failed": "1"}, `failed_calls=10 calls=19 failed_percent=52.6 peak_failed=1 peak_percent=100`},
	{"first_occurrence", nil, `service=trips cause=orphan_tool_reply first_version=1.5.0 last_clean_version=1.4.0 failed_calls=10 first_exchange_id=019aa0b0-0000-7014-8000-000000000014
service=quotes cause=unexplained first_version=1.4.0 last_clean_version= failed_calls=4 first_exchange_id=unknown-0`},
	{"first_bad_version", nil, `rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save first_bad=1.5.0 last_clean=1.4.0 findings=10 conversations=10
rule_id=tool_content_not_string root_cause= first_bad=1.4.0 last_clean= findings=3 conversations=3`},
	{"whose_change", nil, `rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save first_version=1.5.0 last_clean_version=1.4.0 findings=10 conversations=10 failed_calls=10 versions_with_it=[1.5.0] failed_with_cause=orphan_tool_reply
rule_id=tool_content_not_string root_cause= first_version=1.2.0 last_clean_version= findings=3 conversations=3 failed_calls=0 versions_with_it=[1.4.0] failed_with_cause=`},
	{"whose_change", map[string]string{"cause": "orphan_tool_reply"}, "rule_id=orphan_tool_reply findings=10"},
	{"conversation", map[string]string{"conversation_id": "conv-22"}, `service=trips service_version=1.5.0 status=400 cause=orphan_tool_reply new_findings=[masked_failure tool message answers call_00000022, but the assistant message before it has no tool_calls] error_text=bad request seconds=22`},
	{"finding_examples", nil, `rule_id=orphan_tool_reply severity=reject service_version=1.5.0 tool_call_id=call_00000038 conversation_id=conv-38
rule_id=tool_content_not_string severity=lenient service_version=1.4.0 tool_call_id=call_00000002 conversation_id=conv-2`},
	{"finding_examples", map[string]string{"rule": "masked_failure"}, `rule_id=masked_failure severity=signal conversation_id=conv-26`},
	{"masked_failures", nil, `signal=masked_failure service=trips stage=planner cause=orphan_tool_reply status=400 failures=3 conversations=3 versions=[1.5.0] last_conversation_id=conv-26
signal=conversation_ended_on_error service=trips stage=planner cause=orphan_tool_reply status=400 failures=1 conversations=1 versions=[1.5.0] last_conversation_id=conv-28`},
	{"open_tool_calls", nil, `state=missing service_version=1.4.0 tool_name=read_file calls=5
state=missing service_version=1.5.0 tool_name=read_file calls=5
state=open service_version=1.4.0 tool_name=read_file calls=5
state=open service_version=1.5.0 tool_name=read_file calls=5`},
	{"slowest_tools", nil, `tool_name=read_file service=trips stage=planner calls=20 measured=10 errors=1 p50_seconds=3 p95_seconds=4 max_seconds=4 total_seconds=60`},
	{"latent_violations", nil, `target=openai_chat/deepseek own_target=true rule_id=tool_content_not_string provider=deepseek service=trips stage=planner violations=3 conversations=3 versions=[1.4.0]
target=openai_chat/openai own_target=false rule_id=tool_content_not_string provider=deepseek service=trips stage=planner violations=3 conversations=3 versions=[1.4.0]`},
	{"latent_violations", map[string]string{"target": "openai"}, `target=openai_chat/openai violations=3`},
	{"provider_changes", nil, `provider=deepseek violation=orphan_tool_reply after_plain_assistant service=trips version=1.5.0 evidence=accepted until 09:30`},
	// Two of three retries were wasted; accepted requests have 3000 tokens in 630,490 bytes.
	{"wasted_retries", map[string]string{"since": "7d"}, `service=quotes cause=unexplained status=400 refused_calls=4 wasted_calls=2 by_sdk=1 wasted_bytes=42002 about_tokens=200 wasted_seconds=2 worst_conversation_id=conv-1`},
	{"unknown_errors", nil, `wording=no N failed_calls=4 services=[quotes] statuses=[400] example_text=no 3 last_exchange_id=unknown-3`},
	// Per million tokens: 2400 at 1000 USD, 1600 cached ones at 100 USD and 400 of output at 2000 USD.
	{"usage", nil, `service=trips agent=trip-planner provider=deepseek model=deepseek-chat calls=40 failed_calls=10 input=4000 cached=1600 output=400 cost_usd=3.36 p50_seconds=14.5 p95_seconds=36.1 p50_first_byte=0.16 p95_first_byte=0.19`},
	{"alerts", nil, `ended_at=<nil> state=firing severity=critical name=StageFailureRate failed=412 calls=1030 peak_value=0.45 first_bad=1.4.0 last_clean=1.3.9`},
}

// The first matching row applies.
var testPrices = queries.Prices{
	{Provider: "openai", Model: "*", Input: 1},
	{Provider: "deepseek", Model: "deepseek-c*t", Input: 1000, CachedInput: 100, Output: 2000},
	{Model: "*", Input: 7},
}

// runQuery runs a query and its EXPLAIN with these parameters.
func runQuery(t *testing.T, s *clickhouse.Sink, name string, given map[string]string, prices queries.Prices) *clickhouse.Result {
	t.Helper()
	q, err := queries.Get(name)
	must(t, err)
	params, err := q.Bind(given, time.Now())
	must(t, err)
	for _, bound := range q.Bound {
		params[bound] = prices.Bound()
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

// Every query returns the expected rows of an incident, and ClickHouse can EXPLAIN it.
func TestQueries(t *testing.T) {
	s := open(t)
	b := incident()
	for range 2 { // rows written twice must not be counted twice
		must(t, s.Write(t.Context(), b))
	}
	for _, a := range queryTests {
		t.Run(a.query, func(t *testing.T) {
			res := runQuery(t, s, a.query, a.given, testPrices)
			if d := cmp.Diff(a.want, pick(res, a.want)); d != "" && a.want != "" {
				t.Errorf("result for %v (-want +got):\n%s\nall: %v\n%s", a.given, d, res.Columns, text(res))
			}
		})
	}
	separate := []string{"conversations_hit", "messages_with", "slowest_calls"} // tested below and in other tests
	for _, name := range queries.Names() {
		if !slices.Contains(separate, name) && !slices.ContainsFunc(queryTests, func(a queryTest) bool { return a.query == name }) {
			t.Errorf("%s: not tested; add it to queryTests", name)
		}
	}

	t.Run("conversations hit", func(t *testing.T) {
		res := runQuery(t, s, "conversations_hit", map[string]string{"cause": "orphan_tool_reply"}, nil)
		var want []string
		for i := 38; i >= 20; i -= 2 {
			calls := 1
			if i == 38 {
				calls = 2
			}
			want = append(want, fmt.Sprintf("conversation_id=conv-%d causes=[orphan_tool_reply] failed_calls=1 calls=%d went_on=%v", i, calls, i == 38))
		}
		if d := cmp.Diff(strings.Join(want, "\n"), pick(res, want[0])); d != "" {
			t.Errorf("conversations_hit (-want +got):\n%s", d)
		}
	})
	t.Run("slowest first", func(t *testing.T) {
		res := runQuery(t, s, "slowest_calls", map[string]string{"since": "90 minutes", "service": "trips"}, nil)
		if len(res.Rows) != 40 || res.Rows[0][0] != 39.0 {
			t.Errorf("%d rows, the first with %v s; want 40 and 39", len(res.Rows), res.Rows[0][0])
		}
	})
	t.Run("unknown cost", func(t *testing.T) {
		for _, prices := range []queries.Prices{nil, {{Provider: "openai", Model: "*", Input: 1}}, {{Provider: "deepseek", Model: "deepseek_chat", Input: 1}}} {
			if got := pick(runQuery(t, s, "usage", nil, prices), "cost_usd="); got != "cost_usd=<nil>" {
				t.Errorf("with prices %v: %s", prices, got)
			}
		}
	})
}

// If a call is stored again, only the newest row counts, also in queries that search the table without FINAL: its conversation
// became known later, and its response arrived after the timeout.
func TestQueriesUseNewestRow(t *testing.T) {
	s := open(t)
	b := incident()
	b.Exchanges, b.Findings, b.ToolCalls = b.Exchanges[22:25], nil, nil // 22 and 24 failed
	must(t, s.Write(t.Context(), b))
	e := &b.Exchanges[0]
	e.Seq++
	e.Conversation, e.Status, e.Failed, e.Cause, e.RootCause, e.ErrorText = "conv-24", 200, false, "", "", ""
	must(t, s.Write(t.Context(), b))
	for conversation, want := range map[string]string{"conv-22": "", "conv-24": "status=200\nstatus=400"} {
		if got := pick(runQuery(t, s, "conversation", map[string]string{"conversation_id": conversation}, nil), "status="); got != want {
			t.Errorf("%s: %q, want %q", conversation, got, want)
		}
	}
	want := "conversation_id=conv-24 failed_calls=1 calls=2 went_on=false"
	if got := pick(runQuery(t, s, "conversations_hit", nil, nil), want); got != want {
		t.Errorf("conversations_hit: %s, want %s", got, want)
	}
}

// Each parameter filters the rows.
func TestQueryFilters(t *testing.T) {
	s := open(t)
	must(t, s.Write(t.Context(), incident()))
	nothing := map[string]string{
		"since": "now", "until": "2001-01-01", "service": "nobody", "stage": "no such", "cause": "no such", "rule": "no such", "tool": "no such",
		"model": "no such", "provider": "no such", "target": "no such",
	}
	keep := map[string]bool{ // these also return other rows
		"failures_by_stage cause": true, "failures_over_time cause": true, "alerts since": true,
	}
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		must(t, err)
		for _, p := range q.Parameters {
			value, ok := nothing[p.Name]
			if !ok || keep[name+" "+p.Name] || slices.ContainsFunc(q.Parameters, func(p queries.Parameter) bool { return p.Required }) {
				continue
			}
			given := map[string]string{"since": "9d", p.Name: value}
			if rows := len(runQuery(t, s, name, given, nil).Rows); rows != 0 {
				t.Errorf("%s --%s %q: %d rows", name, p.Name, value, rows)
			}
		}
	}
}

// pick formats res as column=value, with the columns of the first line of want.
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
