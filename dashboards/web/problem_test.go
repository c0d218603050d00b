package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fakeProblems are problems, and what people decide about them.
type fakeProblems struct {
	list []Problem
	err  error
	done []string
}

func (f *fakeProblems) All(context.Context) ([]Problem, error) {
	return append([]Problem(nil), f.list...), f.err
}

func (f *fakeProblems) Problem(_ context.Context, id string) (*Problem, error) {
	for _, p := range f.list {
		if p.ID == id {
			return &p, f.err
		}
	}
	return nil, fmt.Errorf("problem %s %w", id, ErrNotFound)
}

func (f *fakeProblems) Decide(_ context.Context, id string, d ProblemDecision, by string) error {
	until := "-"
	if !d.Until.IsZero() {
		until = d.Until.Format("02 15:04")
	}
	if d.Users > 0 {
		until += fmt.Sprintf(" %d users", d.Users)
	}
	f.done = append(f.done, fmt.Sprintf("%s %s %q %q %s %q by %s", d.Action, id, d.Assignee, d.Version, until, d.Note, by))
	return f.err
}

// aProblem is a problem that fires. Everything that people and agents write is text.
func aProblem(id, text string) Problem {
	return Problem{
		ID: id, Key: "key of " + id, Service: "shop", Environment: "prod", Stage: "planner", Subject: "shop/planner", State: stateNew, Severity: "critical", Summary: text, Cause: "dropped", Kind: "root cause", Why: text, Fix: text,
		FirstSeen: testNow.Add(-3 * time.Hour), LastSeen: testNow.Add(-time.Minute), Versions: []string{"1.0", text}, Rules: []string{"StageFailureRate", text}, Incidents: 2, Firing: true, Alert: "a1",
		FirstBad: text, LastClean: text, Exchange: text, Alerts: []Alert{{ID: "a1", Name: "StageFailureRate", Severity: "critical", Summary: text, StartsAt: testNow.Add(-time.Hour), Problem: id}},
		Silences: []Silence{{ID: "s1", By: text, Comment: text, Matchers: []string{text}, From: testNow, To: testNow.Add(time.Hour)}},
	}
}

// problemRows are the answers to the statements of the page, by their questions.
func problemRows(text string) map[string]*Table {
	rows := incidentRows(text)
	versions := table("version", text, "time", testNow.Add(-time.Minute), "hits", uint64(6), "calls", uint64(7))
	versions.Rows = append(versions.Rows, []any{"0.9", testNow.Add(-time.Hour), uint64(0), uint64(30)})
	rows["when, does a problem hit calls?"] = versions
	rows["how much money do its calls take?"] = table("calls", uint64(6), "users", uint64(4), "tenants", uint64(3), "input_tokens", int64(1200), "output_tokens", int64(34), "unreported_calls", uint64(5), "about_tokens", 56000.0, "reported_usd", 0.25, "at_most_usd", 3.5, "unpriced", []string{text})
	past := table("alert_id", "a0", "name", text, "severity", "warning", "labels", map[string]string{"service": "shop", "stage": "planner"}, "summary", "shop/planner: "+text, "started_at", testNow.Add(-3*time.Hour), "ended_at", testNow.Add(-2*time.Hour))
	rows["Which alerts are about a problem?"] = past
	actions := table("at", testNow.Add(-time.Hour), "action", "resolve", "refused", false, "who", text, "via", "web", "ends_at", time.Time{}, "comment", "fixed in "+text)
	actions.Rows = append(actions.Rows, []any{testNow.Add(-50 * time.Minute), "silence", true, text, "slack", time.Time{}, text})
	rows["What have people done about a problem?"] = actions
	hit := rows["did they recover?"]
	for _, id := range []string{"c2", "c3", "c4"} {
		hit.Rows = append(hit.Rows, []any{id, "u", uint64(1), testNow, "call-" + id, "1.0", uint8(0), uint64(3), uint64(1), uint64(2)})
	}
	return rows
}

