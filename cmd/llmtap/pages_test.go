package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/demo"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var screenshots = flag.String("screenshots", "", "write pictures of the demo's pages to this `directory`")

// pageViews are the views in which every page must be usable.
var pageViews = []browsertest.View{{Width: 1440, Height: 1200}, {Width: 1440, Height: 1200, Dark: true}, {Width: 390, Height: 844}, {Width: 390, Height: 844, Dark: true}}

// TestPages uses the web pages of a demo as people do, in a real browser.
//
//	go test ./cmd/llmtap -run TestPages -screenshots deploy/screenshots
func TestPages(t *testing.T) {
	slowtest.Skip(t) // not parallel: agents that need ten minutes instead of one leave the window of the alert
	needClickHouse(t)
	b := browsertest.Start(t)
	t.Run("log in", func(t *testing.T) { testLogin(t, b) })
	t.Run("500 messages", func(t *testing.T) { testLong(t, b) })
	t.Run("500 calls", func(t *testing.T) { testLongRun(t, b) })
	t.Run("usual", func(t *testing.T) { testUsual(t, b) })
	d := startDemo(t)
	live := b.Page(t, pageViews[0])
	live.Open(d.fleet)
	live.Wait(`/[1-9]/.test(document.querySelector("#totals dd")?.textContent)`) // until the first call it is another page, which is loaded again
	live.Eval("window.sameDocument = true", nil)
	d.slack = d.printed(`Slack message: (http://\S+)`)
	t.Run("live", func(t *testing.T) { testLive(t, live) })
	live.Leave()
	t.Run("numbers", func(t *testing.T) { testNumbers(t, d) })
	t.Run("from Slack", func(t *testing.T) { testFromSlack(t, b, d) })
	t.Run("silence", func(t *testing.T) { testSilence(t, b, d) }) // while the alert fires
	t.Run("keyboard", func(t *testing.T) { testKeyboard(t, b, d) })
	t.Run("problem", func(t *testing.T) { testProblem(t, b, d) })
	t.Run("Grafana", func(t *testing.T) { testGrafana(t, d) })
	t.Run("filter", func(t *testing.T) { testFilter(t, b, d) })
	t.Run("from a number to its calls", func(t *testing.T) { testTraffic(t, b, d) })
	t.Run("views", func(t *testing.T) { testViews(t, b, d) })
	urls := d.pages(t, b)
	t.Run("audit", func(t *testing.T) {
		for _, u := range append(slices.Clone(urls), d.fleet+"alerts/backtest?rule=StageFailureRate&range=15m", d.fleet+"search?q=checkout-agent",
			d.fleet+"traffic/conversations", d.fleet+"views?of=/alerts", d.fleet+"search?q=question",
			d.fleet+"explore?measure=cost&by=model&step=5+minutes", d.fleet+"explore/calls_by?by=stage", d.timeline(t, b)) {
			t.Run(pageName(u), func(t *testing.T) {
				t.Parallel()
				p := b.Page(t, pageViews[0])
				p.Open(u)
				p.Eval(`document.querySelectorAll("details.act, details.filterbar").forEach((d) => { d.open = true; })`, nil)
				auditPage(t, p)
			})
		}
	})
	if *screenshots != "" {
		for _, u := range urls {
			if !slices.Contains([]string{"fleet", "versions", "problem", "conversation"}, pageName(u)) { // all together would be over 1 MB
				continue
			}
			takeScreenshot(t, b, u, browsertest.View{Width: 1200, Height: 760})
			if name := pageName(u); name == "problem" || name == "fleet" { // what links in Slack lead to
				takeScreenshot(t, b, u, browsertest.View{Width: 390, Height: 844, Dark: true})
			}
		}
	}
}

// A pagesDemo is a running demo.
type pagesDemo struct {
	dir          string                      // data directory
	fleet, slack string                      // URLs; the second is printed when the agents have ended
	printed      func(pattern string) string // waits for a match of the pattern in what the demo prints, and returns its group
}

