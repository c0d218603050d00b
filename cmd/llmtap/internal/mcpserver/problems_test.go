package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// knownProblems are 25 open problems and a resolved one.
type knownProblems struct{}

func (knownProblems) List(_ context.Context, f problems.Filter) (list []problems.Problem, err error) {
	for i := range 26 {
		p := problems.Problem{ID: fmt.Sprintf("00a%013x", i), State: alerts.ProblemNew, Meaning: "assistant message saved without its tool_calls"}
		p.Service, p.Stage, p.Cause, p.Severity, p.FirstSeen = fmt.Sprintf("shop-%d", i), "planner", "tool_calls_dropped_on_save", "critical", time.Now()
		if i == 25 {
			p.State, p.Resolved = alerts.ProblemResolved, &alerts.Resolution{Decision: alerts.Decision{By: "anna"}, Version: "2.4.1"}
		}
		if len(f.State) == 0 || slices.Contains(f.State, p.State) {
			list = append(list, p)
		}
	}
	return list, nil
}

func (k knownProblems) Get(ctx context.Context, id string) (d problems.Details, err error) {
	list, _ := k.List(ctx, problems.Filter{})
	for _, p := range list {
		if p.ID == id {
			return problems.Details{Problem: p, History: []problems.Action{{At: time.Now(), Action: "resolve", By: "anna", Via: "api", Comment: "fixed in 2.4.1"}}}, nil
		}
	}
	return d, alerts.ErrNoProblem
}

// Decide implements problems.API: it tells who decided.
func (k knownProblems) Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (problems.Problem, error) {
	x, err := k.Get(ctx, id)
	x.Assignee = fmt.Sprintf("%s %s %s%s %q", by.ID, d.Action, d.Assignee, d.Version, d.Note)
	if !d.Until.IsZero() {
		x.Assignee += time.Until(d.Until).Round(time.Hour).String()
	}
	return x.Problem, err
}

// Tools that change something exist on request only, say which of them are destructive, and carry the name of the user.
func TestActs(t *testing.T) {
	o := options(t, nil)
	o.Act, o.Actor = true, "anna@laptop"
	c := connect(t, o)
	must.Contain(t, c.InitializeResult().Instructions, "only if the user has asked for it")
	destructive := map[string]bool{}
	for _, tool := range must.Get(c.ListTools(t.Context(), nil))(t).Tools {
		if !tool.Annotations.ReadOnlyHint {
			destructive[tool.Name] = *tool.Annotations.DestructiveHint
		}
	}
	must.Equal(t, fmt.Sprint(destructive), "map[acknowledge:false assign:false reopen:false resolve:true silence:true]", "tools that change something")
	for _, x := range []struct{ tool, arguments, want, undo string }{
		{"acknowledge", `{"id":"00a0000000000001"}`, `anna@laptop acknowledge ""`, "on the page of the alert"},
		{"assign", `{"id":"00a0000000000001","to":"bob","note":"his change"}`, `anna@laptop assign bob "his change"`, `assign {"id":"00a0000000000001","to":"nobody"}`},
		{"assign", `{"id":"00a0000000000001","to":"nobody"}`, `anna@laptop assign ""`, ""},
		{"resolve", `{"id":"00a0000000000001","fixed_in":"2.4.1"}`, `anna@laptop resolve 2.4.1 ""`, `reopen {"id":"00a0000000000001"}`},
		{"silence", `{"id":"00a0000000000001","for":"4h"}`, `anna@laptop ignore ""4h0m0s`, `reopen {"id":"00a0000000000001"}`},
		{"reopen", `{"id":"00a0000000000001"}`, `anna@laptop reopen ""`, "resolve or silence"},
	} {
		text, res := ask(t, c, x.tool, x.arguments)
		must.Equal(t, res.IsError, false, "%s", text)
		must.Contain(t, text, "Done, by anna@laptop.")
		must.Contain(t, text, x.want)
		must.Contain(t, text, x.undo)
	}
	for arguments, want := range map[string]string{`{"id":"00a0000000000001","for":""}`: "without an end", `{"id":"ffff0000","for":"1h"}`: "there is no problem ffff0000", `{"id":"00a0000000000001","for":"soon"}`: "soon"} {
		text, res := ask(t, c, "silence", arguments)
		must.Equal(t, res.IsError, true, "%s: %s", arguments, text)
		must.Contain(t, text, want)
	}
}

