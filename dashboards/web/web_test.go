package web

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var testNow = time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)

// hostile is what an agent may name itself.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}` + "\u202e"

// fakeSource answers every statement with the rows of its question.
type fakeSource struct {
	err  error
	rows map[string]*Table // by a part of the statement
}

func (f fakeSource) query(_ context.Context, sql string, _ map[string]string) (*Table, error) {
	if f.err != nil {
		return nil, f.err
	}
	for part, t := range f.rows {
		if strings.Contains(sql, part) {
			return t, nil
		}
	}
	return &Table{}, nil
}

func firing(context.Context) ([]Alert, error) {
	return []Alert{{
		ID: "a1", Name: "StageFailureRate", Severity: "critical", Labels: map[string]string{"service": "checkout"}, Subject: hostile, Summary: hostile,
		Why: hostile, Cause: hostile, FirstBad: hostile, StartsAt: testNow.Add(-7 * time.Minute), Acked: hostile, Part: hostile, Silenced: &Silence{ID: hostile, By: hostile, Comment: hostile, Matchers: []string{hostile}, To: testNow.Add(time.Hour)},
	}, {ID: "a2", Name: "StageFailureRate", Severity: "page", Subject: "checkout · triage", StartsAt: testNow.Add(-time.Minute)}}, nil
}

func newTest(t *testing.T, source fakeSource, token string) http.Handler {
	t.Helper()
	o := source.options()
	if token != "" {
		o.Login, o.SessionKey = func(sent string) bool { return sent == token }, []byte(token)
	}
	return handler(t, o)
}

// options are the options of pages that read f.
func (f fakeSource) options() Options {
	return Options{
		ClickHouse: f.query, Firing: firing,
		Tallies: func(_ context.Context, _ string, _, to time.Time, _ time.Duration) ([]Series, error) {
			return []Series{{map[string]string{"cause": "rate_limit"}, []Point{{to, 4}}}}, nil
		},
		Health: func(context.Context) []Part { return []Part{{"NATS", ""}, {"ClickHouse", hostile}} },
	}
}

// handler returns the pages at testNow. They are sent as a whole unless o says otherwise.
func handler(t *testing.T, o Options) http.Handler {
	t.Helper()
	o.Now, o.flushAfter = func() time.Time { return testNow }, cmp.Or(o.flushAfter, time.Minute)
	return must.Get(NewHandler(o))(t)
}

// wantAll reports texts that a page lacks.
func wantAll(t *testing.T, body string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		must.Contain(t, body, want)
	}
}

// harmless reports hostile content that a browser would execute, and templates that fail.
func harmless(t *testing.T, body string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<script>ALERT", "onerror=alert(1)>", "<img src=x", "style=", "cannot be shown"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// What is known is sent before the rest, which says that it is being read.
func TestSlowPages(t *testing.T) {
	f := func(path string, rows map[string]*Table, want ...string) {
		t.Helper()
		slow := func(ctx context.Context, sql string, params map[string]string) (*Table, error) {
			time.Sleep(50 * time.Millisecond)
			return fakeSource{rows: rows}.query(ctx, sql, params)
		}
		resp, body := get(handler(t, Options{ClickHouse: slow, Firing: firing, flushAfter: time.Millisecond}), path)
		must.Equal(t, resp.StatusCode, http.StatusOK, "%s: status", path)
		for _, w := range append(want, "</html>") {
			i := strings.Index(body, w)
			if i < 0 {
				t.Fatalf("%s has no %q, or too early:\n%s", path, w, body)
			}
			body = body[i:]
		}
		if strings.Contains(body, "<header>") || strings.Contains(body, "<h1>") {
			t.Errorf("%s has two frames", path)
		}
	}
	f("/?service=checkout", stageRows(), "<header>", "2 alerts fire", "is still being read. A shorter time range", `<section id="stages"`)
	f("/search?q=e1", map[string]*Table{byID: hits([4]string{"exchange", "e1", "e1", "c1"})}, "<header>", "still being read", "<h1>", `<a href="/exchange/e1" data-go>`)
	f("/incident/a9", nil, "<header>", "still being read", "<h1>", "alert a9 not found")
}

func get(h http.Handler, path string, edit ...func(*http.Request)) (*http.Response, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", "text/html")
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, _ := io.ReadAll(w.Result().Body)
	return w.Result(), cellLabel.ReplaceAllString(string(b), "")
}

// cellLabel is what labelCells adds, which has a test of its own.
var cellLabel = regexp.MustCompile(` data-label="[^"]*"`)

func stageRows() map[string]*Table {
	return map[string]*Table{"worst_version": {
		Columns: []Column{{"service", "String"}, {"stage", "String"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"reason", "String"}, {"last_failure", "DateTime64"}},
		Rows:    [][]any{{hostile, hostile, uint64(100), uint64(40), hostile, testNow.Add(-time.Minute)}},
	}, "GROUP BY time, why": {
		Columns: []Column{{"time", "DateTime"}, {"why", "String"}, {"n", "UInt64"}},
		Rows:    [][]any{{testNow.Add(-time.Minute), hostile, uint64(40)}},
	}}
}

func TestFleet(t *testing.T) {
	h := newTest(t, fakeSource{rows: stageRows()}, "")
	resp, body := get(h, "/?service=checkout")
	if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("status %d, policy %q", resp.StatusCode, resp.Header.Get("Content-Security-Policy"))
	}
	wantAll(t, body, "2 alerts fire, 2 critical", "7 min ago", "40%", "</html>")
	harmless(t, body)
}

