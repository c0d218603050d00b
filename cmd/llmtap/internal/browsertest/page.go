package browsertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// pollInterval is the interval at which Page.Wait evaluates its condition.
const pollInterval = 50 * time.Millisecond

// A View is how a reader sees pages.
type View struct {
	Width, Height int
	Dark          bool
}

func (v View) String() string {
	if v.Dark {
		return fmt.Sprintf("%d pixels, dark", v.Width)
	}
	return fmt.Sprintf("%d pixels, light", v.Width)
}

// phone is the width below which a View is a phone.
const phone = 600

// A Page is a tab of its own browser, without cookies of others.
type Page struct {
	t       testing.TB
	b       *Browser
	session string
	view    View

	mu       sync.Mutex // guards the rest
	loads    int
	problems []string
	requests int
}

// Page opens an empty tab, which is closed when the test ends.
func (b *Browser) Page(t testing.TB, v View) *Page {
	t.Helper()
	p := &Page{t: t, b: b}
	var own struct{ BrowserContextID string }
	p.browser("Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &own)
	var target struct{ TargetID string }
	p.browser("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.BrowserContextID}, &target)
	var session struct{ SessionID string }
	p.browser("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p.session = session.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	ctx := context.WithoutCancel(t.Context()) // which ends before the cleanup
	t.Cleanup(func() {
		_ = b.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": own.BrowserContextID}, nil) // Browser.close follows
		b.mu.Lock()
		delete(b.pages, p.session)
		b.mu.Unlock()
	})
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	p.Show(v)
	return p
}

// Show changes the view.
func (p *Page) Show(v View) {
	p.t.Helper()
	p.view = v
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": v.Width < phone}, nil)
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

func (p *Page) browser(method string, params, result any) {
	p.t.Helper()
	must.Do(p.t, p.b.call(p.t.Context(), "", method, params, result))
}

func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	must.Do(p.t, p.b.call(p.t.Context(), p.session, method, params, result))
}

// event notes loads and problems.
func (p *Page) event(method string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		p.loads++
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		_ = json.Unmarshal(params, &e) // its zero value is a problem
		p.requests++
		if !local(e.Request.URL) {
			p.problems = append(p.problems, "a request leaves loopback: "+e.Request.URL)
		}
	case "Runtime.consoleAPICalled":
		var e struct {
			Type string
			Args []struct {
				Value       any
				Description string
			}
		}
		_ = json.Unmarshal(params, &e)
		p.problems = append(p.problems, fmt.Sprintf("console: %s %v", e.Type, e.Args))
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, "exception: "+string(params))
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Level, Text, URL string }
		}
		_ = json.Unmarshal(params, &e)
		if e.Entry.Level != "verbose" { // advice to developers
			p.problems = append(p.problems, fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	}
}

// local reports whether a URL is on this machine's loopback, or needs no network.
func local(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "about" || u.Scheme == "data" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Problems returns and forgets what the console and the network of the page have shown since the last call: messages, exceptions,
// blocked content, and requests that leave loopback.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.problems
	p.problems = nil
	return out
}

// Requests returns the number of requests of the page.
func (p *Page) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Open loads a URL.
func (p *Page) Open(url string) {
	p.t.Helper()
	p.loading(func() {
		var nav struct{ ErrorText string }
		p.call("Page.navigate", map[string]any{"url": url}, &nav)
		if nav.ErrorText != "" {
			p.t.Fatalf("open %s: %s", url, nav.ErrorText)
		}
	})
}

// Leave loads an empty page: the one before it no longer asks for what is new.
func (p *Page) Leave() {
	p.t.Helper()
	p.Open("about:blank")
}

// Follow clicks on the first element of a selector, and waits for the page that it leads to.
func (p *Page) Follow(selector string) {
	p.t.Helper()
	p.loading(func() { p.Click(selector) })
}

// tooLong is JavaScript that reports whether a part of the page was given up because the machine is busy.
const tooLong = `[...document.querySelectorAll("section > .problem")].some((e) => e.textContent.includes("took longer than"))`

// loading runs f and waits until the page that it loads is complete. A page with a part that took too long is loaded again.
func (p *Page) loading(f func()) {
	p.t.Helper()
	for deadline := time.Now().Add(callTimeout); ; f = func() { p.call("Page.reload", nil, nil) } {
		before := p.loaded()
		for f(); p.loaded() == before; time.Sleep(pollInterval) {
			if time.Now().After(deadline) {
				p.t.Fatal("the page did not load")
			}
		}
		var again bool // not if the page is being replaced
		if err := p.eval(tooLong, &again); err != nil || !again || time.Now().After(deadline) {
			return
		}
	}
}

func (p *Page) loaded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loads
}

// Eval evaluates JavaScript, awaits it if it is a promise, and decodes its value into result, unless that is nil.
func (p *Page) Eval(script string, result any) {
	p.t.Helper()
	must.Do(p.t, p.eval(script, result), fmt.Sprintf("%.200s", script))
}

