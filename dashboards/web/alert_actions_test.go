package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fakeControls records what is done.
type fakeControls struct {
	text string // of all fields
	only bool
	err  error
	done []string
}

func (f *fakeControls) Rules(context.Context) ([]Rule, error) {
	return []Rule{
		{Name: f.text, Severity: f.text, Expr: f.text, For: time.Minute, Op: ">", Threshold: 0.3, Others: true, Value: 0.416, Series: 12, Labels: map[string]string{f.text: f.text}, Firing: 1, Evaluated: testNow},
		{Name: "Watch", Severity: "warning", Health: true},
	}, nil
}

func (f *fakeControls) Silences(context.Context) ([]Silence, error) {
	return []Silence{{ID: f.text, By: f.text, Comment: f.text, Matchers: []string{f.text}, From: testNow, To: testNow.Add(time.Hour), Matched: []Alert{{ID: f.text, Subject: f.text}}}}, nil
}

func (f *fakeControls) did(format string, args ...any) error {
	f.done = append(f.done, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeControls) Acknowledge(_ context.Context, id, by string, withdraw bool) error {
	return f.did("acknowledge %s %s %v", id, by, withdraw)
}

func (f *fakeControls) SilenceAlert(_ context.Context, id string, until time.Time, comment, by string) error {
	return f.did("silence %s %s %s %s", id, until.UTC().Format("02 15:04"), comment, by)
}

func (f *fakeControls) AddSilence(_ context.Context, matchers []string, until time.Time, comment, by string) error {
	return f.did("add %q %s %s %s", matchers, until.UTC().Format("02 15:04"), comment, by)
}

func (f *fakeControls) Expire(_ context.Context, id, by string) error {
	return f.did("expire %s %s", id, by)
}

func (f *fakeControls) Elsewhere() (string, bool) { return f.text, f.only }

func (f *fakeControls) Backtest(_ context.Context, rule string, from, to time.Time) (*Backtest, error) {
	if rule == "Watch" {
		return &Backtest{NotTested: f.text, Until: to}, nil
	}
	if rule == "LookBack" {
		return &Backtest{Until: from.Add(-time.Hour)}, nil
	}
	return &Backtest{
		Calls: 1200, Failed: 90, Until: to.Add(-time.Hour), Thresholds: []Threshold{{">", 0.3}},
		Values: []Series{{map[string]string{"severity": "critical"}, []Point{{from.Add(time.Hour), 0.1}, {from.Add(2 * time.Hour), 0.52}, {to.Add(-time.Minute), 0.02}}}},
		Alerts: []BacktestAlert{{Severity: "critical", Subject: f.text, Summary: f.text, From: from.Add(2 * time.Hour), To: from.Add(3 * time.Hour), Exchange: f.text}},
	}, nil
}

func newControlsTest(t *testing.T, c *fakeControls) http.Handler {
	t.Helper()
	o := fakeSource{}.options()
	o.Controls = c
	return handler(t, o)
}

// post submits a form, with the hidden field of the page.
func post(t *testing.T, h http.Handler, path string, fields url.Values, edit ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	_, page := get(h, "/alerts")
	_, rest, _ := strings.Cut(page, `name="form" value="`)
	form, _, _ := strings.Cut(rest, `"`)
	fields.Set("form", form)
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func TestAlertActions(t *testing.T) {
	f := func(path, fields, done, location string) {
		t.Helper()
		c := &fakeControls{}
		values := must.Get(url.ParseQuery(fields))(t)
		berlin := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: zoneCookie, Value: "Europe%2FBerlin"}) }
		resp, body := post(t, newControlsTest(t, c), path, values, berlin)
		if got := strings.Join(c.done, "; "); got != done || resp.Header.Get("Location") != location {
			t.Errorf("%s %s: did %q, location %q (status %d); want %q, %q", path, fields, got, resp.Header.Get("Location"), resp.StatusCode, done, location)
		}
		if location == "" && (resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Not done: ")) {
			t.Errorf("%s %s: status %d without a reason", path, fields, resp.StatusCode)
		}
	}
	f("/alerts/a1/acknowledge", "name=Anna", "acknowledge a1 Anna false", "/alerts?done=acknowledged")
	f("/alerts/a1/unacknowledge", "name=Anna&back=/incident/a1", "acknowledge a1 Anna true", "/incident/a1?done=unacknowledged")
	f("/alerts/a1/silence", "name=Anna&for=4h&back=https://evil.example/", "silence a1 23 13:30 from the alerts page Anna", "/?done=silenced&end=2026-11-23T13%3A30%3A00Z")
	f("/alerts/a1/silence", "name=Anna&for=tomorrow&comment=deploy", "silence a1 24 08:00 deploy Anna", "/alerts?done=silenced&end=2026-11-24T08%3A00%3A00Z")
	f("/silences", "name=Anna&for=90m&comment=x&matchers=service%3Da%20stage%3D~b.*", `add ["service=a" "stage=~b.*"] 23 11:00 x Anna`, "/alerts?done=added&end=2026-11-23T11%3A00%3A00Z")
	f("/silences", "name=Anna&for=90m&comment=x&matchers=service%3D%22a b%22%0D%0Astage%3Dc", `add ["service=\"a b\"" "stage=c"] 23 11:00 x Anna`, "/alerts?done=added&end=2026-11-23T11%3A00%3A00Z")
	f("/silences/s1/expire", "name=Anna", "expire s1 Anna", "/alerts?done=expired")
	f("/alerts/a1/acknowledge", "name=%20", "", "")
	f("/alerts/a1/acknowledge", "name="+strings.Repeat("x", maxName+1), "", "")
	f("/alerts/a1/silence", "name=Anna&for=-1h", "", "")
	f("/alerts/a1/silence", "name=Anna&for=10000h", "", "")
	f("/silences", "name=Anna&for=1h&matchers=service%3Da", "", "")
	f("/silences", "name=Anna&for=1h&comment=x", "", "")

	// Nothing is done for a form of another site.
	c := &fakeControls{}
	r := httptest.NewRequest(http.MethodPost, "/alerts/a1/acknowledge", strings.NewReader("name=Anna"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	newControlsTest(t, c).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(c.done) > 0 {
		t.Errorf("a form of another site: status %d, did %v", w.Code, c.done)
	}

	// A silence that has no effect is not made.
	for _, path := range []string{"/alerts/a1/silence", "/silences"} {
		c = &fakeControls{text: "Silences are made in Alertmanager.", only: true}
		resp, body := post(t, newControlsTest(t, c), path, url.Values{"name": {"Anna"}, "for": {"1h"}, "comment": {"x"}, "matchers": {"service=a"}})
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Not done: Silences are made in Alertmanager.") || len(c.done) > 0 {
			t.Errorf("%s where it has no effect: status %d, did %v", path, resp.StatusCode, c.done)
		}
	}

	// What a person typed is still there after an error.
	c = &fakeControls{err: errors.New("the matcher is wrong")}
	_, body := post(t, newControlsTest(t, c), "/silences", url.Values{"name": {"Anna"}, "for": {"7h"}, "comment": {"why not"}, "matchers": {"typed=here"}})
	wantAll(t, body, "Not done: the matcher is wrong.", "typed=here", "why not", `name="for" value="7h"`)
}

