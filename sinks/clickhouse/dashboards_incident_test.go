package clickhouse_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// The verdict of is_it_over depends on the time and the calls since the last failure, for each version.
func TestIsItOver(t *testing.T) {
	t.Parallel()
	const failed, ok = true, false
	f := func(want string, calls ...overCall) {
		t.Helper()
		s := open(t)
		b := &sinks.Batch{}
		for i, c := range calls {
			e := sinktest.Rows(1, 1).Exchanges[0]
			e.ID = fmt.Sprintf("call-%d", i)
			e.StartedAt = time.Now().Add(-c.age)
			e.Labels.ServiceVersion, e.Failed = c.version, c.failed
			if c.failed {
				e.Status, e.Cause = 400, "orphan_tool_reply"
			}
			b.Exchanges = append(b.Exchanges, e)
		}
		must.Do(t, s.Write(t.Context(), b))
		must.Equal(t, pick(runQuery(t, s, "is_it_over", nil, nil), want), want, "row")
	}
	const u = 6 * time.Minute // so that a slow test changes no text
	incident := []overCall{{30 * u, "1.0", ok, 10}, {29 * u, "1.1", failed, 1}, {25 * u, "1.1", failed, 8}, {24 * u, "1.1", ok, 8}, {20 * u, "1.1", failed, 1}}
	with := func(more ...overCall) (all []overCall) {
		for _, c := range append(slices.Clone(incident), more...) {
			for range c.n {
				all = append(all, c)
			}
		}
		return all
	}
	// 10 of 18 calls failed from the first to the last failure.
	f("verdict=no calls for 2 h calls_since=0 expected_failures=0 failed_60m=0 versions=[1.1: its last call failed]", with()...)
	f("verdict=too early to say: none for 2 h in 2 calls calls_since=2 expected_failures=1.1 versions=[1.2: never in 2 calls 1.1: its last call failed]",
		with(overCall{10 * u, "1.2", ok, 2})...)
	f("verdict=none for 2 h in 8 calls calls_since=8 expected_failures=4.4 versions=[1.1: none in the last 3 calls 1.2: never in 5 calls]",
		with(overCall{10 * u, "1.2", ok, 5}, overCall{9 * u, "1.1", ok, 3})...)
	f("verdict=ongoing: 2 in the last 5 min calls_since=5 failed_5m=2 failed_15m=2 failed_60m=2 versions=[1.1: none in the last 5 calls]",
		with(overCall{2 * time.Minute, "1.1", failed, 2}, overCall{time.Minute, "1.1", ok, 5})...)
}

// overCall is n calls of a version.
type overCall struct {
	age     time.Duration
	version string
	failed  bool
	n       int
}

// Values that a stage uses side by side, and values that vary from call to call, are not changes of the stage.
func TestWhatChanged(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := sinktest.Rows(0, 60)
	begin := time.Now().Add(-time.Hour)
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.StartedAt, e.Labels.Stage, e.Labels.ServiceVersion, e.Failed, e.Cause, e.Capture = begin.Add(time.Duration(i)*time.Minute), "planner", "1.0", false, "", "full"
		e.Settings = map[string]string{"max_tokens": fmt.Sprint(i), "temperature": "0.2"}
		if i%2 == 1 && i > 30 {
			e.Model = "deepseek-reasoner" // used beside the old model
		}
		if i >= 40 {
			e.PromptHash, e.ToolsHash, e.Settings = 0xbeef, 0xcafe, map[string]string{"max_tokens": fmt.Sprint(i)}
		}
		if i == 45 {
			e.Failed, e.Status, e.Cause = true, 400, "orphan_tool_reply"
		}
	}
	b.Exchanges[59].Model = "deepseek-chat"
	must.Do(t, s.Write(t.Context(), b))
	want := `change=system prompt changed in 1.0 from abcdef to beef next_failure=orphan_tool_reply seconds_to_failure=300
change=temperature changed in 1.0 from 0.2 to none next_failure=orphan_tool_reply seconds_to_failure=300
change=tools changed in 1.0: the declarations of the same names, fedcba to cafe next_failure=orphan_tool_reply seconds_to_failure=300
change=model also in 1.0 deepseek-reasoner, beside deepseek-chat next_failure=orphan_tool_reply seconds_to_failure=840`
	must.Agree(t, cmp.Diff(want, pick(runQuery(t, s, "what_changed", nil, nil), want)), "what_changed")
}

// Two calls of the version before do not tell that it is clean.
func TestFewCleanCalls(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	b.Exchanges = slices.Delete(b.Exchanges, 2, 20) // of 1.4.0
	for i := range b.Findings {
		b.Findings[i].CleanCalls = 2
	}
	must.Do(t, s.Write(t.Context(), b))
	want := "first_version=1.5.0 last_clean_version= rule_id=orphan_tool_reply"
	got, _, _ := strings.Cut(pick(runQuery(t, s, "whose_change", nil, nil), want), "\n")
	must.Equal(t, got, want, "whose_change")
	b.Findings = nil // the failures alone
	fresh := open(t)
	must.Do(t, fresh.Write(t.Context(), b))
	want = "first_version=1.5.0 last_clean_version= failed_with_cause=orphan_tool_reply rule_id= failed_calls=10"
	must.Contain(t, pick(runQuery(t, fresh, "whose_change", nil, nil), want), want, "without findings")
}