func newProblemTest(t *testing.T, source fakeSource, f *fakeProblems) http.Handler {
	t.Helper()
	o := source.options()
	o.Incidents, o.Problems, o.Controls = fakeIncidents{"words"}, f, &fakeControls{}
	return handler(t, o)
}

func TestProblem(t *testing.T) {
	h := newProblemTest(t, fakeSource{rows: problemRows("rows")}, &fakeProblems{list: []Problem{aProblem("p1", "words")}})
	resp, body := get(h, "/problem/p1")
	must.Equal(t, resp.StatusCode, http.StatusOK, "status")
	wantAll(t, body, "<h1>shop/planner</h1>", `<p class="verdict critical"><b>New.</b> Words (root cause <code>dropped</code>).</p>`, ">10 calls</a> (60%) failed for this reason", "<h2>What to do</h2><p>words</p>",
		"<code>1.0</code>, <code>words</code>", `href="/problems" aria-current="page"`, `aria-label="at most 6 in`, "86%", "First seen in version", "50 of 50", "/exchange/rows#broken", "answered 400",
		"<dt>Tenants</dt><dd>3</dd>", "<dd>1,200</dd>", "34 out; 5 calls without usage, about 56,000 in", "<dt>Money for these calls</dt><dd>$0.25</dd>", "at most $3.50 more if calls without usage are charged; no price for rows", "1 recovered", `formaction="/alerts/a1/acknowledge"`, `name="back" value="/problem/p1"`,
		"/silences/s1/expire", `In other conversations: <a href="/exchange/call-c2#broken">c2</a> · <a href="/exchange/call-c3#broken">c3</a></p>`, "<b>rows</b> says: fixed in rows <small>web</small>", "<b>rows</b> was refused: silence, rows", "StageFailureRate began to fire: words", "rows ended after 1 h", "data-live", "</html>")
	for _, bad := range []string{"shop/planner: rows", "Reopen", "cannot be shown"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if resp, body := get(h, "/problem/p9"); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "problem p9 not found") {
		t.Errorf("an unknown problem: status %d", resp.StatusCode)
	}
}

// The state in words, and the class of the verdict.
func TestProblemState(t *testing.T) {
	f := func(want, class string, edit func(p *Problem)) {
		t.Helper()
		p := aProblem("p1", "words")
		edit(&p)
		v := &View{Now: testNow, Zone: time.UTC}
		if got := p.words(v); got != want || p.class() != class {
			t.Errorf("%q, %s; want %q, %s", got, p.class(), want, class)
		}
	}
	anna := &Decision{By: "Anna", At: testNow, Version: "2.4.1", Until: testNow.Add(time.Hour)}
	f("New; assigned to Bea", "critical", func(p *Problem) { p.Assignee = "Bea" })
	f("Ongoing; quiet for 1 min", "warning", func(p *Problem) { p.State, p.Firing = stateOngoing, false })
	f("Acknowledged by Anna", "warning", func(p *Problem) { p.State, p.Acked, p.Severity = stateAcknowledged, anna, "warning" })
	f("Regressed in 2.4.2; Anna said that it was fixed in 2.4.1", "critical", func(p *Problem) { p.State, p.Fixed, p.Regressed = stateRegressed, anna, &Decision{Version: "2.4.2"} })
	f("Fixed in 2.4.1, says Anna", "ok", func(p *Problem) { p.State, p.Fixed, p.Firing = stateResolved, anna, false })
	f("Over: no failure for 1 min", "ok", func(p *Problem) { p.State, p.Firing = stateResolved, false })
	f("Ignored until 10:30:00 UTC by Anna", "plain", func(p *Problem) { p.State, p.Ignored = stateIgnored, anna })
	f("Ignored by Anna", "plain", func(p *Problem) {
		p.State, p.Ignored = stateIgnored, &Decision{By: "Anna", Until: testNow.Add(2 * endless)}
	})
}