func TestControls(t *testing.T) {
	f := func(c *fakeControls, path string, want ...string) {
		t.Helper()
		_, body := get(newControlsTest(t, c), path, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: nameCookie, Value: url.QueryEscape(hostile)}) })
		wantAll(t, body, append(want, "</html>")...)
		harmless(t, body)
	}
	f(&fakeControls{text: hostile}, "/alerts", "1 firing", "0.416", "above 0.3", "not evaluated yet", "Silences 1 firing alert", "Add a silence")
	f(&fakeControls{text: hostile}, "/alerts", `title="2026-11-23 09:30:00.000 UTC">09:30:00 UTC</time></small></td>`) // last evaluation
	f(&fakeControls{text: hostile}, "/alerts?done=added&end=2026-11-23T11:00:00Z", "The silence is stored, until 11:00:00 UTC (in 1 h 30 min).")
	f(&fakeControls{text: hostile}, "/alerts?done=added&end="+url.QueryEscape(hostile))
	f(&fakeControls{text: hostile}, "/alerts?done="+url.QueryEscape(hostile))
	f(&fakeControls{text: "See Alertmanager.", only: true}, "/alerts", "See Alertmanager.")
	f(&fakeControls{text: hostile}, "/alerts/backtest?rule=x", "It would have fired 1 time", "threshold 0.3", "0.52, condition met (&gt; 0.3)", `class="span"`, "an alert fires", "replays for 10 s at most; this is the beginning")
	f(&fakeControls{text: hostile}, "/alerts/backtest?rule=Watch")
	f(&fakeControls{text: hostile}, "/alerts/backtest?rule=LookBack", "Unknown:", "reading the calls before this time took longer")
	if _, body := get(newControlsTest(t, &fakeControls{text: hostile}), "/alerts/backtest?rule=LookBack"); strings.Contains(body, "would not have fired") {
		t.Error("nothing was replayed, but the rule would not have fired")
	}
	for only, want := range map[bool]bool{true: false, false: true} {
		_, body := get(newControlsTest(t, &fakeControls{text: "See Alertmanager.", only: only}), "/alerts")
		must.Equal(t, strings.Contains(body, "Add a silence"), want, "silences have no effect: %v; one can be added", only)
		if got := strings.Contains(body, `formaction="/alerts/`); !got {
			t.Error("no alert can be acknowledged")
		}
		must.Equal(t, strings.Contains(body, `/silence">`), want, "silences have no effect: %v; the alert can be silenced", only)
	}
}

