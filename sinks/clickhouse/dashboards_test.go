package clickhouse_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// A queryTest is the expected result of a query on the rows of incident.
type queryTest struct {
	query string
	given map[string]string
	want  string // the relevant columns of the rows as column=value
}

// The numbers are counted by hand from incident.
var queryTests = []queryTest{
	{"failures_by_stage", nil, `service=trips stage=planner service_version=1.5.0 calls=19 failed_calls=10 failed_percent=53 retries=1 main_cause=orphan_tool_reply main_root_cause=tool_calls_dropped_on_save
service=trips stage=planner service_version=1.4.0 calls=20 failed_calls=0 failed_percent=0 retries=0 main_cause= main_root_cause=`},
	{"failures_by_stage", map[string]string{"cause": "rate_limit"}, `service_version=1.4.0 calls=20 failed_calls=0 main_cause=
service_version=1.5.0 calls=19 failed_calls=0 main_cause=`},
	{"failures_over_time", map[string]string{"step": "5 minutes", "since": "3 hours"}, `service=trips stage=planner calls=10 failed_calls=0 failed_percent=0 main_cause=
service=trips stage=planner calls=10 failed_calls=0 failed_percent=0 main_cause=
service=trips stage=planner calls=10 failed_calls=5 failed_percent=50 main_cause=orphan_tool_reply
service=trips stage=planner calls=9 failed_calls=5 failed_percent=56 main_cause=orphan_tool_reply`},
	{"failures_over_time", map[string]string{"service": "quotes", "since": "9d"}, `service=quotes stage=planner calls=3 failed_calls=3 failed_percent=100 main_cause=unexplained`},
	{"causes", nil, `service=trips stage=planner cause=orphan_tool_reply known=map[both:10] root_cause=tool_calls_dropped_on_save failed_calls=10 percent_of_failed=100 retries=0 versions=[1.5.0] statuses=[400] last_error_text=bad request last_conversation_id=conv-38`},
	{"causes", map[string]string{"since": "7d"}, `cause=orphan_tool_reply failed_calls=10 percent_of_failed=77 retries=0
cause=unexplained failed_calls=3 percent_of_failed=23 retries=1`},
	{"bursts", nil, `service=trips stage=planner cause=orphan_tool_reply main_root_cause=tool_calls_dropped_on_save failed_calls=10 calls=19 failed_percent=53 peak_failed=5 peak_percent=56 first_version=1.5.0 examples=[019aa0b0-0000-7014-8000-000000000014 019aa0b0-0000-701e-8000-00000000001e]`},
	{"bursts", map[string]string{"window": "1 minute", "min_failed": "1"}, `failed_calls=10 calls=19 failed_percent=53 peak_failed=1 peak_percent=100`},
	{"whose_change", nil, `first_version=1.5.0 last_clean_version=1.4.0 failed_with_cause=orphan_tool_reply rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save failed_calls=10 findings=10 conversations=10 versions_with_it=[1.5.0]
first_version=1.4.0 last_clean_version= failed_with_cause=unexplained rule_id= root_cause= failed_calls=3 findings=0 conversations=0 versions_with_it=[1.4.0]
first_version=1.2.0 last_clean_version= failed_with_cause= rule_id=tool_content_not_string root_cause= failed_calls=0 findings=3 conversations=3 versions_with_it=[1.4.0]`},
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
	// The bodies are not stored. TestToolReplies of cmd/llmtap reads them in every dialect.
	{"tool_replies", map[string]string{"tool": "read_file", "limit": "2"}, `service=trips service_version=1.5.0 tool_name=read_file called_with= returned=
service=trips service_version=1.5.0 tool_name=read_file called_with= returned=`},
	{"slowest_tools", nil, `tool_name=read_file service=trips stage=planner calls=20 measured=10 errors=2 p50_seconds=3 p95_seconds=4 max_seconds=4 total_seconds=60`},
	{"latent_violations", nil, `target=openai_chat/deepseek own_target=true rule_id=tool_content_not_string provider=deepseek service=trips stage=planner violations=3 conversations=3 versions=[1.4.0]
target=openai_chat/openai own_target=false rule_id=tool_content_not_string provider=deepseek service=trips stage=planner violations=3 conversations=3 versions=[1.4.0]`},
	{"latent_violations", map[string]string{"target": "openai"}, `target=openai_chat/openai violations=3`},
	{"provider_changes", nil, `provider=deepseek violation=orphan_tool_reply after_plain_assistant service=trips version=1.5.0 evidence=accepted until 09:30`},
	// Two of three retries were wasted; accepted requests have 3000 tokens in 630,490 bytes.
	{"wasted_retries", map[string]string{"since": "7d"}, `service=quotes cause=unexplained status=400 refused_calls=4 wasted_calls=2 by_sdk=1 wasted_bytes=42002 about_tokens=200 wasted_seconds=2 worst_conversation_id=quote-1`},
	{"stuck", map[string]string{"since": "7d"}, `conversation_id=quote-1 service=quotes cause=unexplained root_cause= failed_in_a_row=2 rule_id= message_index=<nil> exchange_id=unknown-3`},
	{"unknown_errors", nil, `wording=no N failed_calls=3 services=[quotes] statuses=[400] example_text=no 3 last_exchange_id=unknown-3`},
	// Per million tokens: 1800 at 1000 USD, 1200 cached ones at 100 USD and 300 of output at 2000 USD. Failed calls report none.
	{"usage", nil, `service=trips agent=trip-planner provider=deepseek model=deepseek-chat calls=39 failed_calls=10 retries=1 without_usage=10 input=3000 cached=1200 output=300 cost_usd=2.52 tokens_per_call=110 p50_seconds=14.5 p95_seconds=34.3 p50_first_byte=0.164 p95_first_byte=0.184`},
	// A token missed costs 900 USD less than a million times. Every second call of 1.5.0 missed 50, and the others failed.
	{"cache", nil, `service=trips stage=planner service_version=1.5.0 calls=19 without_usage=10 input=1000 cached_percent=40 reusable=900 read_percent=44 reason=message_edited element=messages detail= calls_with_it=9 missed=500 missed_usd=0.45 first_exchange_id=019aa0b0-0000-7015-8000-000000000015
service=trips stage=planner service_version=1.4.0 calls=20 without_usage=0 input=2000 cached_percent=40 reusable=800 read_percent=100 reason= element= detail= calls_with_it=0 missed=0 missed_usd=0 first_exchange_id=`},
	{"cache", map[string]string{"service": "quotes", "since": "9d"}, `service=quotes calls=3 without_usage=3 input=<nil> cached_percent=<nil> reusable=<nil> read_percent=<nil> reason= missed=<nil> missed_usd=<nil>`},
	// The newest call is an SDK retry, which does not count.
	{"is_it_over", nil, `service=trips stage=planner cause=orphan_tool_reply calls_since=0 expected_failures=0 failed_5m=0 failed_60m=10 versions=[1.5.0: its last call failed]`},
	{"is_it_over", map[string]string{"version": "1.4.0"}, ``},
	{"affected", map[string]string{"by": "tenant", "limit": "3"}, `attribute=tenant value=tenant-1 failed_calls=2 calls=6 failed_percent=33 others_percent=24 conversations=2
attribute=tenant value=tenant-3 failed_calls=2 calls=6 failed_percent=33 others_percent=24 conversations=2
attribute=tenant value=tenant-6 failed_calls=2 calls=5 failed_percent=40 others_percent=24 conversations=2`},
	{"affected", map[string]string{"attr": "tenant=tenant-1"}, `attribute=region value=eu failed_calls=2 calls=6 others_percent=<nil>
attribute=tenant value=tenant-1 failed_calls=2 calls=6 others_percent=<nil>
attribute=user value=0000000000000000 failed_calls=2 calls=6 others_percent=<nil>`},
	// Accepted requests have 3000 tokens in 630,490 bytes, and a million tokens cost 1000 USD.
	{"failure_cost", nil, `service=trips stage=planner cause=orphan_tool_reply failed_calls=10 without_usage=10 input_tokens=<nil> output_tokens=<nil> reported_usd=<nil> about_tokens=1001 at_most_usd=1.001 seconds=290`},
	{"providers", nil, `provider=deepseek model=deepseek-chat server=api.deepseek.com calls=39 failed_calls=10 failed_percent=26 main_cause=orphan_tool_reply statuses=[400] p50_seconds=14.5 tokens_per_second=0.7`},
	// 60 tokens at 1000 USD per million, 40 cached ones at 100 and 10 of output at 2000.
	{"calls", map[string]string{"sort": "seconds", "limit": "2"}, `service=trips stage=planner service_version=1.5.0 model=deepseek-chat status=200 cause= seconds=39 input_tokens=100 output_tokens=10 cost=0.084 retry=1 conversation_id=conv-38
service=trips stage=planner service_version=1.5.0 model=deepseek-chat status=400 cause=tool_calls_dropped_on_save seconds=38 input_tokens=<nil> output_tokens=<nil> cost=<nil> retry=0 conversation_id=conv-38`},
	{"calls", map[string]string{"failed": "yes", "cause": "orphan_tool_reply", "seconds": "<30", "limit": "1"}, `seconds=28 conversation_id=conv-28`},
	{"calls", map[string]string{"failed": "no", "tool": "write_file", "tokens": "110", "limit": "1", "cost": "0.08"}, `conversation_id=conv-38`},
	{"calls_by", map[string]string{"by": "version", "sort": "calls"}, `group=trips 1.4.0 calls=20 failed_calls=0 main_reason= conversations=20 input_tokens=2000 cost=1.68 unpriced=0
group=trips 1.5.0 calls=19 failed_calls=10 main_reason=root cause tool_calls_dropped_on_save conversations=19 input_tokens=1000 cost=0.84 unpriced=10`},
	{"calls_by", map[string]string{"limit": "1"}, `group=conv-38 of_service=trips of_stage=planner calls=1 failed_calls=1 main_reason=root cause tool_calls_dropped_on_save`},
	{"calls_by", map[string]string{"by": "tool", "sort": "calls"}, `group=read_file calls=39
group=search calls=20
group=write_file calls=19`},
	{"calls_by", map[string]string{"by": "attr.region", "sort": "failed"}, `group=eu calls=39 failed_calls=10`},
	{"calls_by", map[string]string{"by": "all", "sort": "p95"}, `group=all calls calls=39 failed_calls=10 failed_percent=26 conversations=39 cached_tokens=1200 tool_calls=36 p50=14.5`},
	{"calls_over_time", map[string]string{"step": "1 year", "by": "version", "groups": `["trips 1.5.0"]`}, `group=trips 1.5.0 calls=19 failed_calls=10 failed_percent=53 conversations=19 input_tokens=1000 cost=0.84 unpriced=10`},
	{"calls_over_time", map[string]string{"step": "5 minutes", "by": "cause"}, `group=root cause tool_calls_dropped_on_save calls=5 failed_calls=5 failed_percent=100
group=root cause tool_calls_dropped_on_save calls=5 failed_calls=5 failed_percent=100`},
	{"services", nil, `service=trips origin=hook sdk=python/0.1.0 calls=40 processes=5 bodies=[shape] degraded=0 without_id=0`},
	{"what_changed", nil, `change=system prompt (shape) changed in 1.5.0 from abcdef to abcd00 service=trips stage=planner calls=20 failed_percent=50 failed_percent_before=0 next_failure=orphan_tool_reply seconds_to_failure=0
change=temperature changed in 1.5.0 from 0.2 to 0.9 service=trips stage=planner calls=20 failed_percent=50 failed_percent_before=0 next_failure=orphan_tool_reply seconds_to_failure=0
change=tools (shape) changed in 1.5.0: added write_file; removed search service=trips stage=planner calls=20 failed_percent=50 failed_percent_before=0 next_failure=orphan_tool_reply seconds_to_failure=0
change=version changed from 1.4.0 to 1.5.0 service=trips stage=planner calls=20 failed_percent=50 failed_percent_before=0 next_failure=orphan_tool_reply seconds_to_failure=0`},
	{"what_changed", map[string]string{"what": "tools"}, `change=tools (shape) changed in 1.5.0: added write_file; removed search`},
	{"alert_actions", nil, `action=silence refused=false who=Anna via=slack name=StageFailureRate comment=deploy`},
	{"alerts", nil, `ended_at=<nil> state=firing severity=critical name=StageFailureRate failed=412 calls=1030 peak_value=0.45 first_bad=1.4.0 last_clean=1.3.9`},
}