// startDemo runs a demo until the test ends. It returns when the pages are served.
func startDemo(t *testing.T) *pagesDemo {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var stdout bytes.Buffer
	var stderr lockedBuffer
	ended := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		ended <- demo.Run(ctx, demo.Options{Seed: 1, Version: "dev", DataDir: dir, Stdout: &stdout, Stderr: &stderr})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("demo: %v", err)
		}
	})
	printed := func(pattern string) string {
		expr := regexp.MustCompile(pattern)
		var m []string
		must.Wait(t, "the demo prints "+pattern, func() bool {
			m = expr.FindStringSubmatch(stderr.String())
			select {
			case err := <-ended:
				ended <- nil
				t.Fatalf("the demo has ended: %v\n%s", err, stderr.String())
			default:
			}
			return m != nil
		}, func() any { return stderr.String() })
		return m[1]
	}
	return &pagesDemo{dir: dir, fleet: printed(`(?m)^ *\d+s  open (http://[0-9.:]+/) `), printed: printed}
}

// pages returns the URLs of all pages: those of the navigation, a problem and a conversation.
func (d *pagesDemo) pages(t *testing.T, b *browsertest.Browser) []string {
	t.Helper()
	p := b.Page(t, pageViews[0])
	defer p.Leave()
	p.Open(d.fleet)
	urls := p.Links("header nav a")
	for _, kind := range []string{"problem", "conversation"} {
		for _, from := range slices.Backward(slices.Clone(urls)) { // the conversation is one of the problem
			p.Open(from)
			if links := p.Links(`main a[href*="/` + kind + `/"]`); len(links) > 0 && answers(t, links[0]) {
				urls = append(urls, links[0])
				break
			}
		}
	}
	t.Log(strings.Join(urls, "\n"))
	return urls
}

// answers reports whether a URL is served.
func answers(t *testing.T, u string) bool {
	t.Helper()
	status, _ := fetch(t, u, "")
	return status == http.StatusOK
}

// pageName returns the first part of the path of a page.
func pageName(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return u
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(parsed.Path, "/"), "/")
	if name == "" {
		return "fleet"
	}
	return name
}

// auditPage checks the open page in all views.
func auditPage(t *testing.T, p *browsertest.Page) {
	t.Helper()
	for _, v := range pageViews {
		p.Show(v)
		for _, violation := range p.Audit() {
			t.Errorf("%s: %s", v, violation)
		}
		if wide := p.Overflow(); len(wide) > 0 {
			t.Errorf("%s: the page scrolls horizontally: %s", v, strings.Join(wide, "\n  "))
		}
	}
	clean(t, p)
}

// clean checks that the page is whole, that its console is empty and that no request has left loopback.
func clean(t *testing.T, p *browsertest.Page) {
	t.Helper()
	if strings.Contains(p.Text("main"), "cannot be shown") {
		t.Error("a part of the page cannot be rendered")
	}
	for _, problem := range p.Problems() {
		t.Error(problem)
	}
	if p.Requests() == 0 {
		t.Error("the browser reports no requests")
	}
}

