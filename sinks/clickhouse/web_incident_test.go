package clickhouse_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// The statements of the incident page count failed calls with a cause or a root cause, or calls with a finding. The numbers are
// counted by hand from incident.
func TestWebIncident(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for range 2 { // rows written twice must not be counted twice
		must.Do(t, s.Write(t.Context(), b))
	}
	statements, prices := webStatements(t), testPrices
	f := func(statement, why, rules, want string, more ...string) {
		t.Helper()
		values := queries.Values{"since": {"3 hours"}, "service": {"trips"}}
		for name, value := range map[string]string{"why": why, "rules": rules} {
			if value != "" {
				values[name] = []string{value}
			}
		}
		for i := 0; i+1 < len(more); i += 2 {
			values[more[i]] = []string{more[i+1]}
		}
		sql, params, err := statements[statement].Bind(values, time.Now())
		must.Do(t, err)
		params["prices"] = prices.Bound()
		res := must.Get(s.Query(t.Context(), sql, params))(t)
		must.Agree(t, cmp.Diff(want, pick(res, want)), statement, why, rules)
	}
	// Call 39 is a retry of the SDK.
	f("incident_totals", "tool_calls_dropped_on_save", "", "calls=39 hits=10 calls_since=0")
	f("incident_totals", "orphan_tool_reply", "", "calls=39 hits=10 calls_since=0")
	f("incident_totals", "", "masked_failure,no_such", "calls=39 hits=3 calls_since=12")
	f("incident_totals", "rate_limit", "", "calls=39 hits=0 calls_since=39")
	f("incident_versions", "tool_calls_dropped_on_save", "", "service=trips version=1.5.0 hits=10 calls=19\nservice=trips version=1.4.0 hits=0 calls=20")
	f("incident_totals", "", "tool_calls_dropped_on_save", "calls=39 hits=10 calls_since=0") // findings with a root cause
	f("problem_versions", "tool_calls_dropped_on_save", "", "version=1.4.0 hits=0 calls=20\nversion=1.5.0 hits=10 calls=19", "step", "100000000")
	f("problem_harm", "tool_calls_dropped_on_save", "", "calls=10 users=1 tenants=7 input_tokens=0 output_tokens=0 unreported_calls=10 about_tokens=1001 reported_usd=<nil> at_most_usd=1.0006 unpriced=[]")
	prices = nil
	f("problem_harm", "tool_calls_dropped_on_save", "", "reported_usd=<nil> at_most_usd=<nil> unpriced=[deepseek-chat]")
	f("incident_over_time", "", "", "hits=0 others=10\nhits=0 others=10\nhits=5 others=5\nhits=5 others=4", "step", "300")
	// Only the call after the failure in conv-38 shows that a conversation recovered.
	f("incident_conversations", "", "", `conversation_id=conv-36 hits=1 recovered=0 conversations=10 all_recovered=1
conversation_id=conv-34 hits=1 recovered=0 conversations=10 all_recovered=1`, "limit", "2")
	f("incident_conversations", "", "masked_failure", `conversation_id=conv-26 hits=1 recovered=0 conversations=3 all_recovered=0
conversation_id=conv-24 hits=1 recovered=0 conversations=3 all_recovered=0
conversation_id=conv-22 hits=1 recovered=0 conversations=3 all_recovered=0`)
	f("incident_examples", "orphan_tool_reply", "", "n=10 conversation_id=conv-30 status=400 error_text=bad request rule_id=orphan_tool_reply root_cause=tool_calls_dropped_on_save")
	f("incident_examples", "", "masked_failure", "n=3 conversation_id=conv-26 status=400 error_text=bad request rule_id=masked_failure root_cause=")
	prices = testPrices
	// Every second call of 1.5.0 missed the prompt cache; none has a finding about it.
	f("problem_versions", "message_edited", "message_edited", "version=1.4.0 hits=0 calls=20\nversion=1.5.0 hits=9 calls=19", "step", "100000000")
	f("incident_examples", "message_edited", "message_edited", "n=9 conversation_id=conv-37 status=200 rule_id=")
	f("cache_breaks", "", "", `service_version=1.4.0 reason= element= calls=20 reusable=800 missed=0 missed_usd=0 unpriced=0
service_version=1.5.0 reason=message_edited element=messages calls=10 reusable=900 missed=500 missed_usd=0.45 unpriced=0`)
	f("cache_over_time", "", "", "reason= reusable=800 missed=0\nreason=message_edited reusable=900 missed=500", "step", "100000000")
}