// The first matching row applies.
var testPrices = price.Table{
	{Provider: "openai", Model: "*", Input: 1},
	{Provider: "deepseek", Model: "deepseek-c*t", Input: 1000, CachedInput: 100, Output: 2000},
	{Model: "*", Input: 7},
}

// valuesOf returns parameters with one value each.
func valuesOf(given map[string]string) queries.Values {
	values := queries.Values{}
	for name, v := range given {
		values[name] = []string{v}
	}
	return values
}

// runQuery runs a query with these parameters.
func runQuery(t *testing.T, s *clickhouse.Sink, name string, given map[string]string, prices price.Table) *clickhouse.Result {
	t.Helper()
	sql, params := statement(t, name, given, prices)
	res, err := s.Query(t.Context(), sql, params)
	must.Do(t, err, name, given)
	return res
}

// planQuery runs the EXPLAIN of a query with these parameters.
func planQuery(t *testing.T, s *clickhouse.Sink, name string, given map[string]string) {
	t.Helper()
	sql, params := statement(t, name, given, testPrices)
	must.Do(t, must.Err(s.Query(t.Context(), "EXPLAIN indexes = 1 "+sql, params)), "EXPLAIN", name)
}

// rowsOf returns the number of rows of a query with these parameters.
func rowsOf(t *testing.T, s *clickhouse.Sink, name string, given map[string]string) int {
	t.Helper()
	return len(runQuery(t, s, name, given, nil).Rows)
}

