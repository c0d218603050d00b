package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

type fakeViews struct{ all []SavedView }

func (f *fakeViews) All(context.Context) ([]SavedView, error) { return f.all, nil }

func (f *fakeViews) Edit(_ context.Context, edit func(all []SavedView) ([]SavedView, error)) error {
	all, err := edit(f.all)
	if err == nil {
		f.all = all
	}
	return err
}

func TestSavedViews(t *testing.T) {
	fake := &fakeViews{}
	o := fakeSource{}.options()
	o.Controls, o.Views = &fakeControls{}, fake
	h := handler(t, o)
	f := func(path, fields, want string) {
		t.Helper()
		values := must.Get(url.ParseQuery(fields))(t)
		values.Set("name", "Anna")
		resp, body := post(t, h, path, values)
		var got []string
		for _, v := range fake.all {
			got = append(got, v.Name+" "+v.URL)
		}
		must.Equal(t, strings.Join(got, "; "), want, "%s %s", path, fields)
		if done := resp.StatusCode == http.StatusSeeOther; done == strings.Contains(body, "Not done: ") {
			t.Errorf("%s %s: status %d, body %s", path, fields, resp.StatusCode, body)
		}
	}
	f("/views", "view=b&url=/%3Frange=6h", "b /?range=6h")
	f("/views", "view=A&url=/traffic/calls", "A /traffic/calls; b /?range=6h")
	f("/views", "view=b&url=/alerts", "A /traffic/calls; b /alerts") // replaced
	f("/views/rename", "old=b&view=A", "A /traffic/calls; b /alerts")
	f("/views/rename", "old=x&view=y", "A /traffic/calls; b /alerts")
	f("/views/rename", "old=A&view=c", "b /alerts; c /traffic/calls")
	f("/views/delete", "old=b&view=b", "c /traffic/calls")
	for _, bad := range []string{
		"", "view=x", "view=x&url=//evil.example/", "view=x&url=https://evil.example/", "view=x&url=javascript:alert(1)", "view=%20&url=/", "view=a%00b&url=/", "view=%ff&url=/",
		"view=" + strings.Repeat("x", maxViewName+1) + "&url=/", "view=x&url=/" + strings.Repeat("x", maxViewURL),
	} {
		f("/views", bad, "c /traffic/calls")
	}
	fake.all = nil
	for i := range maxViews {
		fake.all = append(fake.all, SavedView{Name: fmt.Sprint(i), URL: "/"})
	}
	_, body := post(t, h, "/views", url.Values{"view": {"one more"}, "url": {"/"}, "name": {"Anna"}})
	must.Contain(t, body, "delete one first")
	must.Equal(t, len(fake.all), maxViews, "views")
	fake.all = []SavedView{{Name: hostile, URL: "/?service=" + url.QueryEscape(hostile), By: hostile, At: testNow}}
	_, body = get(h, "/views?of="+url.QueryEscape("/?service="+hostile))
	wantAll(t, body, "&lt;script&gt;alert", "Save for all", "09:30:00 UTC")
	harmless(t, body)
	_, body = get(h, "/views?of="+url.QueryEscape("//evil.example/"))
	must.Equal(t, strings.Contains(body, "evil"), false, "a page of another site")
	_, body = get(handler(t, fakeSource{}.options()), "/views?of=/alerts")
	wantAll(t, body, "saved views are not available", `value="/alerts"`) // this browser still has its own
	_, body = get(h, "/versions?service=a&range=6h")
	wantAll(t, body, `href="/views?of=%2Fversions%3Frange%3D6h%26service%3Da"`)
}

// The unit of a value is that of what the rule measures.
func TestRuleWords(t *testing.T) {
	f := func(measured, op string, threshold, value float64, words, fires string) {
		t.Helper()
		r := Rule{Measured: measured, Op: op, Threshold: threshold}
		must.Equal(t, r.Words(value), words, "%s", measured)
		must.Equal(t, r.Fires(), fires, "%s", measured)
	}
	f(`(sum by (stage) (failed) >= 10) / (sum by (stage) (round(increase(llmtap_calls_total[10m1ms]))) >= 20)`, ">", 0.3, 0.4523, "45.2% of calls", "above 30% of calls")
	f(`100 * llmtap_budget_spent_dollars / llmtap_budget_dollars`, ">", 100, 81, "81%", "above 100%")
	f(`max(llmtap_backlog_ratio)`, ">", 0.8, 0.25, "25%", "above 80%")
	f(`max(llmtap_tally_age_seconds)`, ">", 300, 3, "3 s", "above 5 min")
	f(`sum(round(increase(llmtap_findings_total[30m1ms])))`, ">=", 5, 103, "103", "at 5 or more")
	f(``, "", 0, 0, "0", "")
}
