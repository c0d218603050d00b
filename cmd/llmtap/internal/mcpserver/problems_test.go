package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
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