func statement(t *testing.T, name string, given map[string]string, prices price.Table) (sql string, params map[string]string) {
	t.Helper()
	q, err := queries.Get(name)
	must.Do(t, err)
	sql, params, err = q.Bind(valuesOf(given), time.Now())
	must.Do(t, err)
	for _, bound := range q.Bound {
		params[bound] = prices.Bound()
	}
	return sql, params
}

// Every query returns the expected rows of an incident, and ClickHouse can EXPLAIN it.
func TestQueries(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for range 2 { // rows written twice must not be counted twice
		must.Do(t, s.Write(t.Context(), b))
	}
	for _, a := range queryTests {
		t.Run(a.query, func(t *testing.T) {
			if from, to := b.Exchanges[0].StartedAt.UTC(), b.Exchanges[39].StartedAt.UTC(); a.query == "cache" && from.Day() != to.Day() {
				t.Skip("the calls are of two days, for each of which the query has rows")
			}
			planQuery(t, s, a.query, a.given)
			res := runQuery(t, s, a.query, a.given, testPrices)
			if d := cmp.Diff(a.want, pick(res, a.want)); d != "" && a.want != "" {
				t.Errorf("result for %v (-want +got):\n%s\nall: %v\n%s", a.given, d, res.Columns, text(res))
			}
		})
	}
	separate := []string{"conversations_hit", "differs", "messages_with", "slowest_calls"} // tested below and in other tests
	for _, name := range queries.Names() {
		if !slices.Contains(separate, name) && !slices.ContainsFunc(queryTests, func(a queryTest) bool { return a.query == name }) {
			t.Errorf("%s: not tested; add it to queryTests", name)
		}
	}

	t.Run("conversations hit", func(t *testing.T) {
		given := map[string]string{"cause": "orphan_tool_reply"}
		planQuery(t, s, "conversations_hit", given)
		res := runQuery(t, s, "conversations_hit", given, nil)
		var want []string
		for i := 38; i >= 20; i -= 2 {
			want = append(want, fmt.Sprintf("conversation_id=conv-%d causes=[orphan_tool_reply] failed_calls=1 calls=1 went_on=%v", i, i == 38)) // by an SDK retry
		}
		must.Agree(t, cmp.Diff(strings.Join(want, "\n"), pick(res, want[0])), "conversations_hit")
	})
	t.Run("slowest first", func(t *testing.T) {
		given := map[string]string{"since": "90 minutes", "service": "trips"}
		planQuery(t, s, "slowest_calls", given)
		res := runQuery(t, s, "slowest_calls", given, nil)
		if len(res.Rows) != 40 || res.Rows[0][0] != 39.0 {
			t.Errorf("%d rows, the first with %v s; want 40 and 39", len(res.Rows), res.Rows[0][0])
		}
	})
	t.Run("unknown cost", func(t *testing.T) {
		for _, prices := range []price.Table{nil, {{Provider: "openai", Model: "*", Input: 1}}, {{Provider: "deepseek", Model: "deepseek_chat", Input: 1}}} {
			must.Equal(t, pick(runQuery(t, s, "usage", nil, prices), "cost_usd="), "cost_usd=<nil>", "with prices %v", prices)
		}
	})
}

