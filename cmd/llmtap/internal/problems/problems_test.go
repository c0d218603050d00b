package problems

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// known is problems in memory.
type known struct {
	list    []alerts.Problem
	history []sinks.AlertAction
	missing error
	by      alerts.Actor           // of the last decision
	decided alerts.ProblemDecision // the last one
}

func (k *known) All() []alerts.Problem { return k.list }

func (k *known) Get(_ context.Context, id string) (alerts.Problem, bool, error) {
	for _, p := range k.list {
		if p.ID() == id {
			return p, true, nil
		}
	}
	return alerts.Problem{}, false, nil
}

func (k *known) Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (alerts.Problem, error) {
	p, ok, _ := k.Get(ctx, id)
	if err := d.Validate(); err != nil {
		return p, err
	}
	if !ok {
		return p, alerts.ErrNoProblem
	}
	k.by, k.decided = by, d
	return p, nil
}

func (k *known) History(context.Context, string) ([]sinks.AlertAction, error) {
	return k.history, k.missing
}

// fixture returns problems in all states.
func fixture() *known {
	now := time.Now()
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	problem := func(stage string, change func(*alerts.Problem)) alerts.Problem {
		p := alerts.Problem{
			Key: `tool_calls_dropped_on_save{service="shop",stage="` + stage + `"}`, Service: "shop", Environment: "prod", Stage: stage, Cause: "tool_calls_dropped_on_save",
			FirstSeen: before(2 * time.Hour), LastSeen: before(5 * time.Second), Rules: []string{"StageFailureRate"}, Severity: "critical", Summary: "shop/" + stage + ": 45% of calls are failing",
			Incidents: 1, Incident: before(time.Hour), Firing: true, Alert: "a1",
			Versions: []alerts.ProblemVersion{{Version: "2.4.0", FirstCall: before(3 * time.Hour), LastFailed: before(5 * time.Second)}},
		}
		change(&p)
		return p
	}
	anna := alerts.Decision{By: "anna", At: before(time.Hour)}
	return &known{
		list: []alerts.Problem{
			problem("ignored", func(p *alerts.Problem) {
				p.Ignored = &alerts.Ignoring{Decision: anna, Until: now.Add(10 * 365 * 24 * time.Hour), SilenceID: "s1"}
			}),
			problem("fixed", func(p *alerts.Problem) { p.Resolved = &alerts.Resolution{Decision: anna, Version: "2.4.1"} }),
			problem("new", func(*alerts.Problem) {}),
			problem("acknowledged", func(p *alerts.Problem) { p.Acknowledged, p.Assignee, p.Assigned = &anna, "bob", &anna }),
			problem("regressed", func(p *alerts.Problem) {
				p.Regressed = &alerts.Regression{Version: "2.4.2", At: before(time.Minute), Fixed: alerts.Resolution{Decision: anna, Version: "2.4.1"}}
				for _, v := range []string{"2.4.1", "2.4.2", "2.4.3"} {
					p.Versions = append(p.Versions, alerts.ProblemVersion{Version: v})
				}
			}),
			problem("ongoing", func(p *alerts.Problem) { p.FirstSeen = before(50 * time.Hour) }),
		},
		history: []sinks.AlertAction{
			{At: before(3 * time.Hour), Action: "acknowledge", Actor: "U1", ActorName: "anna", Via: "slack"},
			{At: before(2 * time.Hour), Action: "silence", Actor: "anna", SilenceID: "s1", Comment: "problem ignored"},
			{At: before(2 * time.Hour), Action: "ignore", Actor: "anna", SilenceID: "s1", EndsAt: now.Add(10 * 365 * 24 * time.Hour), Comment: "known"},
			{At: before(time.Hour), Action: "silence", Refused: true, Actor: "eve", Via: "slack", Comment: "not in slack.allowed"},
		},
		missing: errors.New("ClickHouse does not answer"),
	}
}

