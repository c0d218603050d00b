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

// fakeIncidents knows the alerts a1 (calls fail), h1 (about llmtap itself) and e1 (ended).
type fakeIncidents struct{ text string }

func (f fakeIncidents) Incident(_ context.Context, id string) (*Incident, error) {
	a := &Incident{
		Alert: Alert{
			ID: id, Name: "StageFailureRate", Severity: "critical", Labels: map[string]string{"service": "shop", "stage": "planner", "provider": f.text}, Subject: "shop/planner",
			Summary: f.text, Why: f.text, Cause: "dropped", Fix: f.text, FirstBad: f.text, LastClean: f.text, StartsAt: testNow.Add(-10 * time.Minute), Acked: f.text, Part: f.text, Silenced: &Silence{ID: f.text, By: f.text, Comment: f.text},
		},
		Failed: 6, Calls: 10, Causes: []CauseCount{{"dropped", f.text, 6}, {f.text, f.text, 1}}, Description: f.text, Exchange: f.text, Commands: []string{"llmtap show " + f.text},
	}
	switch id {
	case "a1":
		return a, nil
	case "e1":
		a.EndsAt = testNow.Add(-5 * time.Hour)
		a.StartsAt = a.EndsAt.Add(-time.Hour)
		return a, nil
	case "h1":
		a.Calls, a.Failed, a.Value, a.Labels, a.Subject = 0, 0, 321, nil, "CollectorBlind"
		return a, nil
	}
	return nil, fmt.Errorf("alert %w", ErrNotFound)
}

func (f fakeIncidents) Meaning(string) (kind, phrase, fix string) { return "cause", f.text, f.text }
func (f fakeIncidents) ProviderMessage(string) string             { return f.text }
func (f fakeIncidents) Commands(map[string]string, time.Time, string, string) []string {
	return []string{f.text}
}

// table returns a Table with one row of names and values.
func table(pairs ...any) *Table {
	t := &Table{Rows: [][]any{nil}}
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		t.Columns = append(t.Columns, Column{Name: name})
		t.Rows[0] = append(t.Rows[0], pairs[i+1])
	}
	return t
}

// incidentRows are the answers to the statements of the page, by their questions.
func incidentRows(text string) map[string]*Table {
	at := testNow.Add(-time.Minute)
	var hits []uint8
	var values [][]string
	for i := range 250 {
		call := []string{"tool\nthe same"}
		if i < 52 {
			call = append(call, "version\n2.0"+text)
		}
		if i < 40 {
			call = append(call, "attribute region\n"+text)
		}
		hits, values = append(hits, uint8(max(0, min(1, 50-i)))), append(values, call)
	}
	differ := table("is_hit", hits, "values", values, "wanted_values", []string{}, "all_hits", uint64(50), "all_others", uint64(900), "hits_each", uint64(1), "others_each", uint64(4))
	versions := table("service", "shop", "version", text, "hits", uint64(6), "calls", uint64(7), "began", at)
	versions.Rows = append(versions.Rows, []any{"pay", "1.0", uint64(0), uint64(3), at})
	return map[string]*Table{
		"How many calls of each version":  versions,
		"are not, over time?":             table("time", at, "hits", uint64(6), "others", uint64(4)),
		"how many calls were there":       table("calls", uint64(10), "hits", uint64(6), "first_hit", at, "last_hit", at, "calls_since", uint64(1)),
		"have in common, and others not?": differ,
		"did they recover?": table("conversation_id", text, "user_hash", text, "hits", uint64(2), "last_hit", at, "last_id", text, "last_version", text, "recovered", uint8(1),
			"conversations", uint64(3), "all_recovered", uint64(1), "users", uint64(2)),
		"what is wrong in the request?": table("n", uint64(6), "exchange_id", text, "conversation_id", text, "started_at", at, "status", uint16(400), "provider", text,
			"model", text, "error_text", text+"{}", "provider_request_id", text, "rule_id", text, "summary", text, "evidence", text, "root_cause", text, "confidence", text),
		"which version introduced it?": table("cause", "orphan", "root_cause", "dropped", "first_seen", at, "first_version", text, "last_clean_version", text, "first_exchange_id", text),
		"-- What changed":              table("changed_at", at.Add(-time.Minute), "change", text),
		"make its first calls?":        table("began", at, "service", "shop", "new_version", text),
	}
}

func newIncidentTest(t *testing.T, source fakeSource, text string) http.Handler {
	t.Helper()
	o := source.options()
	o.Incidents = fakeIncidents{text}
	return handler(t, o)
}