func testLogin(t *testing.T, b *browsertest.Browser) {
	h := must.Get(web.NewHandler(web.Options{Login: func(token string) bool { return token == "secret" }, Version: "dev"}))(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	p := b.Page(t, pageViews[0])
	p.Open(srv.URL + "/?range=6h")
	auditPage(t, p)
	p.Fill("input[name=token]", "secret")
	p.Follow("button")
	var at string
	p.Eval("location.pathname + location.search", &at)
	if at != "/?range=6h" || p.Text("h1") != "Fleet" {
		t.Errorf("after login: %s, %q", at, p.Text("h1"))
	}
	clean(t, p)
	p.Follow("header form[action='/logout'] button")
	p.Open(srv.URL + "/")
	if !p.Has("input[name=token]") {
		t.Error("after logout, a page is shown")
	}
}

// The link in the Slack message leads to the problem, whose proof leads to the broken message. The id of its call finds it again.
func testFromSlack(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[2]) // on call, on a phone
	p.Open(d.slack)
	links := p.Links(`a[href*="/problem/"]`)
	if len(links) == 0 {
		t.Fatalf("the Slack message has no link to the problem:\n%s", p.Text("body"))
	}
	p.Problems() // those of Slack
	p.Open(links[0])
	if text := p.Text("main"); !strings.Contains(text, "checkout-agent/planner") || !strings.Contains(text, "2.4.0") {
		t.Errorf("the problem does not name its stage and version:\n%s", text)
	}
	if len(p.Links(`a[href$="#broken"]`)) == 0 {
		t.Fatal("the problem has no link to a broken message")
	}
	p.Follow(`a[href$="#broken"]`)
	p.Wait(`(() => { const top = document.querySelector("#broken").getBoundingClientRect().top; return top >= 0 && top < innerHeight; })()`)
	var broken string
	p.Eval(`document.querySelector("#broken").closest("li").innerText`, &broken)
	call := regexp.MustCompile(`call_\w+`).FindString(broken)
	if !strings.Contains(strings.ToLower(broken), "broken") || call == "" {
		t.Fatalf("the marked message is\n%s", broken)
	}
	p.Fill(".search input", call)
	p.Submit()
	must.Contain(t, p.Text("main"), call, "the search for")
	clean(t, p)
}

// A click on a stage restricts the page to it, a click on the filter removes it.
func testFilter(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[2])
	p.Open(d.fleet)
	all := len(p.Links("#stages tbody td:first-child a"))
	first := p.Text("#stages tbody td:first-child a")
	p.Follow("#stages tbody td:first-child a")
	if rows := p.Links("#stages tbody td:first-child a"); all < 2 || len(rows) != 1 || p.Text("#stages tbody td:first-child a") != first {
		t.Errorf("of %d stages, the filter shows %v; want %s", all, rows, first)
	}
	p.Follow("a.filter")
	if n := len(p.Links("#stages tbody td:first-child a")); n < 1 {
		t.Errorf("without the first filter: %d stages", n)
	}
	clean(t, p)
}

// A person opens the failed calls of the fleet, filters them by a suggested value, and follows one to its conversation over time.
func testTraffic(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[0])
	p.Open(d.fleet)
	p.Follow(`#totals a[href*="failed=yes"]`)
	failed := len(p.Links("#list tbody tr td:first-child a"))
	p.Click(".filterbar summary")
	p.Eval(`document.querySelector("input[name=cause]").focus()`, nil)
	p.Wait(`document.querySelectorAll("#values-cause option").length > 1`)
	p.Fill("input[name=cause]", "duplicate_reply")
	p.Follow(".filterbar button")
	calls := p.Links("#list tbody tr td:first-child a")
	if len(calls) == 0 || len(calls) >= failed || !strings.Contains(p.Text(".filters"), "duplicate_reply") {
		t.Errorf("%d of %d failed calls; filters: %s", len(calls), failed, p.Text(".filters"))
	}
	p.Follow("#list tbody tr td:first-child a")
	p.Follow(`#head a[href*="/timeline"]`)
	if n := len(p.Links("#timeline tr.call a")); n < 2 || !p.Has("#timeline tr.tool") || !p.Has("#timeline .bad") {
		t.Errorf("the timeline has %d calls: %s", n, p.Text("#timeline"))
	}
	clean(t, p)
}

