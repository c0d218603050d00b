package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// longMessages is the number of messages of a longConversation.
const longMessages = 500

var longExchange = stored.Exchange{ID: "x1", Conversation: "c1", StartedAt: time.Now(), Seconds: 1, Service: "shop", Stage: "planner", Model: "m", Status: 400}

// A longConversation is one request with many messages: texts longer than what is unfolded, calls, and a broken reply near the end.
type longConversation struct {
	raws atomic.Int64 // requests for parts as they were captured
}

func (*longConversation) Find(context.Context, string) (exchange, conversation string, err error) {
	return "x1", "c1", nil
}

func (*longConversation) Requests(context.Context, string, string, int) (*web.Requests, error) {
	return &web.Requests{Conversation: "c1", Count: 1, List: []web.Request{{Exchange: longExchange, Number: 1, Messages: longMessages}}}, nil
}

func (*longConversation) Exchange(context.Context, string) (*web.Exchange, error) {
	x := &web.Exchange{Exchange: longExchange, Complete: true}
	text := strings.Repeat("The cart contains 3 items, and the second one is out of stock.\n", 30)
	for i := range longMessages {
		m := web.Message{Index: i, Role: "user", Stored: true, Parts: []web.Content{{Kind: "text", Text: text, Partner: -1}}}
		call := fmt.Sprint("call_", i/3)
		switch i % 3 {
		case 1:
			m.Role, m.Parts = "assistant", []web.Content{{Kind: "call", Name: "read_cart", CallID: call, Text: `{"user": 7}`, Partner: i + 1}}
		case 2:
			m.Role, m.Parts = "tool", []web.Content{{Kind: "reply", Name: "read_cart", CallID: call, Text: text, Partner: i - 1}}
		}
		x.Messages = append(x.Messages, m)
	}
	x.Messages[longMessages-3].Parts = []web.Content{{Kind: "reply", CallID: "call_x", Text: text, Partner: -1}}
	x.Findings = []web.Finding{{Finding: stored.Finding{Rule: "orphan_tool_reply", Severity: "reject", Status: 400, Message: longMessages - 3, Summary: "no call before it"}}}
	return x, nil
}

func (c *longConversation) Raw(_ context.Context, _, part string) ([]byte, error) {
	c.raws.Add(1)
	return []byte(`{"index": ` + part + `}`), nil
}

// scrollThrough scrolls to the end of a page that has n elements of a selector.
func scrollThrough(t *testing.T, p *browsertest.Page, selector string, n int) {
	t.Helper()
	var seen struct{ First, Load, Longest, Frames, Elements, Bytes float64 }
	// Six screens per frame, to the end. The times are for people: they depend on the machine.
	p.Eval(`(async () => {
		const load = performance.getEntriesByType("navigation")[0];
		const frame = () => new Promise((done) => requestAnimationFrame(done));
		let longest = 0, frames = 0, before = await frame();
		for (scrollTo(0, 0); scrollY + innerHeight < document.documentElement.scrollHeight - 2 && frames < 3000; frames++) {
			scrollBy(0, 6 * innerHeight);
			const now = await frame();
			longest = Math.max(longest, now - before);
			before = now;
		}
		return {first: load.responseStart, load: load.loadEventEnd, bytes: load.decodedBodySize, longest: longest, frames: frames, elements: document.querySelectorAll("`+selector+`").length};
	})()`, &seen)
	t.Logf("%.0f of %s, %.0f kB: first byte after %.0f ms, loaded after %.0f ms; scrolled through in %.0f frames, the longest took %.0f ms",
		seen.Elements, selector, seen.Bytes/1000, seen.First, seen.Load, seen.Frames, seen.Longest)
	if seen.Elements != float64(n) || seen.Frames == 0 || seen.Frames == 3000 {
		t.Errorf("the page cannot be scrolled through: %+v", seen)
	}
	if wide := p.Overflow(); len(wide) > 0 {
		t.Errorf("the page scrolls horizontally: %v", wide)
	}
}

// A conversation of many messages is one page that can be read to its end. What is captured is loaded on demand only.
func testLong(t *testing.T, b *browsertest.Browser) {
	conversation := &longConversation{}
	h := must.Get(web.NewHandler(web.Options{Conversations: conversation, Version: "dev"}))(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	p := b.Page(t, pageViews[2])
	p.Open(srv.URL + "/exchange/x1")
	scrollThrough(t, p, "li.message", longMessages)
	if n := conversation.raws.Load(); n != 0 {
		t.Errorf("the page has loaded %d raw parts", n)
	}
	p.Eval(`document.querySelector("a.jump").click()`, nil)
	p.Wait(`(() => { const top = document.querySelector("#broken").getBoundingClientRect().top; return top > -1 && top < innerHeight; })()`) // a browser scrolls by whole pixels
	clean(t, p)
	p.Follow("#m" + strconv.Itoa(longMessages-3) + " a.json")
	if text := p.Text("body"); !strings.Contains(text, `{"index": 497}`) || conversation.raws.Load() != 1 {
		t.Errorf("the raw message is %s", text)
	}
	p = b.Page(t, pageViews[2])                // the other one wants an icon for the raw message
	p.Open(srv.URL + "/exchange/x1?first=480") // the others are alike, and would take seconds
	for _, violation := range p.Audit() {
		t.Error(violation)
	}
	clean(t, p)
}

// A run of many calls, each with a tool call, is one picture that can be scrolled to its end.
func testLongRun(t *testing.T, b *browsertest.Browser) {
	began := time.Now().Add(-time.Hour)
	run := &web.Table{}
	for _, name := range []string{"kind", "name", "exchange", "began", "seconds", "first_byte", "status", "messages", "input_tokens", "output_tokens", "cost"} {
		run.Columns = append(run.Columns, web.Column{Name: name})
	}
	for i := range longMessages {
		at := began.Add(time.Duration(i) * 3 * time.Second)
		run.Rows = append(run.Rows, []any{"call", "planner", fmt.Sprint("x", i), at, 2.0, 0.5, int64(200), int64(2*i + 1), int64(1000 + i), int64(50), 0.001},
			[]any{"tool", "read_cart", fmt.Sprint("x", i), at.Add(2 * time.Second), 0.8, 0.0, int64(0), int64(0), int64(0), int64(0), nil})
	}
	h := must.Get(web.NewHandler(web.Options{Version: "dev", ClickHouse: func(context.Context, string, map[string]string) (*web.Table, error) { return run, nil }}))(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer srv.CloseClientConnections() // those of open pages, which are live
	for _, v := range []browsertest.View{pageViews[0], pageViews[2]} {
		p := b.Page(t, v)
		p.Open(srv.URL + "/timeline?run=r1")
		scrollThrough(t, p, "#timeline tr.call", longMessages)
		p.Wait(`document.querySelectorAll(".timeline tr.laid").length > 900`) // a picture of the whole page would have them
		clean(t, p)
	}
}

// testLive checks that a page opened before an alert fired shows it without being loaded again.
func testLive(t *testing.T, live *browsertest.Page) {
	live.Wait(`document.querySelector("#now .alert a")`)
	var same bool
	if live.Eval("window.sameDocument === true", &same); !same {
		t.Error("the page was loaded again")
	}
	clean(t, live)
}