// A problem that is over is shown from before its first to after its last failure, for ever.
func TestOldProblem(t *testing.T) {
	p := aProblem("p1", "words")
	p.State, p.Firing, p.Alerts = stateResolved, false, nil
	p.FirstSeen, p.LastSeen = testNow.AddDate(0, -2, 0), testNow.AddDate(0, -2, 1)
	rows := problemRows("rows")
	rows["Did a call fail with a cause?"] = table("failed_calls", uint64(1))
	_, body := get(newProblemTest(t, fakeSource{rows: rows}, &fakeProblems{list: []Problem{p}}), "/problem/p1")
	wantAll(t, body, "Over: no failure for 60 d", "Sep 23", "Sep 24", "Failing calls by version", "at the last incident: words")
	if strings.Contains(body, "data-live") || strings.Contains(body, "/acknowledge") {
		t.Error("a problem that is over is refreshed, or can be acknowledged")
	}
	delete(rows, "Did a call fail with a cause?") // then it is about findings
	if _, body := get(newProblemTest(t, fakeSource{rows: rows}, &fakeProblems{list: []Problem{p}}), "/problem/p1"); !strings.Contains(body, "Calls with this finding by version") {
		t.Error("the page counts failed calls although none failed with the cause")
	}
}

// Without ClickHouse, the page says what NATS and the tallies know.
func TestProblemWithoutClickHouse(t *testing.T) {
	p := aProblem("p1", "words")
	p.Assignee, p.Assigned = "Bea", &Decision{By: "Anna", At: testNow.Add(-time.Hour)}
	h := newProblemTest(t, fakeSource{err: fmt.Errorf("dial: %w", ErrUnavailable)}, &fakeProblems{list: []Problem{p}})
	_, body := get(h, "/problem/p1")
	wantAll(t, body, "New; assigned to Bea", "dial: not available", "<b>Anna</b> assigned it to Bea", "Older lines are missing", "Earlier alerts are missing", "StageFailureRate", "First seen in version",
		"counts of the event stream, of the last hours", "Conversations, users, tenants, tokens and money are unknown without ClickHouse", "at most 4 in")
}

func TestProblemIsHarmless(t *testing.T) {
	p := aProblem("p1", hostile)
	p.Service, p.Stage, p.Environment, p.Subject, p.Cause, p.Severity, p.Assignee = hostile, hostile, hostile, hostile, hostile, hostile, hostile
	p.Fixed, p.State = &Decision{By: hostile, Version: hostile}, stateResolved
	h := newProblemTest(t, fakeSource{rows: problemRows(hostile)}, &fakeProblems{list: []Problem{p}})
	for _, path := range []string{"/problem/p1", "/problems?state=all", "/problem/" + url.PathEscape(hostile), "/problems?state=" + url.QueryEscape(hostile), "/"} {
		_, body := get(h, path)
		harmless(t, body)
		wantAll(t, body, "</html>")
	}
}