// With the keyboard alone, a person finds calls by a text from another page. The view is saved for all, opened by somebody else, renamed
// and deleted; another one is only in this browser.
func testViews(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p, other := b.Page(t, pageViews[0]), b.Page(t, pageViews[3])
	p.Open(d.fleet)
	p.TabTo(".filterbar summary")
	p.Press("Enter")
	p.TabTo(".filterbar input[name=text]")
	p.Type("Sum question")
	p.Submit()
	if calls := p.Links("#list tbody tr td:first-child a"); len(calls) == 0 || !strings.Contains(p.Text(".filters"), "Sum question") || strings.Contains(p.Text("#list tbody"), "executor") {
		t.Errorf("%d calls; filters: %s", len(calls), p.Text(".filters"))
	}
	p.Follow(".views a")
	p.Fill("#save input[name=view]", "Questions")
	p.Fill("#save input[name=name]", "Anna")
	p.Submit()
	must.Contain(t, p.Text(".notice"), "saved for all", "notice")
	other.Open(d.fleet + "views")
	other.Follow("#views > .saved a")
	var at string
	other.Eval("location.pathname + location.search", &at)
	must.Equal(t, at, "/traffic/calls?text=Sum+question", "the view of others")
	p.Open(d.fleet + "views?of=" + url.QueryEscape("/traffic/calls?failed=yes"))
	p.Fill("#save input[name=view]", "Mine")
	p.Click("[data-own=save]")
	p.Wait(`document.querySelector("#own-views li")`)
	p.Open(d.fleet + "views")
	must.Contain(t, p.Text("#own-views"), "Mine", "views of this browser")
	other.Open(d.fleet + "views")
	must.Equal(t, other.Text("#own-views li"), "", "views of another browser")
	p.Eval(`document.querySelectorAll("#views details").forEach((d) => { d.open = true; }); document.querySelectorAll("#views li input:not([type=hidden])").forEach((i) => { i.value += " 2"; })`, nil)
	p.Click("#own-views form button:not([type])")
	p.Wait(`document.querySelector("#own-views b").textContent === "Mine 2"`)
	p.Follow("#views > .saved form button")
	must.Contain(t, p.Text("#views > .saved"), "Questions 2", "renamed")
	p.Eval(`document.querySelectorAll("#views details").forEach((d) => { d.open = true; })`, nil)
	p.Click("#own-views [data-own=delete]")
	p.Wait(`document.querySelector("#own-views").hidden`)
	p.Follow("#views > .saved button[formaction]")
	must.Contain(t, p.Text("#views"), "No view has been saved", "deleted")
	clean(t, p)
	clean(t, other)
}

// timeline returns the URL of a conversation over time.
func (d *pagesDemo) timeline(t *testing.T, b *browsertest.Browser) string {
	t.Helper()
	p := b.Page(t, pageViews[0])
	defer p.Leave()
	p.Open(d.fleet + "traffic/conversations?sort=failed")
	return p.Links("#list tbody tr td:first-child a")[0]
}

// A person silences the alert, sees it in the list and in Slack, ends the silence and acknowledges.
func testSilence(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[2])
	slack := b.Page(t, pageViews[0])
	inSlack := func(text string) {
		t.Helper()
		must.Wait(t, fmt.Sprintf("%q is in Slack", text), func() bool {
			slack.Open(d.slack)
			return strings.Contains(slack.Text("body"), text)
		}, func() any { return slack.Text("body") })
	}
	open := func(selector string) {
		t.Helper()
		p.Eval(`document.querySelectorAll("`+selector+`").forEach((d) => { d.open = true; })`, nil)
	}
	shows := func(selector string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			p.Wait(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, text))
		}
	}
	p.Open(d.fleet + "alerts")
	open("#now details.act")
	p.Fill("#now input[name=name]", "Anna")
	p.Fill("#now input[name=comment]", "rolling back 2.4.0")
	p.Follow("#now button[formaction$='/silence']")
	shows(".notice", "Silenced")
	shows("#now", "Silenced by Anna", "rolling back 2.4.0")
	shows("#silences", "service=\"checkout-agent\"", "Silences 1 firing alert")
	inSlack("Silenced by Anna")
	p.Follow("#silences form.act button") // the name is known now
	shows(".notice", "has ended")
	shows("#silences", "There are no silences")
	inSlack("The silence has ended")
	open("#now details.act")
	p.Follow("#now button[formaction$='/acknowledge']")
	shows("#now", "Acknowledged by Anna")
	inSlack("Acknowledged by Anna")
	clean(t, p)
}

