package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
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
	return &Backtest{
		Calls: 1200, Failed: 90, Until: to.Add(-time.Hour), Thresholds: []float64{0.3},
		Values: []Series{{map[string]string{"severity": "critical"}, []Point{{from.Add(time.Hour), 0.1}, {from.Add(2 * time.Hour), 0.52}, {to.Add(-time.Minute), 0.02}}}},
		Alerts: []BacktestAlert{{Severity: "critical", Subject: f.text, Summary: f.text, From: from.Add(2 * time.Hour), To: from.Add(3 * time.Hour), Exchange: f.text}},
	}, nil
}

func newControlsTest(t *testing.T, c *fakeControls) http.Handler {
	t.Helper()
	source := fakeSource{}
	h, err := NewHandler(Options{ClickHouse: source, Alerts: source, Controls: c, Tallies: source, Health: source, Now: func() time.Time { return testNow }, flushAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return h
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
		values, err := url.ParseQuery(fields)
		if err != nil {
			t.Fatal(err)
		}
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
	f("/alerts/a1/silence", "name=Anna&for=4h&back=https://evil.example/", "silence a1 23 13:30 from the alerts page Anna", "/?done=silenced")
	f("/alerts/a1/silence", "name=Anna&for=tomorrow&comment=deploy", "silence a1 24 08:00 deploy Anna", "/alerts?done=silenced")
	f("/silences", "name=Anna&for=90m&comment=x&matchers=service%3Da%20stage%3D~b.*", `add ["service=a" "stage=~b.*"] 23 11:00 x Anna`, "/alerts?done=added")
	f("/silences", "name=Anna&for=90m&comment=x&matchers=service%3D%22a b%22%0D%0Astage%3Dc", `add ["service=\"a b\"" "stage=c"] 23 11:00 x Anna`, "/alerts?done=added")
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

	// What a person typed is still there after an error.
	c = &fakeControls{err: errors.New("the matcher is wrong")}
	_, body := post(t, newControlsTest(t, c), "/silences", url.Values{"name": {"Anna"}, "for": {"1h"}, "comment": {"why not"}, "matchers": {"typed=here"}})
	for _, want := range []string{"Not done: the matcher is wrong.", "typed=here", "why not"} {
		if !strings.Contains(body, want) {
			t.Errorf("after an error, the page has no %q", want)
		}
	}
}

func TestControls(t *testing.T) {
	f := func(c *fakeControls, path string, want ...string) {
		t.Helper()
		_, body := get(newControlsTest(t, c), path, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: nameCookie, Value: url.QueryEscape(hostile)}) })
		for _, w := range append(want, "</html>") {
			if !strings.Contains(body, w) {
				t.Errorf("%s has no %q", path, w)
			}
		}
		for _, bad := range []string{"<script>alert", "<img src=x", "style=", "cannot be shown"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %q", path, bad)
			}
		}
	}
	f(&fakeControls{text: hostile}, "/alerts", "1 firing", "0.416", "&gt; 0.3", "not evaluated yet", "Silences 1 firing alert", "Add a silence")
	f(&fakeControls{text: hostile}, "/alerts?done=added", "The silence is stored")
	f(&fakeControls{text: hostile}, "/alerts?done="+url.QueryEscape(hostile))
	f(&fakeControls{text: "See Alertmanager.", only: true}, "/alerts", "See Alertmanager.")
	f(&fakeControls{text: hostile}, "/alerts/backtest?rule=x", "It would have fired 1 time", "threshold 0.3", "0.52", "replays for 10 s at most")
	f(&fakeControls{text: hostile}, "/alerts/backtest?rule=Watch")
	if _, body := get(newControlsTest(t, &fakeControls{only: true}), "/alerts"); strings.Contains(body, "Add a silence") {
		t.Error("a silence can be added where it has no effect")
	}
}