func TestProblems(t *testing.T) {
	var f fakeProblems
	for i, state := range []string{stateResolved, stateIgnored, stateNew, stateOngoing, stateRegressed, stateAcknowledged} {
		p := aProblem(state, "words of "+state)
		p.State, p.Severity, p.Assignee, p.LastSeen = state, "warning", "Bea", testNow.Add(-time.Duration(i)*time.Minute)
		if p.Firing = p.Open(); state == stateOngoing {
			p.Service, p.Subject, p.Severity = "pay", "pay/planner", "critical"
		}
		f.list = append(f.list, p)
	}
	h := newProblemTest(t, fakeSource{}, &f)
	list := func(path string, want ...string) {
		t.Helper()
		_, body := get(h, path)
		var got []string
		for _, row := range strings.Split(body, `<td><a href="/problem/`)[1:] {
			id, _, _ := strings.Cut(row, `"`)
			got = append(got, id)
		}
		must.Equal(t, strings.Join(got, " "), strings.Join(want, " "), "%s", path)
	}
	list("/problems", stateOngoing, stateRegressed, stateNew, stateAcknowledged)
	list("/problems?state=resolved", stateResolved)
	list("/problems?service=pay&state=all", stateOngoing)
	list("/problems?service=pay&state=new")
	list("/problems?state=all&stage=other")
	_, body := get(h, "/problems?service=shop")
	wantAll(t, body, "Open 3", "All 5", "<option selected>shop</option>", "<td>Bea</td>", `<td class="n">2</td>`, "<code>1.0</code>, <code>words of new</code>")
	if strings.Contains(body, `aria-label="Time range"`) {
		t.Error("the list has a time range, which does not apply")
	}
	wantAll(t, func() string {
		_, body := get(newProblemTest(t, fakeSource{}, &fakeProblems{}), "/problems")
		return body
	}(), "No problem has been found")
	wantAll(t, func() string { _, body := get(newTest(t, fakeSource{}, ""), "/problems"); return body }(), "problems are not available in this process")

	// The fleet shows the worst three, the number of the others, and the alerts that are about none.
	_, body = get(h, "/")
	wantAll(t, body, "4 problems and 2 other alerts now, 3 critical.", "pay/planner: words of ongoing", "1 more open problem", `href="/problem/regressed"`, `href="/incident/a2"`)
	if strings.Contains(body, "/problem/acknowledged") || strings.Contains(body, "/problem/resolved") {
		t.Error("the fleet shows more than the worst three")
	}
	f.list = f.list[:1]
	f.list[0].State, f.list[0].Firing = stateOngoing, false
	o := fakeSource{}.options()
	o.Problems, o.Firing = &f, func(context.Context) ([]Alert, error) { return nil, nil }
	_, body = get(handler(t, o), "/")
	wantAll(t, body, `class="verdict plain"><b>1 problem is still open.</b> No alert fires now.`, "quiet for")
}

// Links to an alert lead to its problem, also after it is over.
func TestIncidentLeadsToProblem(t *testing.T) {
	rows := incidentRows("rows")
	row := table("name", "StageFailureRate", "severity", "warning", "labels", map[string]string{"service": "shop", "stage": "planner", "environment": "prod"}, "started_at", testNow.Add(-48*time.Hour), "ended_at", testNow.Add(-47*time.Hour),
		"summary", "shop/planner: words", "shares", map[string]uint64{"dropped": 9}, "failed", uint64(9), "calls", uint64(99), "problem", "p1")
	rows["What is known of an alert?"] = row
	problems := &fakeProblems{list: []Problem{aProblem("p1", "words")}}
	f := func(path, location string) {
		t.Helper()
		resp, _ := get(newProblemTest(t, fakeSource{rows: rows}, problems), path)
		must.Equal(t, resp.Header.Get("Location"), location, "%s (status %d) leads to", path, resp.StatusCode)
	}
	f("/incident/old", "/problem/p1")
	f("/incident/old?range=6h&why=x", "/problem/p1?range=6h")
	f("/incident?service=shop&stage=planner&environment=prod&why=dropped&version=1.0", "/problem/p1?version=1.0")
	f("/incident?service=shop&stage=planner&environment=prod&why=other", "")
	row.Rows[0][len(row.Rows[0])-1] = "" // of a version that knew no problems
	f("/incident/old", "/problem/p1")
	row.Rows[0][len(row.Rows[0])-1] = "gone" // the problem was deleted
	f("/incident/old", "")
	delete(rows, "What is known of an alert?")
	f("/incident/a1", "/problem/p1") // known from the problem
	f("/incident/h1", "")
}