func (p *Page) eval(script string, result any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.b.call(p.t.Context(), p.session, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r); err != nil {
		return err
	}
	switch {
	case r.ExceptionDetails != nil:
		return fmt.Errorf("%s %s", r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	case result == nil || len(r.Result.Value) == 0: // undefined has no value
		return nil
	}
	return json.Unmarshal(r.Result.Value, result)
}

// Wait waits until JavaScript evaluates to true. Errors, for example because the page is being replaced, are like false.
func (p *Page) Wait(condition string) {
	p.t.Helper()
	var err error
	for deadline := time.Now().Add(callTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		var ok bool
		if err = p.eval("Boolean("+condition+")", &ok); err == nil && ok {
			return
		}
	}
	p.t.Fatalf("%s is not true; last error: %v; the page says:\n%s", condition, err, p.Text("body"))
}

// Click clicks on the first element of a selector.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Eval(element(selector)+".click()", nil)
}

// Fill enters text into the first input of a selector.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Eval(element(selector)+".focus()", nil)
	p.Type(text)
}

// Submit presses Enter, and waits for the page that the form or the link leads to.
func (p *Page) Submit() {
	p.t.Helper()
	p.loading(func() { p.Press("Enter") })
}

// keys are the keys that Press knows, with their code points and the text that they enter.
var keys = map[string]struct {
	code int
	text string
}{"Enter": {13, "\r"}, "Tab": {9, ""}}

// Press presses a key.
func (p *Page) Press(name string) {
	p.t.Helper()
	k := keys[name]
	event := map[string]any{"type": "rawKeyDown", "key": name, "code": name, "windowsVirtualKeyCode": k.code}
	if k.text != "" {
		event["type"], event["text"] = "keyDown", k.text
	}
	p.call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	p.call("Input.dispatchKeyEvent", event, nil)
}

// maxTabs is the maximum number of times that TabTo presses Tab.
const maxTabs = 60

// TabTo presses Tab until an element of a selector has the focus. Every element on the way must be visible and show its focus;
// after the last one, the focus leaves the page once.
func (p *Page) TabTo(selector string) {
	p.t.Helper()
	for range maxTabs {
		p.Press("Tab")
		var at struct {
			Found, Shown bool
			HTML         string
		}
		p.Eval(fmt.Sprintf(`(() => {
			const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
			return {
				Found: e.matches(%s), HTML: e.outerHTML.slice(0, 200),
				Shown: e === document.body || box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && style.outlineStyle !== "none",
			};
		})()`, quote(selector)), &at)
		if !at.Shown {
			p.t.Errorf("the focus is not visible on %s", at.HTML)
		}
		if at.Found {
			return
		}
	}
	p.t.Fatalf("%d times Tab do not lead to %s", maxTabs, selector)
}

// Type enters text where the focus is.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Text returns the visible text of the first element of a selector, or "" if there is none.
func (p *Page) Text(selector string) (text string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("(document.querySelector(%s)?.innerText) ?? ''", quote(selector)), &text)
	return text
}

// Has reports whether the page has an element of a selector.
func (p *Page) Has(selector string) (ok bool) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("document.querySelector(%s) !== null", quote(selector)), &ok)
	return ok
}

// Links returns the URLs of all elements of a selector.
func (p *Page) Links(selector string) (urls []string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("[...document.querySelectorAll(%s)].map((e) => e.href)", quote(selector)), &urls)
	return urls
}

// Overflow returns the elements that make the page wider than the window.
func (p *Page) Overflow() (out []string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`((width) => {
		const all = document.documentElement.scrollWidth;
		if (all <= width) { return []; }
		const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.parentElement.closest(".scroll"));
		return [all + " of " + width + " pixels", ...wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 120))];
	})(%d)`, p.view.Width), &out)
	return out
}

// Screenshot returns the visible part of the page as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var r struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &r)
	return must.Get(base64.StdEncoding.DecodeString(r.Data))(p.t)
}

// A Violation is something that axe-core finds on a page.
type Violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
	for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
		fmt.Fprintf(&b, "\n  %.200s\n    %s", n.HTML, strings.Join(strings.Fields(n.FailureSummary), " "))
	}
	return b.String()
}

// Audit returns the serious and critical violations that axe-core finds on the page.
func (p *Page) Audit() []Violation {
	p.t.Helper()
	var loaded bool
	if p.Eval("window.axe !== undefined", &loaded); !loaded {
		path, err := axe.get(p.t.Context())
		if err != nil {
			unavailable(p.t, err)
		}
		p.Eval(string(must.Get(os.ReadFile(path))(p.t))+";0", nil)
	}
	// A page is not refreshed while text is selected: axe-core must not lose the elements that it looks at.
	p.Eval(`getSelection().selectAllChildren(document.querySelector("h1") || document.body)`, nil)
	defer p.Eval("getSelection().removeAllRanges()", nil)
	var all []Violation
	p.Eval(`axe.run(document, {resultTypes: ["violations"], preload: false}).then((r) => r.violations.map((v) =>
		({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => ({html: n.html, failureSummary: n.failureSummary}))})))`, &all)
	return slices.DeleteFunc(all, func(v Violation) bool { return v.Impact != "serious" && v.Impact != "critical" })
}

// element is JavaScript that finds the first element of a selector, or throws.
func element(selector string) string {
	return fmt.Sprintf("((s) => { const e = document.querySelector(s); if (!e) { throw new Error('no ' + s); } return e; })(%s)", quote(selector))
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string has a form in JSON
	return string(b)
}
