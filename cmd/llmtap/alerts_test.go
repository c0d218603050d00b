package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks"
)

// incidentHour returns an hour of a planner with ten minutes of a version that drops tool_calls.
func incidentHour(t *testing.T, start time.Time) *analyzer.Output {
	t.Helper()
	type object = map[string]any
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	out := new(analyzer.Output)
	seq, calls := uint64(0), 0
	body := func(v any) []byte {
		return must.Get(json.Marshal(v))(t)
	}
	now := start
	labels := event.Labels{Service: "checkout-agent", Environment: "prod", Stage: "planner"}
	add := func(ev *event.Event) {
		seq++
		ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Origin, ev.Capture = now, labels, "i1", seq, event.OriginHook, event.CaptureFull
		ev.Part, ev.Parts, ev.BodyBytes = 1, 1, len(ev.Body)
		a.Process(ev, analyzer.Position{Seq: seq, Time: now}, true, out)
	}
	call := func(status int, answer any, history ...object) {
		calls++
		id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", calls)
		add(&event.Event{
			Kind: event.Request, Exchange: id, URL: "https://api.deepseek.com/chat/completions", Method: "POST",
			Body: body(object{"model": "deepseek-chat", "messages": history}),
		})
		now = now.Add(1300 * time.Millisecond)
		add(&event.Event{Kind: event.Response, Exchange: id, Status: status, Duration: 1300 * time.Millisecond, ContentType: "application/json", Body: body(answer)})
	}
	for i := 0; now.Before(start.Add(time.Hour)); i++ {
		broken := now.Sub(start) > 20*time.Minute && now.Sub(start) < 30*time.Minute
		labels.ServiceVersion, labels.Conversation = "2.3.9", fmt.Sprint("order-", i)
		if broken {
			labels.ServiceVersion = "2.4.0"
		}
		id := fmt.Sprintf("call_%024d", i)
		user := object{"role": "user", "content": "read the cart"}
		asks := object{"role": "assistant", "content": "", "tool_calls": []object{{"id": id, "type": "function", "function": object{"name": "read_cart", "arguments": "{}"}}}}
		reply := object{"role": "tool", "tool_call_id": id, "content": "3 items"}
		choice := func(m object) object { return object{"choices": []object{{"index": 0, "message": m}}} }
		call(200, choice(asks), user)
		if broken {
			text := "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
			call(400, object{"error": object{"message": text, "type": "invalid_request_error"}}, user, object{"role": "assistant", "content": ""}, reply)
		} else {
			call(200, choice(object{"role": "assistant", "content": "done"}), user, asks, reply)
		}
		now = now.Add(8 * time.Second)
	}
	a.Advance(now.Add(10*time.Second), true, out)
	return out
}

// A backtest finds the same alerts in ClickHouse as the live engine in the tallies, at the same step and with the same
// evidence.
func TestAlertsBacktest(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	out := incidentHour(t, start)
	cfg := engine.Default()
	engine := must.Get(engine.New(t.Context(), cfg, engine.Options{}))(t)
	defer engine.Close()
	live := map[string]alerts.Alert{} // at their start; each ends with its highest severity
	for i := range out.Tallies {
		must.Do(t, engine.Add(t.Context(), &out.Tallies[i]))
		for _, a := range engine.Active() {
			if live[a.Name].Name == "" {
				live[a.Name] = a
			}
		}
	}

	dsn := startEngine(t, t.TempDir())
	sink := openSink(t, dsn)
	must.Do(t, sink.Write(t.Context(), &sinks.Batch{Exchanges: out.Exchanges, Findings: out.Findings}))

	ask := func(args ...string) string {
		t.Helper()
		return succeed(t, append([]string{"alerts", "backtest", "--clickhouse-dsn", dsn, "--since", start.Format(time.RFC3339), "--until", start.Add(time.Hour).Format(time.RFC3339)}, args...)...)
	}
	var r backtest.Report
	must.Do(t, json.Unmarshal([]byte(ask("--format", "json")), &r))
	if failed := countedBy(out, analyzer.MetricFailed); r.Calls != countedBy(out, analyzer.MetricCalls) || r.Failed != failed || failed == 0 {
		t.Errorf("%d calls, %d failed; the tallies contain %d, %d", r.Calls, r.Failed, countedBy(out, analyzer.MetricCalls), failed)
	}
	got := map[string]backtest.Alert{}
	for _, a := range r.Alerts {
		if got[a.Alert].Alert == "" {
			got[a.Alert] = a
		}
	}
	var findings []string
	for k, want := range live {
		a, ok := got[k]
		if d := a.StartsAt.Sub(want.StartsAt).Abs(); !ok || d > cfg.EvaluationInterval {
			t.Errorf("%s: live from %v, backtest from %v", k, want.StartsAt, a.StartsAt)
		}
		if ev := want.Evidence; len(ev.Rules) > 0 {
			s := ev.Shares[0]
			if a.Example == nil || !slices.Contains(ev.Rules, a.Example.Rule) || a.Fix != s.Fix || a.Shares[0].Cause != s.Cause || a.Shares[0].RootCause != s.RootCause ||
				a.FirstVersion != s.FirstVersion || a.LastClean != s.LastClean {
				t.Errorf("%s: live %+v, example %+v\nbacktest %+v, example %+v", k, ev, ev.Example, a, a.Example)
			}
			findings = append(findings, k)
		}
		delete(got, k)
	}
	for k, a := range got {
		t.Errorf("%s: only in the backtest, from %v", k, a.StartsAt)
	}
	if len(findings) == 0 {
		t.Error("no alert on findings fired")
	}
	i := -1
	for j, a := range r.Alerts {
		if a.Alert == "StageFailureRate" && a.Labels["severity"] == "critical" {
			i = j
		}
	}
	if i < 0 {
		t.Fatalf("no StageFailureRate: %+v", r.Alerts)
	}
	a := r.Alerts[i]
	must.Agree(t, cmp.Diff([]backtest.Share{{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: a.Failed}}, a.Shares), "shares")
	if a.FirstVersion != "2.4.0" || a.LastClean != "2.3.9" || a.EndsAt == nil || a.LastFailed == nil || a.CallsSince < 30 || a.Example.Rule != "orphan_tool_reply" || !strings.Contains(a.Fix, "tool_calls") {
		t.Errorf("%+v, example %+v", a, a.Example)
	} else if d := a.EndsAt.Sub(*a.LastFailed); d < 5*time.Minute || d > 5*time.Minute+cfg.EvaluationInterval {
		t.Errorf("resolved %v after the last failure, want 5 minutes", d)
	}
	text := ask()
	wantAll(t, "backtest", text,
		"StageFailureRate (critical)\n  until ", "first version 2.4.0, last clean version 2.3.9", ", none since in ", " findings in ", "(tool_calls_dropped_on_save)", "example: call 018f", "fix: ", "never fired: ",
		"not tested: EventsDropped", "service=checkout-agent stage=planner",
	)
	t.Log(text)

	rule := "groups:\n- name: g\n  rules:\n  - {alert: Never, expr: 'sum(llmtap_failed_calls_total) > 1e6'}\n"
	file := filetest.Temp(t, "mine.yaml", rule)
	if text := ask(file); !strings.HasPrefix(text, "0 alerts between ") || !strings.Contains(text, "never fired: Never\n") {
		t.Errorf("a rule that never fires:\n%s", text)
	}
}

func countedBy(out *analyzer.Output, metric string) (n uint64) {
	for _, y := range out.Tallies {
		for _, c := range y.Counts {
			if c.Metric == metric {
				n += c.N
			}
		}
	}
	return n
}