// A bar is red if and only if the comparison of the rule is true, also at the threshold and for a rule about too little.
func TestLevels(t *testing.T) {
	v := &View{From: testNow.Add(-2 * time.Hour), To: testNow, Now: testNow, Zone: time.UTC}
	f := func(op string, threshold float64, met bool, values ...float64) {
		t.Helper()
		s := Series{Labels: map[string]string{"severity": "warning"}}
		for _, x := range values { // of one bar
			s.Points = append(s.Points, Point{v.From, x})
		}
		c := v.levels(s, Threshold{op, threshold}, nil, v.To)
		want := values[len(values)-1]
		if quiet, red := c.Series[0].Values[0], c.Series[1].Values[0]; met && (quiet != 0 || red != want) || !met && (quiet != want || red != 0) {
			t.Errorf("%v %s %g: %g quiet, %g met; want %g, met %v", values, op, threshold, quiet, red, want, met)
		}
	}
	f(">", 0.3, false, 0.1, 0.3)
	f(">", 0.3, true, 0.1, 0.31)
	f(">=", 5, true, 4, 5)
	f("<", 20, true, 30, 7)
	f("<", 20, false, 30, 20)
	f("<=", 20, true, 30, 20)
	f("!=", 1, true, 1, 2)
	f(">", 0.3, true, math.NaN(), math.Inf(1), 0.4)
	firing := BacktestAlert{Severity: "warning", From: v.From.Add(time.Hour)}
	other := BacktestAlert{Severity: "critical", From: v.From}
	c := v.levels(Series{Labels: map[string]string{"severity": "warning"}}, Threshold{">", 1}, []BacktestAlert{firing, other}, v.To)
	if len(c.Spans) != 1 || c.Spans[0] != (Span{firing.From, v.To}) {
		t.Errorf("spans %v, want one to the end, of the alert of this severity", c.Spans)
	}
}