// Over HTTP, they need the role of a responder, and carry the name that the listener knows.
func TestActsOverHTTP(t *testing.T) {
	h := NewHandler(options(t, nil))
	post := func(who access.Person, query string) (int, string) {
		t.Helper()
		r := httptest.NewRequest("POST", Path+query, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"resolve","arguments":{"id":"00a0000000000001"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(remote.HeaderActor, "mallory")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(access.With(t.Context(), who)))
		return w.Code, w.Body.String()
	}
	code, _ := post(access.Person{Name: "vera", Role: access.Viewer}, "?act=true")
	must.Equal(t, code, http.StatusForbidden, "of a viewer")
	_, text := post(access.Person{Name: "rosa", Role: access.Responder}, "")
	must.Contain(t, text, `unknown tool \"resolve\"`)
	_, text = post(access.Person{Name: "rosa", Role: access.Responder}, "?act=true")
	must.Contain(t, text, "Done, by rosa.")
}

// A drafted rule is checked and replayed.
func TestBacktestRule(t *testing.T) {
	o := options(t, func(context.Context, string) (*clickhouse.Result, error) { return &clickhouse.Result{}, nil })
	o.Rules = engine.Default()
	c := connect(t, o)
	text, res := ask(t, c, "backtest", `{"rules":"groups: [{name: mine, rules: [{alert: X, expr: 'sum(increase(llmtap_cals_total[10m])) > 20'}]}]"}`)
	must.Equal(t, res.IsError, true, "%s", text)
	must.Contain(t, text, "llmtap_calls_total")
	must.Contain(t, text, "rules:")
	text, res = ask(t, c, "backtest", `{"rules":"groups: [{name: mine, rules: [{alert: X, expr: 'sum by (stage) (increase(llmtap_calls_total{status=\"400\"}[10m])) > 20', labels: {severity: warning}}]}]"}`)
	must.Equal(t, res.IsError, true, "%s", text)
	must.Contain(t, text, "status")
	text, res = ask(t, c, "backtest", `{"since":"1h","rules":"groups: [{name: mine, rules: [{alert: PlannerFails, expr: 'sum by (service, stage) (increase(llmtap_failed_calls_total{status=\"400\"}[10m])) > 20', for: 1m, labels: {severity: warning}}]}]"}`)
	must.Equal(t, res.IsError, false, "%s", text)
	must.Contain(t, text, "PlannerFails")
}

func TestProblems(t *testing.T) {
	c := connect(t, options(t, nil)) // ClickHouse is not needed
	f := func(arguments string, want ...string) {
		t.Helper()
		text, res := ask(t, c, "problems", arguments)
		for _, w := range want {
			if res.IsError || !strings.Contains(text, w) {
				t.Errorf("%s: error %v, no %q in %s", arguments, res.IsError, w, text)
			}
		}
	}
	f(`{}`, "20 open problems: 20 new. 1 resolved or ignored problem is not listed: problems {\"state\":\"resolved\"}", "5 further problems left out",
		"new, critical: shop-0/planner: assistant message saved without its tool_calls", `next: problems {"id":"00a0000000000000"}`)
	f(`{"state":"resolved"}`, "No open problems: 1 resolved.", "fixed in 2.4.1, says anna")
	f(`{"id":"00a0000000000019"}`, "resolved, critical: shop-25/planner", "resolved: fixed in 2.4.1, says anna", "anna said that it is resolved, fixed in 2.4.1",
		`next: incident {"service":"shop-25","stage":"planner","why":"tool_calls_dropped_on_save"}`)
}