func serve(t *testing.T, k *known) Client {
	t.Helper()
	h := NewHandler(func() (Source, error) {
		if k == nil {
			return nil, errors.New("not read yet")
		}
		return k, nil
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(remote.PagesHeader, "http://pages")
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return Client{must.Get(remote.NewClient(srv.URL, "", certs.Client{}, ""))(t)}
}

// Lists have the problems that need somebody first, in 80 columns.
func TestList(t *testing.T) {
	k := fixture()
	c, style := serve(t, k), &terminal.Style{Width: 80}
	var b strings.Builder
	must.Do(t, List(t.Context(), c, Filter{}, false, &b, command.Text, style))
	ids := map[string]string{}
	for _, p := range k.list {
		ids[p.Stage] = p.ID()
	}
	want := `4 open problems: 1 regressed, 1 new, 1 ongoing, 1 acknowledged. 2 resolved or
ignored problems are not listed: llmtap problems list --all

` + ids["regressed"][:8] + `  regressed  critical  shop/regressed (prod)
  assistant message saved without its tool_calls
  first seen 2 h ago, last 5 s ago, in 2.4.3, 2.4.2, 2.4.1 and 1 earlier; seen
  again in 2.4.2; anna said it is fixed in 2.4.1

` + ids["new"][:8] + `  new  critical  shop/new (prod)
  assistant message saved without its tool_calls
  first seen 2 h ago, last 5 s ago, in 2.4.0

` + ids["ongoing"][:8] + `  ongoing  critical  shop/ongoing (prod)
  assistant message saved without its tool_calls
  first seen 2 d 2 h ago, last 5 s ago, in 2.4.0

` + ids["acknowledged"][:8] + `  acknowledged  critical  shop/acknowledged (prod)
  assistant message saved without its tool_calls
  first seen 2 h ago, last 5 s ago, in 2.4.0; acknowledged by anna; assigned to
  bob
`
	must.Agree(t, cmp.Diff(want, b.String()))

	f := func(filter Filter, all bool, want ...string) {
		t.Helper()
		b.Reset()
		must.Do(t, List(t.Context(), c, filter, all, &b, command.JSON, style))
		list := must.JSON[[]Problem](t, []byte(b.String()))
		var got []string
		for _, p := range list {
			got = append(got, p.Stage)
			if p.ID != ids[p.Stage] || p.URL != "http://pages/problem/"+p.ID || p.Fix == "" {
				t.Errorf("%+v", p)
			}
		}
		must.Agree(t, cmp.Diff(want, got))
	}
	f(Filter{}, true, "regressed", "new", "ongoing", "acknowledged", "fixed", "ignored")
	f(Filter{State: []string{"ignored", "resolved"}}, false, "fixed", "ignored")
	f(Filter{Assignee: []string{"bob"}}, false, "acknowledged")
	f(Filter{Assignee: []string{Nobody}, Stage: []string{"new", "acknowledged"}, Service: []string{"shop"}, Environment: []string{"prod"}}, false, "new")
	f(Filter{Service: []string{"shop", "bank"}, Environment: []string{"dev"}}, true)
}

func TestShow(t *testing.T) {
	k := fixture()
	c, style := serve(t, k), &terminal.Style{Width: 80}
	var b strings.Builder
	must.Do(t, Show(t.Context(), c, strings.ToUpper(k.list[0].ID()[:6]), &b, command.Text, style))
	text := b.String()
	at := func(d time.Time) string { return style.Time(d) }
	for _, want := range []string{
		"shop/ignored (prod)  ignored  critical\nassistant message saved without its tool_calls\n\n  found        shop/ignored: 45% of calls are failing\n  fix          Save the whole",
		"\n  ignored      by anna at " + at(k.list[0].Ignored.At) + ", until it is reopened\n",
		"\n  incidents    1 incident, the last since ", "\n  versions     2.4.0, first call ", "\n  page         http://pages/problem/" + k.list[0].ID() + "\n",
		"\nHistory\n  " + at(k.history[0].At) + " anna acknowledged the incident\n  " + at(k.history[2].At) + " anna ignored it until it is reopened: known\n  " +
			at(k.history[3].At) + " eve was refused: silence: not in slack.allowed\n  Incomplete: ClickHouse does not answer.\n",
	} {
		must.Contain(t, text, want)
	}
	for line := range strings.Lines(text) {
		if len(line) > 81 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestFind(t *testing.T) {
	k := fixture()
	c := serve(t, k)
	id := k.list[0].ID()
	wrong := id[:15] + string(id[15]^1) // another hex digit, and another id
	f := func(prefix, want string) {
		t.Helper()
		must.Fail(t, must.Err(Find(t.Context(), c, prefix)), want, prefix)
	}
	f(wrong, "there is no problem "+wrong+"; did you mean "+id+"? llmtap problems list --all lists them")
	f("nonsense", "there is no problem nonsense; llmtap problems list --all lists them")
	f(id[:3], "too short for an id; give at least 4 characters")
	k.list = append(k.list, k.list[0])
	f(id[:4], "give more of it")
}

func TestDecide(t *testing.T) {
	k := fixture()
	c := serve(t, k)
	id := k.list[2].ID()
	base := httptest.NewServer(NewHandler(func() (Source, error) { return k, nil }))
	defer base.Close()
	f := func(id, body, media, actor string, want int, text string) {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base.URL+Path+"/"+id, strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", media)
		req.Header.Set(remote.HeaderActor, actor)
		res := must.Get(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		var got json.RawMessage
		must.Do(t, json.NewDecoder(res.Body).Decode(&got))
		if res.StatusCode != want || !strings.Contains(string(got), text) {
			t.Errorf("%s: %d %s", body, res.StatusCode, got)
		}
	}
	const j = "application/json"
	f(id, `{"action":"assign","assignee":"bob","note":"x"}`, j, "anna", 200, `"id":"`+id+`","state":"new"`)
	if k.by.ID != "anna" || k.by.Via != "api" || k.decided.Assignee != "bob" || k.decided.Comment() != "to bob: x" {
		t.Errorf("%+v %+v", k.by, k.decided)
	}
	f(id, `{"action":"assign"}`, j, "", 400, "Llmtap-Actor is required")
	f(id, `{"action":"assign"}`, "text/plain", "anna", 415, "Content-Type")
	f(id, `{"action":"delete"}`, j, "anna", 400, "invalid decision: unknown action \\\"delete\\\": it must be one of assign, resolve, ignore, reopen, accept, acknowledge")
	f(id, `{"action":"assign","version":"1"}`, j, "anna", 400, "only resolve has the field version")
	f(id, `{"action":"reopen","until":"2100-01-01T00:00:00Z"}`, j, "anna", 400, "only ignore has the field until")
	f(id, `{"action":"assign","assignee":"`+strings.Repeat("x", 201)+`"}`, j, "anna", 400, "more than 200 bytes")
	f(id, strings.Repeat("[", 100_000), j, "anna", 400, "not a decision")
	f("0000000000000000", `{"action":"reopen"}`, j, "anna", 404, "no such problem")
	must.Fail(t, must.Err(c.Get(t.Context(), "../silences")), "no such problem")
	must.Fail(t, must.Err(c.List(t.Context(), Filter{State: []string{"open"}})), "is not one of regressed, new")
	must.Fail(t, c.Call(t.Context(), http.MethodGet, Path, map[string][]string{"stat": {"new"}}, nil, nil), "unknown parameter \"stat\"")
	must.Fail(t, must.Err(serve(t, nil).List(t.Context(), Filter{})), "not read yet")
	var b strings.Builder
	decision := alerts.ProblemDecision{Action: alerts.ActionResolve, Version: "2.4.1"}
	must.Do(t, Decide(t.Context(), c, id[:5], decision, "anna", &b, command.Text, &terminal.Style{Width: 80}))
	must.Agree(t, cmp.Diff("Problem "+id[:8]+" of shop/new (prod) is resolved, fixed in 2.4.1. A failure in\nthis version or a later one is a regression.\nUndo it with: llmtap problems reopen "+id[:8]+"\n", b.String()))
}