func TestIncident(t *testing.T) {
	h := newIncidentTest(t, fakeSource{rows: incidentRows("rows")}, "words")
	f := func(path string, status int, want ...string) string {
		t.Helper()
		resp, body := get(h, path)
		must.Equal(t, resp.StatusCode, status, "%s: status", path)
		wantAll(t, body, append(want, "</html>")...)
		return body
	}
	// An alert that fires is shown from before its start until now, and refreshed.
	body := f("/incident/a1", http.StatusOK, "<b>Now: shop/planner: words.</b>", "10 min ago", ">6</a> of <a", ">10 calls</a> (60%) failed for this reason", "It goes on: 1 call since the last failure",
		"<h2>What to do</h2><p>words</p>", "First seen in version", "2.0rows", "50 of 50", "2 of 200", "only version 2.0rows: about 50 of 58 calls", "A random sample was compared",
		"3 conversations</b> of 2 users. 1 recovered", "/exchange/rows#broken", "answered 400", "llmtap show words", "<b>6 of 7 calls (86%)</b>", "none of 3 calls", "/exchange/words#broken", "/explore/sql?sql=", "service = &#39;shop&#39;", "data-live",
		"service=shop&amp;stage=planner&amp;to=2026-11-23T09%3A30%3A00Z")
	for _, bad := range []string{"4 or more messages", "the same"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is listed as a difference", bad)
		}
	}
	// The time after the end of an alert is not shown.
	if body = f("/incident/e1", http.StatusOK, "<b>Over: shop/planner: words.</b>", "for 1 h"); strings.Contains(body, "data-live") {
		t.Error("an alert that ended is refreshed")
	}
	// An alert about llmtap itself has no calls.
	if body = f("/incident/h1", http.StatusOK, "Value of the rule: <b>321</b>", "<h2>What to do</h2>"); strings.Contains(body, "What differs?") {
		t.Error("an alert without calls has sections about calls")
	}
	f("/incident/a1?why=other", http.StatusOK, `cause=other&amp;`, ">10 calls</a>")
	f("/incident?service=shop&stage=planner&why=dropped", http.StatusOK, "shop/planner: 6 calls of 10 (60%) failed with cause <code>dropped</code>", "Words.")
	f("/incident", http.StatusOK, "All services: 6 calls of 10")
	for guessed, want := range map[uint64]string{6: "</b> Probably words.", 2: "</b> Words (guessed for 2 of 6 calls)."} {
		rows := incidentRows("rows")
		rows["how many calls were there"] = table("calls", uint64(10), "hits", uint64(6), "first_hit", testNow, "last_hit", testNow, "guessed", guessed)
		_, body = get(newIncidentTest(t, fakeSource{rows: rows}, "words"), "/incident?service=shop&stage=planner&why=server_error")
		wantAll(t, body, want)
	}
	f("/incident/unknown", http.StatusNotFound, "alert unknown not found")
}

// An alert that ended long ago is read from ClickHouse. Its row does not say that it counts findings.
func TestStoredIncident(t *testing.T) {
	rows := incidentRows("rows")
	rows["What is known of an alert?"] = table("name", "MaskedFailures", "severity", "warning", "labels", map[string]string{"service": "shop"}, "started_at", testNow.Add(-48*time.Hour),
		"ended_at", testNow.Add(-47*time.Hour), "summary", "9 tasks", "shares", map[string]uint64{"masked_failure": 9}, "failed", uint64(9), "calls", uint64(99))
	rows["how many calls were there"] = table("hits", uint64(0))
	_, body := get(newIncidentTest(t, fakeSource{rows: rows}, "words"), "/incident/old")
	wantAll(t, body, "<b>Over: shop: 9 tasks.</b>", "Calls with this finding over time", "What exactly is wrong")
}

func TestIncidentIsHarmless(t *testing.T) {
	h := newIncidentTest(t, fakeSource{rows: incidentRows(hostile)}, hostile)
	for _, path := range []string{"/incident/a1", "/incident/h1", "/incident?why=x&service=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/incident/%3Cimg%20src=x%3E"} {
		_, body := get(h, path)
		if strings.Contains(body, "<script>") || strings.Contains(body, "<img src=x") || !strings.Contains(body, "</html>") {
			t.Errorf("%s: the page contains markup of its data, or is cut off", path)
		}
		if want := `href="/conversation/` + url.PathEscape(hostile) + `"`; !strings.Contains(body, want) && strings.Contains(body, "Who is hit?") {
			t.Errorf("%s: no %s", path, want)
		}
		if strings.Contains(body, "cannot be shown") {
			t.Errorf("%s: a template fails", path)
		}
	}
}

// Without ClickHouse, the state of the alerts and the tallies still answer.
func TestIncidentWithoutClickHouse(t *testing.T) {
	h := newIncidentTest(t, fakeSource{err: fmt.Errorf("dial: %w", ErrUnavailable)}, "words")
	resp, body := get(h, "/incident/a1")
	for _, want := range []string{"<b>Now: shop/planner: words.</b>", "<h2>What to do</h2>", "counts of the event stream", "First seen in version", "dial: not available", "llmtap show words"} {
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("status %d, no %q", resp.StatusCode, want)
		}
	}
	if resp, body := get(h, "/incident/old"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "dial: not available") {
		t.Errorf("an alert that only ClickHouse knows: status %d", resp.StatusCode)
	}
	h = newIncidentTest(t, fakeSource{err: errors.New("syntax error")}, "words")
	if _, body := get(h, "/incident?service=shop"); !strings.Contains(body, "syntax error") {
		t.Error("the page does not say what failed")
	}
}

func TestTrend(t *testing.T) {
	f := func(hits, calls, since int64, quiet time.Duration, want string) {
		t.Helper()
		if got := trend(hits, calls, since, quiet); !strings.HasPrefix(got, want) {
			t.Errorf("%d of %d, %d since, for %s: %q, want %q", hits, calls, since, quiet, got, want)
		}
	}
	f(10, 20, 0, time.Second, "It goes on")
	f(10, 20, 0, time.Hour, "There were no calls since")
	f(10, 120, 100, time.Minute, "It seems to be over")
	f(10, 22, 2, time.Minute, "It goes on: 2 calls since the last failure")
	f(10, 22, 2, time.Hour, "Too early")
}