func TestProblemForms(t *testing.T) {
	f := func(action, fields, done, location string) {
		t.Helper()
		problems := &fakeProblems{list: []Problem{aProblem("p1", "words")}}
		values := must.Get(url.ParseQuery(fields))(t)
		resp, body := post(t, newProblemTest(t, fakeSource{}, problems), "/problem/p1/"+action, values)
		if got := strings.Join(problems.done, "; "); got != done || resp.Header.Get("Location") != location {
			t.Errorf("%s %s: did %q, location %q (status %d); want %q, %q", action, fields, got, resp.Header.Get("Location"), resp.StatusCode, done, location)
		}
		if location == "" && (resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Not done: ") || !strings.Contains(body, "<h1>shop/planner</h1>")) {
			t.Errorf("%s %s: status %d without a reason", action, fields, resp.StatusCode)
		}
	}
	f("assign", "name=Anna&assignee=Bea", `assign p1 "Bea" "" - "" by Anna`, "/problem/p1?done=assigned")
	f("assign", "name=Anna&assignee=", `assign p1 "" "" - "" by Anna`, "/problem/p1?done=assigned")
	f("resolve", "name=Anna&version=2.4.1&comment=x", `resolve p1 "" "2.4.1" - "x" by Anna`, "/problem/p1?done=fixed")
	f("ignore", "name=Anna&for=24h", `ignore p1 "" "" 24 09:30 "" by Anna`, "/problem/p1?done=ignored&end=2026-11-24T09%3A30%3A00Z")
	f("ignore", "name=Anna&for=ever", `ignore p1 "" "" - "" by Anna`, "/problem/p1?done=ignored-for-ever")
	f("reopen", "name=Anna", `reopen p1 "" "" - "" by Anna`, "/problem/p1?done=reopened")
	f("accept", "name=Anna&comment=x", `accept p1 "" "" - "x" by Anna`, "/problem/p1?done=accepted")
	f("reopen", "name=", "", "")
	f("ignore", "name=Anna&for=10000h", "", "")
	f("ignore", "name=Anna&for=ever&users=3", `ignore p1 "" "" - 3 users "" by Anna`, "/problem/p1?done=ignored-for-ever")
	f("ignore", "name=Anna&for=ever&users=0", "", "")
	f("assign", "name=Anna&assignee="+strings.Repeat("x", maxName+1), "", "")
	f("resolve", "name=Anna&version="+strings.Repeat("x", maxName+1), "", "")

	// Nothing is ignored where that has no effect, and an error is shown.
	o := fakeSource{}.options()
	problems := &fakeProblems{list: []Problem{aProblem("p1", "words")}}
	o.Problems, o.Controls = problems, &fakeControls{text: "Silences are made in Alertmanager.", only: true}
	for _, length := range []string{"24h", "ever"} {
		if _, body := post(t, handler(t, o), "/problem/p1/ignore", url.Values{"name": {"Anna"}, "for": {length}}); len(problems.done) > 0 || !strings.Contains(body, "Not done: Silences are made in Alertmanager.") {
			t.Errorf("ignored for %s where it has no effect: %v", length, problems.done)
		}
	}
	if _, body := get(handler(t, o), "/problem/p1"); strings.Contains(body, "/problem/p1/ignore") {
		t.Error("the problem can be ignored where that has no effect")
	}
	failing := &fakeProblems{list: problems.list}
	h := newProblemTest(t, fakeSource{}, failing)
	failing.err = errors.New("NATS is away")
	if resp, body := post(t, h, "/problem/p1/reopen", url.Values{"name": {"Anna"}}); resp.StatusCode/100 == 3 || !strings.Contains(body, "NATS is away") {
		t.Errorf("an error: status %d", resp.StatusCode)
	}
}

func TestMoneyNote(t *testing.T) {
	usd := func(n float64) *float64 { return &n }
	f := func(h harm, want string) {
		t.Helper()
		must.Equal(t, h.MoneyNote(), want, "MoneyNote")
	}
	f(harm{}, "tokens unknown")
	f(harm{Reported: usd(0)}, "")
	f(harm{AtMost: usd(2)}, "if calls without usage are charged")
	f(harm{Unpriced: []string{"a", "b"}}, "no price for a, b")
	f(harm{Reported: usd(1), AtMost: usd(2), Unpriced: []string{"a"}}, "at most $2.00 more if calls without usage are charged; no price for a")
}