// testKeyboard goes from the fleet to the broken message, searches, and withdraws the acknowledgement of testSilence, all without
// a mouse.
func testKeyboard(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[0])
	p.Open(d.fleet)
	p.TabTo("#now .alert a")
	p.Submit()
	p.TabTo("a[href$='#broken']")
	p.Submit()
	p.Wait("document.querySelector('#broken')")
	p.TabTo(".search input")
	p.Type("checkout-agent")
	p.Submit()
	p.Wait("location.pathname === '/search'")
	p.TabTo("header a[href='/alerts']")
	p.Submit()
	p.TabTo("#now details.act summary")
	p.Press("Enter")
	p.TabTo("#now input[name=name]")
	p.Type("Bea")
	p.TabTo("#now button[formaction$='/unacknowledge']")
	p.Submit()
	must.Contain(t, p.Text(".notice"), "withdrawn", "notice")
	clean(t, p)
}

// A person assigns the problem, says that it is fixed, reopens and ignores it, with the keyboard alone. Who did what is on its page.
func testProblem(t *testing.T, b *browsertest.Browser, d *pagesDemo) {
	p := b.Page(t, pageViews[2])
	p.Open(d.fleet + "problems?service=checkout-agent&state=all")
	p.TabTo("#problems tbody a")
	p.Submit()
	act := func(action, field, value, verdict string) {
		t.Helper()
		p.Eval(`document.querySelector("#act form[action$='/`+action+`']").closest("details").open = true`, nil)
		if field != "" {
			p.Fill("#act form[action$='/"+action+"'] input[name="+field+"]", value)
		}
		if name := "#act form[action$='/" + action + "'] input[name=name]:not([type=hidden])"; p.Has(name) {
			p.Fill(name, "Anna")
		}
		p.TabTo("#act form[action$='/" + action + "'] button")
		p.Submit()
		if got := p.Text(".verdict"); !strings.Contains(got, verdict) {
			t.Errorf("after %s, the problem is\n%s", action, got)
		}
	}
	act("assign", "assignee", "team-checkout", "assigned to team-checkout")
	act("resolve", "version", "2.4.1", "Fixed in 2.4.1, says Anna")
	act("reopen", "comment", "not deployed", "assigned to team-checkout")
	act("ignore", "comment", "known", "Ignored until")
	act("reopen", "", "", "assigned to team-checkout")
	var page string
	p.Eval("location.origin + location.pathname", &page)
	// Rows are stored a moment later.
	want := []string{"First seen", "Anna assigned it to team-checkout", "Anna says: fixed in 2.4.1", "Anna reopened it: not deployed", "Anna ignored it until"}
	must.Wait(t, fmt.Sprintf("the history has %q", want), func() bool {
		p.Open(page)
		got := p.Text("#history")
		return !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(got, text) })
	}, func() any { return p.Text("#history") })
	clean(t, p)
}

// takeScreenshot writes a picture of a page.
func takeScreenshot(t *testing.T, b *browsertest.Browser, u string, v browsertest.View) {
	t.Helper()
	p := b.Page(t, v)
	name := pageName(u)
	if !strings.Contains(u, "?") {
		u += "?range=15m" // the demo is young
	}
	p.Open(u)
	p.Open(u) // now in the zone of the browser
	if v.Dark {
		name += "-phone"
	}
	file := filepath.Join(*screenshots, name+".png")
	if !filepath.IsAbs(file) {
		file = filepath.Join("..", "..", file)
	}
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	filetest.Write(t, file, p.Screenshot())
}