func TestClickHouseDown(t *testing.T) {
	h := newTest(t, fakeSource{err: fmt.Errorf("dial: %w", ErrUnavailable)}, "")
	_, body := get(h, "/")
	wantAll(t, body, "2 alerts fire", "ClickHouse does not answer", "rate_limit", "dial: not available")
}

func TestLogin(t *testing.T) {
	h := newTest(t, fakeSource{}, "secret")
	resp, _ := get(h, "/?service=a")
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/login?next="+url.QueryEscape("/?service=a") {
		t.Fatalf("status %d, location %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	_, page := get(h, "/login?next=/?service=a")
	_, rest, _ := strings.Cut(page, `name="form" value="`)
	form, _, _ := strings.Cut(rest, `"`)
	post := func(form, token, next string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"form": {form}, "token": {token}, "next": {next}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	must.Equal(t, post("", "secret", "/").StatusCode, http.StatusForbidden, "a form of another site: status")
	if resp := post(form, "wrong", "/"); resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 {
		t.Errorf("a wrong token: status %d", resp.StatusCode)
	}
	must.Equal(t, post(form, "secret", "https://evil.example/").Header.Get("Location"), "/", "redirect to")
	resp = post(form, "secret", "/?service=a")
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/?service=a" || len(resp.Cookies()) != 1 || !resp.Cookies()[0].HttpOnly {
		t.Fatalf("status %d, cookies %v", resp.StatusCode, resp.Cookies())
	}
	with := func(value string) int {
		resp, _ := get(h, "/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value}) })
		return resp.StatusCode
	}
	session := resp.Cookies()[0].Value
	must.Equal(t, with(session), http.StatusOK, "with a session: status")
	expiry, signature, _ := strings.Cut(session, ".")
	for _, bad := range []string{"", "x", expiry + ".", expiry + "9." + signature, "1." + signature, newSessions(nil, []byte("other")).start(testNow), newSessions(nil, []byte("secret")).start(testNow.Add(-8 * 24 * time.Hour))} {
		if code := with(bad); code == http.StatusOK {
			t.Errorf("session %q is accepted", bad)
		}
	}
}

func TestView(t *testing.T) {
	f := func(query, since, until, wantErr string) {
		t.Helper()
		v, err := newView(httptest.NewRequest(http.MethodGet, "/x?"+query, nil), testNow)
		if (err != nil) != (wantErr != "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: error %v, want %q", query, err, wantErr)
		}
		if from, to := v.From.Format(time.TimeOnly), v.To.Format(time.TimeOnly); from != since || to != until {
			t.Errorf("%s: %s to %s, want %s to %s", query, from, to, since, until)
		}
	}
	f("", "08:30:00", "09:30:00", "")
	f("range=15m", "09:15:00", "09:30:00", "")
	f("from=2026-11-23T08:00:00Z&to=2026-11-23T08:05:00Z", "08:00:00", "08:05:00", "")
	f("from=nonsense", "08:30:00", "09:30:00", "is not a time")
	f("from=2026-11-23T08:00:00Z&to=2026-11-23T07:00:00Z", "08:30:00", "09:30:00", "ends")
	v, _ := newView(httptest.NewRequest(http.MethodGet, "/x?range=6h&service=a&service=b&q=7", nil), testNow)
	must.Equal(t, v.With("/y", "stage", "p"), "/y?range=6h&service=a&service=b&stage=p", "With")
	must.Equal(t, v.Filters()[0].Without, "/x?q=7&range=6h&service=b", "Without")
}

func TestNiceScale(t *testing.T) {
	for _, v := range []float64{0, 1, 2, 3, 4, 7, 10, 11, 99, 100, 101, 12345, 1e9} {
		top, steps := niceScale(v)
		if top < v || steps < 1 || steps > 4 || v > 0 && top > 4*v+1 {
			t.Errorf("niceScale(%g) = %g, %d", v, top, steps)
		}
	}
}

// Values counted by hand from the hypergeometric distribution: the smaller tail, doubled.
func TestFisher(t *testing.T) {
	f := func(a, m, b, n int64, want float64) {
		t.Helper()
		if got := fisher(a, m, b, n); math.Abs(got-want) > 1e-4*math.Max(want, 1e-3) {
			t.Errorf("fisher(%d, %d, %d, %d) = %g, want %g", a, m, b, n, got, want)
		}
	}
	f(0, 0, 1, 5, 1)
	f(0, 10, 0, 10, 1)
	f(3, 4, 1, 4, 2*(16.0+1)/70)            // the lady tasting tea
	f(5, 5, 0, 5, 2.0/252)                  // 1 of 10 over 5
	f(1, 2, 1, 2, 1)                        // equal
	f(0, 5, 5, 5, 2.0/252)                  // the other direction
	f(50_000, 1_000_000, 100, 1_000_000, 0) // large numbers neither overflow nor take long
}

func TestVersionsVerdict(t *testing.T) {
	f := func(newer, older version, want string) {
		t.Helper()
		newer.Version, older.Version = "2.4.0", "2.3.9"
		s := &service{Versions: []version{newer, older}}
		s.judge(&View{Now: testNow, Zone: time.UTC})
		if !strings.HasPrefix(s.Verdict, want) {
			t.Errorf("verdict %q, want %q", s.Verdict, want)
		}
	}
	f(version{Calls: 257, Failed: 103}, version{Calls: 27}, "2.4.0 fails more often than 2.3.9: 40% of the calls (103 of 257) against 0% (0 of 27).")
	f(version{Calls: 27}, version{Calls: 257, Failed: 103}, "2.4.0 fails less often than 2.3.9")
	f(version{Calls: 3, Failed: 1}, version{Calls: 4}, "Too few calls to tell 2.4.0 from 2.3.9")
	f(version{Calls: 1000, Failed: 11}, version{Calls: 1000, Failed: 10}, "No clear difference")
	f(version{Calls: 1, Failed: 0}, version{Calls: 9}, "Neither 2.4.0 nor 2.3.9 failed, in 1 call and 9 calls.")
}

func TestHostileVersionsToolsProviders(t *testing.T) {
	versions := &Table{
		Columns: []Column{{"service", "String"}, {"service_version", "String"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"reasons", "Array(String)"}, {"reason_calls", "Array(UInt64)"}, {"first_call", "DateTime64"}},
		Rows:    [][]any{{hostile, hostile, uint64(50), uint64(40), []string{hostile}, []uint64{40}, testNow}, {hostile, hostile + "2", uint64(90), uint64(0), []string{}, []uint64{}, testNow}},
	}
	tools := &Table{
		Columns: []Column{{"tool_name", "String"}, {"service", "String"}, {"stage", "String"}, {"calls", "UInt64"}, {"unanswered", "UInt64"}, {"example", "String"}, {"example_call", "String"}},
		Rows:    [][]any{{hostile, hostile, hostile, uint64(9), uint64(2), hostile, hostile}},
	}
	providers := &Table{
		Columns: []Column{{"provider", "String"}, {"model", "String"}, {"server", "String"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"main_cause", "String"}},
		Rows:    [][]any{{hostile, hostile, hostile, uint64(9), uint64(2), hostile}},
	}
	latent := &Table{
		Columns: []Column{{"target", "String"}, {"rule", "String"}, {"provider", "String"}, {"model", "String"}, {"service", "String"}, {"stage", "String"}, {"versions", "Array(String)"}, {"example", "String"}, {"what_to_change", "String"}},
		Rows:    [][]any{{hostile, hostile, hostile, hostile, hostile, hostile, []string{hostile}, hostile, hostile}},
	}
	h := newTest(t, fakeSource{rows: map[string]*Table{"reason_counts": versions, "open_since": tools, "tokens_per_second": providers, "latent_violation": latent}}, "")
	for path, want := range map[string]string{"/versions": "fails more often than", "/calls": "2 of 9 tool calls got no reply", "/providers": "would be rejected"} {
		resp, body := get(h, path)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, no %q", path, resp.StatusCode, want)
		}
		harmless(t, body)
	}
}

// The first page says of a cause that is a guess that it is one; its links lead to the calls with the cause.
func TestGuess(t *testing.T) {
	table := func(column string, row ...any) *Table {
		return &Table{Columns: []Column{{column, "String"}, {"time", "DateTime64"}, {"n", "UInt64"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"reason_calls", "UInt64"}}, Rows: [][]any{row}}
	}
	_, body := get(newTest(t, fakeSource{rows: map[string]*Table{
		"Which causes made calls fail": table("why", "probably cause server_error", testNow.Add(-time.Minute), uint64(3), uint64(0), uint64(0), uint64(0)),
		"Which stages hurt most":       table("reason", "probably cause server_error", testNow, uint64(0), uint64(9), uint64(3), uint64(3)),
	}}, ""), "/")
	wantAll(t, body, "probably cause server_error", `probably cause <a href="/incident?why=server_error"><code>server_error</code></a> <small>3</small>`)
}