// The page of a problem lists its alerts, and what people did about it, the end of a silence included, which has no group.
func TestWebProblem(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Now().UTC().Truncate(time.Second)
	b := &sinks.Batch{}
	for i, problem := range []string{"p1", "p2", "", "p1"} {
		b.Alerts = append(b.Alerts, sinks.Alert{ID: fmt.Sprint("a", i), Version: 1, Name: "StageFailureRate", StartedAt: at.Add(time.Duration(i) * time.Minute), Problem: problem})
	}
	for i, a := range []sinks.AlertAction{
		{Action: "assign", Group: "g1", Comment: "to Bea"},
		{Action: "silence", Group: "g1", SilenceID: "s1"},
		{Action: "unsilence", SilenceID: "s1"},
		{Action: "silence", SilenceID: "s2"},
		{Action: "resolve", Group: "g2"},
		{Action: "unsilence"},
		{Action: "silence", Group: "g1", SilenceID: "s3", Comment: "problem ignored"},
		{Action: "ignore", Group: "g1"},
	} {
		a.ID, a.At, a.Actor = fmt.Sprint(i), at.Add(time.Duration(i)*time.Minute), "anna"
		b.Actions = append(b.Actions, a)
	}
	must.Do(t, s.Write(t.Context(), b))
	f := func(statement, name, value, want string) {
		t.Helper()
		sql, params, err := webStatements(t)[statement].Bind(queries.Values{name: {value}}, at)
		must.Do(t, err)
		must.Agree(t, cmp.Diff(want, pick(must.Get(s.Query(t.Context(), sql, params))(t), want)), statement)
	}
	f("problem_alerts", "id", "p1", "alert_id=a3\nalert_id=a0")
	f("problem_actions", "group", "g1", "action=ignore who=anna comment=\naction=unsilence who=anna comment=\naction=silence who=anna comment=\naction=assign who=anna comment=to Bea")
	f("incident_alert", "id", "a1", "problem=p2")
}

// A cause that is a guess is told apart from the same cause stated by a provider, also by the root cause.
func TestGuesses(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for i := range b.Exchanges {
		switch e := &b.Exchanges[i]; {
		case e.Failed && e.Labels.Service == "trips" && i < 28:
			e.CauseKnown = "guessed"
		case e.Failed && e.Labels.Service == "trips":
			e.CauseKnown = "stated"
		case e.Failed: // one of them is a retry of the SDK
			e.Cause, e.CauseKnown = "server_error", map[bool]string{true: "guessed", false: "stated"}[e.ID == "unknown-0" || e.ID == "unknown-1"]
		}
	}
	must.Do(t, s.Write(t.Context(), b))
	all := webStatements(t)
	for _, name := range []string{"causes", "calls_by", "calls", "slowest_calls", "providers", "failures_over_time"} {
		all[name] = must.Get(queries.Get(name))(t)
	}
	f := func(statement, want string, params ...string) {
		t.Helper()
		values := queries.Values{"since": {"7d"}}
		for i := 0; i+1 < len(params); i += 2 {
			values[params[i]] = []string{params[i+1]}
		}
		sql, bound, err := all[statement].Bind(values, time.Now())
		must.Do(t, err)
		for _, name := range all[statement].Bound {
			bound[name] = testPrices.Bound()
		}
		res := must.Get(s.Query(t.Context(), sql, bound))(t)
		must.Agree(t, cmp.Diff(want, pick(res, want)), statement, params)
	}
	f("causes", `cause=orphan_tool_reply known=map[guessed:4 stated:6] root_cause=tool_calls_dropped_on_save failed_calls=10`, "service", "trips")
	f("causes", `cause=server_error known=map[guessed:2 stated:1] root_cause= failed_calls=3`, "cause", "server_error")
	f("incident_totals", "hits=3 guessed=2", "why", "server_error")
	f("incident_totals", "hits=10 guessed=4", "why", "orphan_tool_reply")
	f("incident_totals", "hits=10 guessed=0", "why", "tool_calls_dropped_on_save")
	f("causes_over_time", "why=cause server_error n=1\nwhy=probably cause server_error n=2", "service", "quotes", "step", "100000000")
	f("stages", "reason=probably cause server_error reason_calls=2", "service", "quotes")
	f("stages", "reason=root cause tool_calls_dropped_on_save reason_calls=10", "service", "trips")
	f("versions", "reasons=[probably cause server_error cause server_error]", "service", "quotes")
	f("calls_by", "group=probably cause server_error calls=2\ngroup=cause server_error calls=1", "service", "quotes", "by", "cause", "sort", "calls")
	f("calls", "cause=server_error\ncause=server_error\ncause=probably server_error\ncause=probably server_error", "service", "quotes", "failed", "yes")
	f("calls", "cause=tool_calls_dropped_on_save", "service", "trips", "failed", "yes", "limit", "1")
	f("slowest_calls", "cause=probably server_error\ncause=server_error\ncause=server_error\ncause=probably server_error", "service", "quotes", "status", "400")
	f("providers", "main_cause=probably server_error", "service", "quotes")
	f("failures_over_time", "main_cause=probably server_error", "service", "quotes")
	f("timeline", "cause=probably server_error\ncause=probably server_error\ncause=server_error\ncause=server_error", "service", "quotes")
}