// A version that sends the history of an older one again did not introduce its defect, and no version is bad for a style
// finding.
func TestWhoseChange(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for i := range b.Findings {
		b.Findings[i].Labels.ServiceVersion = "1.6.0" // the fixed version sent the history again
		if b.Findings[i].Rule == "tool_content_not_string" {
			b.Findings[i].Severity = check.Style
		}
	}
	must.Do(t, s.Write(t.Context(), b))
	want := `first_version=1.5.0 last_clean_version=1.4.0 rule_id=orphan_tool_reply severity=reject
first_version= last_clean_version= rule_id=tool_content_not_string severity=style`
	must.Equal(t, pick(runQuery(t, s, "whose_change", map[string]string{"service": "trips"}, nil), want), want, "whose_change")
	for i := range b.Findings { // nothing is remembered
		b.Findings[i].FirstVersion, b.Findings[i].LastClean, b.Findings[i].CleanCalls = "", "", 0
	}
	fresh := open(t)
	must.Do(t, fresh.Write(t.Context(), b))
	must.Equal(t, pick(runQuery(t, fresh, "whose_change", map[string]string{"service": "trips"}, nil), want), want, "whose_change of rows")
}

// A conversation is stuck if its newest calls were refused for their content and none succeeded since.
func TestStuck(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := &sinks.Batch{}
	begin := time.Now().Add(-time.Hour)
	add := func(conversation string, calls ...string) {
		for _, call := range calls {
			e := sinktest.Rows(1, 1).Exchanges[0]
			status, cause, _ := strings.Cut(call, " ")
			e.ID, e.StartedAt = fmt.Sprintf("call-%02d", len(b.Exchanges)), begin.Add(time.Duration(len(b.Exchanges))*time.Second)
			e.Conversation, e.Cause = conversation, cause
			e.Status, _ = strconv.Atoi(status)
			switch e.Failed = cause != ""; cause {
			case "orphan_tool_reply":
				e.CauseClass, e.RootCause = "tool_pairing", "replayed_history_without_binding"
			case "auth":
				e.CauseClass = "access"
			case "retry":
				e.Cause, e.Retry = "orphan_tool_reply", 1
			case "other stage":
				e.Failed, e.Cause, e.Labels.Stage = false, "", "summariser"
			}
			b.Exchanges = append(b.Exchanges, e)
		}
	}
	find := func(conversation, rule, exchange string, message int) {
		f := sinktest.Rows(1, 1).Findings[0]
		f.ID, f.Conversation, f.Exchange, f.Rule, f.Message = fmt.Sprint(len(b.Findings)), conversation, exchange, rule, message
		f.RootCause, f.Fix = "replayed_history_without_binding", "Load the calls."
		b.Findings = append(b.Findings, f)
	}
	const ok, refused = "200", "400 orphan_tool_reply"
	add("healthy", ok, ok, ok)
	add("recovered", refused, refused, ok)
	add("refused once", ok, refused)
	add("refused again", refused, ok, refused)
	add("continued elsewhere", refused, refused, "200 other stage")
	add("without capacity", ok, "429 rate_limit", "503 server_error", "429 rate_limit")
	add("without a key", "401 auth", "403 auth")
	add("SDK retries", ok, refused, "400 retry", "400 retry")
	add("stuck", ok, refused, "429 rate_limit", refused, refused) // call-24 to call-28
	add("two causes", ok, "400 arguments_not_string", refused, "503 server_error")
	find("stuck", "orphan_tool_reply", "call-25", 3)
	find("stuck", "content_null", "call-24", 1) // accepted before
	find("two causes", "arguments_not_string", "call-30", 2)
	find("two causes", "orphan_tool_reply", "call-31", 4)
	find("healthy", "content_null", "call-00", 1)
	must.Do(t, s.Write(t.Context(), b))
	f := func(given map[string]string, want string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, pick(runQuery(t, s, "stuck", given, nil), "conversation_id= cause= failed_in_a_row= rule_id= message_index= exchange_id=")), given)
	}
	twoCauses := "conversation_id=two causes cause=orphan_tool_reply failed_in_a_row=2 rule_id=orphan_tool_reply message_index=4 exchange_id=call-31"
	stuck := "conversation_id=stuck cause=orphan_tool_reply failed_in_a_row=3 rule_id=orphan_tool_reply message_index=3 exchange_id=call-25"
	f(nil, twoCauses+"\n"+stuck)
	f(map[string]string{"cause": "orphan_tool_reply"}, twoCauses+"\n"+stuck)
	f(map[string]string{"cause": "arguments_not_string"}, "") // a later cause
	f(map[string]string{"stage": "summariser"}, "")
	b.Exchanges = b.Exchanges[25:26] // its response arrived after the timeout
	b.Exchanges[0].Seq++
	b.Exchanges[0].Failed, b.Exchanges[0].Status, b.Exchanges[0].Cause, b.Findings = false, 200, "", nil
	must.Do(t, s.Write(t.Context(), b))
	f(nil, twoCauses+"\n"+strings.Replace(stuck, "row=3", "row=2", 1))
}