// If a call is stored again, only the newest row counts, also in queries that search the table without FINAL: its conversation
// became known later, and its response arrived after the timeout.
func TestQueriesUseNewestRow(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	b.Exchanges, b.Findings, b.ToolCalls = b.Exchanges[22:25], nil, nil // 22 and 24 failed
	must.Do(t, s.Write(t.Context(), b))
	e := &b.Exchanges[0]
	e.Seq++
	e.Conversation, e.Status, e.Failed, e.Cause, e.RootCause, e.ErrorText = "conv-24", 200, false, "", "", ""
	must.Do(t, s.Write(t.Context(), b))
	for conversation, want := range map[string]string{"conv-22": "", "conv-24": "status=200\nstatus=400"} {
		must.Equal(t, pick(runQuery(t, s, "conversation", map[string]string{"conversation_id": conversation}, nil), "status="), want, "%s", conversation)
	}
	want := "conversation_id=conv-24 failed_calls=1 calls=2 went_on=false"
	must.Equal(t, pick(runQuery(t, s, "conversations_hit", nil, nil), want), want, "conversations_hit")
}

// Each parameter and each common filter selects rows.
func TestQueryFilters(t *testing.T) {
	t.Parallel()
	slowtest.Skip(t)
	s := open(t)
	must.Do(t, s.Write(t.Context(), incident()))
	nothing := map[string]string{
		"since": "now", "until": "2001-01-01", "cause": "no such", "rule": "no such", "tool": "no such", "target": "no such", "severity": "no such",
		"what": "no such", "reason": "no such", "status": "599", "conversation_id": "no such", "returned": "no such",
		"seconds": "1000000", "tokens": "1000000000", "failed": "", // yes or no, each of which some calls are
	}
	keep := map[string]bool{ // these also return other rows
		"failures_by_stage cause": true, "failures_over_time cause": true, "alerts since": true, "providers cause": true,
		"failures_by_stage status": true, "failures_over_time status": true, "providers status": true, "what_changed status": true,
	}
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(t)
		base := map[string]string{}
		for _, p := range q.Parameters {
			switch {
			case p.Name == "since":
				base["since"] = "9d"
			case p.Required:
				base[p.Name] = map[string]string{"conversation_id": "conv-22", "text": "PORT", "tool": "read_file"}[p.Name]
			}
		}
		if rows := rowsOf(t, s, name, base); rows == 0 {
			t.Errorf("%s without a filter: no rows", name)
		}
		filters := 0
		for _, p := range q.Parameters {
			given := maps.Clone(base)
			given[p.Name] = nothing[p.Name]
			if p.Filter {
				filters++
				if _, ok := nothing[p.Name]; !ok {
					given[p.Name] = "no such"
				}
			}
			if p.Name == "limit" {
				given[p.Name] = "1"
				must.Equal(t, rowsOf(t, s, name, given), 1, "%s --limit 1: rows", name)
			}
			if given[p.Name] == "" || p.Name == "limit" || p.Required || keep[name+" "+p.Name] {
				continue
			}
			must.Equal(t, rowsOf(t, s, name, given), 0, "%s --%s: rows", name, p.Name)
		}
		if filters == 0 {
			t.Errorf("%s has no common filter", name)
		}
	}
}

// An existing value of each filter keeps the rows.
func TestQueryFilterMatches(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), incident()))
	for name, value := range map[string]string{
		"service": "trips", "stage": "planner", "environment": "production", "version": "1.5.0", "provider": "deepseek", "model": "deepseek-chat",
		"status": "4xx", "user": "0000000000000000", "attr": "region=eu",
	} {
		for _, query := range []string{"causes", "finding_examples", "failures_by_stage", "is_it_over"} {
			if rows := rowsOf(t, s, query, map[string]string{name: value}); rows == 0 {
				t.Errorf("%s --%s %s: no rows", query, name, value)
			}
		}
	}
	res := runQuery(t, s, "open_tool_calls", map[string]string{"attr": "tenant=tenant-2"}, nil)
	must.Equal(t, pick(res, "calls="), "calls=1\ncalls=1\ncalls=1", "tool calls of a tenant")
}

// A call whose duration or tokens are unknown is neither above nor below a number. The clock of an agent may be fast.
func TestCallFilters(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := sinktest.Rows(0, 3)
	now := time.Now().Truncate(time.Second)
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.StartedAt, e.StoredAt, b.Contents[i].SeenAt, b.History[i].SeenAt = now.Add(-time.Minute), now, now, now
	}
	b.Exchanges[0].InputTokens, b.Exchanges[0].OutputTokens = 0, 0
	b.Exchanges[1].Duration = 0
	b.Exchanges[1].StartedAt = now.Add(50 * time.Minute)
	must.Do(t, s.Write(t.Context(), b))
	f := func(want int, filter, value string, more ...string) {
		t.Helper()
		given := map[string]string{filter: value}
		for i := 0; i < len(more); i += 2 {
			given[more[i]] = more[i+1]
		}
		must.Equal(t, rowsOf(t, s, "calls", given), want, "--%s %q %v: calls", filter, value, more)
	}
	f(2, "seconds", "<10")
	f(2, "seconds", "0.1")
	f(2, "tokens", "<10000") // the first call failed
	f(2, "tokens", "10")
	f(1, "text", "PORT", "since", now.Add(40*time.Minute).UTC().Format(time.RFC3339))
	f(3, "text", "port")
}

// A statement that needs too much memory says so.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	_, err := open(t).Query(t.Context(), "SELECT length(groupArray(number)) FROM numbers(10000000) SETTINGS max_memory_usage = 1000000", nil)
	must.Equal(t, clickhouse.OutOfMemory(err), true, "%v", err)
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

// The statements and the analyzer find the same prices and compute the same costs.
func TestPricesAgree(t *testing.T) {
	t.Parallel()
	prices := append(price.Table{{Provider: "openai", Model: `odd_%\*x`, Input: 3, CachedInput: 1, Output: 7, CacheWrite: 4}, {Provider: "other", Model: "free*"}}, price.Default()...)
	models := [][2]string{
		{"openai", `odd_%\ö, x`},
		{"openai", `odd1%\x`},
		{"openai", `odd_1\x`},
		{"openai", `odd_%x`},
		{"other", "free"},
		{"openai", "free"},
		{"openai", "gpt-5"},
		{"azure.ai.openai", "gpt-5-mini-2025-08-07"},
		{"openai", "gpt-5-tomorrow"},
		{"openai", "GPT-5"},
		{"openai", ""},
		{"aws.bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"},
		{"gcp.vertex_ai", "claude-opus-4-1@20250805"},
		{"deepseek", "deepseek-chat"},
		{"moonshot_ai", "kimi-k2-thinking-turbo"},
		{"moonshot_ai", "kimi-k2-thinking"},
	}
	s := open(t)
	b := sinktest.Rows(0, 3*len(models))
	want := map[[2]string]float64{}
	lookup := price.NewLookup(prices)
	for i := range b.Exchanges {
		e, m := &b.Exchanges[i], models[i%len(models)]
		e.StartedAt, e.StoredAt = time.Now().Add(-time.Minute), time.Now()
		e.Labels.Service, e.Labels.Agent, e.Provider, e.Model = "trips", "", m[0], m[1]
		e.InputTokens, e.CachedTokens, e.OutputTokens = int64(100_000+7*i), int64(1000*i), int64(900+i)
		e.CacheReported, e.CacheWritten, e.CacheHour = true, int64(500*i), int64(50*i)
		if p := lookup.Of(m[0], m[1]); p != nil {
			want[m] += p.Microdollars(price.Tokens{Input: e.InputTokens, Cached: e.CachedTokens, Written: e.CacheWritten, Hour: e.CacheHour, Output: e.OutputTokens}) / 1e6
		}
	}
	must.Do(t, s.Write(t.Context(), b))
	res := runQuery(t, s, "usage", nil, prices)
	column := func(name string) int {
		return slices.IndexFunc(res.Columns, func(c clickhouse.Column) bool { return c.Name == name })
	}
	must.Equal(t, len(res.Rows), len(models), "rows")
	for _, row := range res.Rows {
		m := [2]string{fmt.Sprint(row[column("provider")]), fmt.Sprint(row[column("model")])}
		got, known := row[column("cost_usd")].(float64)
		if usd, ok := want[m]; ok != known || math.Abs(got-usd) > 0.00006 {
			t.Errorf("%v costs %v (known: %v), the analyzer says %v (known: %v)", m, got, known, usd, ok)
		}
	}
	must.Equal(t, len(want), 9, "models with a price")
}

// Pages of lists continue where the page before ended: each row is on one page, in each order.
func TestListPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), incident()))
	f := func(name, id, by string, sorts ...string) {
		t.Helper()
		for _, sort := range sorts {
			given := map[string]string{"sort": sort, "since": "30 days", "limit": "1000"}
			if by != "" {
				given["by"] = by
			}
			all := pick(runQuery(t, s, name, given, testPrices), id)
			var pages []string
			given["limit"] = strconv.Itoa(max(7, strings.Count(all, "\n")/slowtest.Tenth(t, 60))) // with the flag -slow, 7
			for {
				res := runQuery(t, s, name, given, testPrices)
				if len(res.Rows) == 0 {
					break
				}
				pages = append(pages, pick(res, id))
				next := res.Rows[len(res.Rows)-1]
				given["after"] = next[len(next)-1].(string)
			}
			must.Agree(t, cmp.Diff(all, strings.Join(pages, "\n")), name, sort)
		}
	}
	f("calls", "exchange_id=", "", "time", "seconds", "tokens", "cost", "messages")
	f("calls_by", "group=", "conversation", "time", "calls", "failed", "seconds", "tokens", "cost", "p95")
}
