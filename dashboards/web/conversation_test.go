package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fakeConversation is a conversation c1 whose second request x2 is broken; x3 repeats it.
type fakeConversation struct {
	err      error
	messages int // of x2
}

func (f fakeConversation) Find(_ context.Context, id string) (exchange, conversation string, err error) {
	switch {
	case f.err != nil:
		return "", "", f.err
	case strings.HasPrefix(id, "x"):
		return id, "", nil
	case id == "c1", id == "//c/1":
		return "", id, nil
	}
	return "", "", fmt.Errorf("%w: %s", ErrNotFound, id)
}

func (f fakeConversation) Requests(_ context.Context, id, exchange string, _ int) (*Requests, error) {
	out := &Requests{Conversation: id, Count: 3, At: 1}
	for i := range 3 {
		out.List = append(out.List, Request{
			Exchange: stored.Exchange{ID: "x" + strconv.Itoa(i+1), StartedAt: testNow, Stage: hostile, ServiceVersion: hostile, Status: 400, RootCause: hostile},
			Number:   i + 1, Repeats: i == 2, Rules: []string{hostile},
		})
		if out.List[i].ID == exchange {
			out.At = i
		}
	}
	return out, nil
}

func (f fakeConversation) Exchange(_ context.Context, id string) (*Exchange, error) {
	x := &Exchange{
		Exchange: stored.Exchange{
			ID: id, Conversation: "//c/1", StartedAt: testNow, Service: hostile, Stage: hostile, ServiceVersion: hostile, Environment: hostile, User: hostile, Server: hostile,
			Model: hostile, Status: 400, Cause: "orphan_tool_reply", RootCause: hostile, ErrorText: hostile, FinishReason: hostile, Code: hostile,
		},
		Shapes: hostile, NotStored: []string{hostile}, Complete: true, Parameters: hostile,
	}
	for i := range f.messages {
		m := Message{Index: i, Role: "user", Stored: true, Parts: []Content{{Kind: "text", Text: hostile, Partner: -1}}}
		switch i {
		case 1:
			m.Role, m.Parts = "assistant", []Content{{Kind: "call", Name: "read_cart", CallID: "call_9", Text: hostile, Partner: 2, Timing: hostile}}
		case 2:
			m.Role, m.Parts = "tool", []Content{{Kind: "reply", Name: "read_cart", CallID: "call_9", Text: strings.Repeat(hostile, 40), Partner: 1}}
		case 3:
			m.Role, m.Parts = hostile, []Content{{Kind: "reply", Name: hostile, CallID: hostile, Text: hostile, Partner: -1}, {Kind: "other", Title: hostile, Text: hostile, Partner: -1}}
		}
		x.Messages = append(x.Messages, m)
	}
	x.Answer = []Message{{Role: hostile, Stored: true, Parts: []Content{{Kind: "call", Name: hostile, Text: hostile, Partner: -1}}}}
	f1 := Finding{
		Finding: stored.Finding{
			Rule: "orphan_tool_reply", Severity: "reject", Status: 400, Message: f.messages - 2, Summary: hostile, RootCause: hostile, Evidence: hostile, Fix: hostile,
			FirstVersion: hostile, LastClean: hostile, CleanCalls: 618, Code: hostile + ":7 " + hostile, AnswerCode: "core/agent.py:145 Agent.run",
		},
		Diff: []DiffLine{{"-", "tool_calls[0].id", hostile}, {"+", hostile, hostile}}, Pairs: []DiffLine{{"", "", hostile}},
	}
	switch id {
	case "x2":
		x.Findings = []Finding{f1}
	case "x3":
		f1.Since = "x2"
		x.Findings = []Finding{f1, {Finding: stored.Finding{Rule: "other_rule", Summary: hostile}, Since: "x1"}}
	}
	return x, nil
}

func (fakeConversation) Raw(_ context.Context, _, part string) ([]byte, error) {
	switch part {
	case "request":
		return []byte(`{"model":"m"}`), nil
	case "answer":
		return []byte("data: " + hostile), nil
	}
	return nil, fmt.Errorf("%w: no part %s", ErrNotFound, part)
}

func conversations(t *testing.T, f Conversations) http.Handler {
	t.Helper()
	return handler(t, Options{Conversations: f})
}

// A link to a conversation shows the request that broke, with the broken message marked.
func TestConversation(t *testing.T) {
	f := func(path string, messages int, wants ...string) string {
		t.Helper()
		resp, body := get(conversations(t, fakeConversation{messages: messages}), path)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, "</html>") {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
		wantAll(t, body, wants...)
		harmless(t, body)
		return body
	}
	f("/conversation/c1", 6, "The provider rejected message 4 with status 400", `href="#broken"`, `id="broken"`, "Request 2 of 3", `href="/exchange/x1" rel="prev"`,
		`href="/exchange/x3" rel="next"`, "sent again 1 time, 1 failed", `<li class="message down" id="m1">`, `<li class="message up" id="m2">`, `message broken" id="m4"`,
		"reply in message 2", "called in message 1", "no call before it in this request", "What the model said", "Show all", "llmtap show x2 --format body | llmtap lint -",
		"/conversation/%2F%2Fc%2F1")
	f("/conversation/%2F%2Fc%2F1", 6, "Conversation //c/1")
	f("/exchange/x3", 6, "The provider rejected message 4", "in an earlier request", `id="broken"`, "1 finding of earlier requests")
	f("/exchange/x1", 6, "The call failed with status 400")
	if body := f("/exchange/x2?texts=no", 6, "With texts", "read_cart"); strings.Contains(body, "Show all") {
		t.Error("the structure contains texts")
	}
	// The messages around the broken one, the first ones, and the reply on another page.
	f("/exchange/x2", 2000, `id="m1998"`, `id="m1400"`, "1400 earlier messages")
	f("/exchange/x2?first=0", 2000, `id="m0"`, `id="m599"`, "first=600", `href="/exchange/x2#broken"`)
	if body := f("/exchange/x2?first=2", 2000); strings.Contains(body, `id="m1"`) || !strings.Contains(body, "first=0#m1") {
		t.Error("the call on another page has no link")
	}
}

func TestConversationMissing(t *testing.T) {
	f := func(source Conversations, path string, status int, want string) {
		t.Helper()
		resp, body := get(conversations(t, source), path)
		if resp.StatusCode != status || !strings.Contains(body, want) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: status %d, %s, %s", path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
	f(fakeConversation{}, "/conversation/unknown", http.StatusNotFound, "older than the retention")
	f(fakeConversation{err: fmt.Errorf("dial: %w", ErrUnavailable)}, "/conversation/c1", http.StatusServiceUnavailable, "This link works again")
	f(nil, "/exchange/x1", http.StatusServiceUnavailable, "not available in this process")
}

func TestRaw(t *testing.T) {
	f := func(path string, status int, kind, want string) {
		t.Helper()
		resp, body := get(conversations(t, fakeConversation{}), path)
		if resp.StatusCode != status || resp.Header.Get("Content-Type") != kind || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, %s, %s", path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
	f("/exchange/x1/raw?part=request", http.StatusOK, "application/json", `{"model":"m"}`)
	f("/exchange/x1/raw?part=answer", http.StatusOK, "text/plain; charset=utf-8", hostile) // never HTML
	f("/exchange/x1/raw?part=7", http.StatusNotFound, "text/plain; charset=utf-8", "no part 7")
	f("/exchange/c1/raw?part=request", http.StatusNotFound, "text/plain; charset=utf-8", "a conversation")
}

func TestCut(t *testing.T) {
	budget := 10_000
	f := func(text string, start int, whole, raw bool) {
		t.Helper()
		got := cut(text, "/raw", &budget)
		if len([]rune(got.Start)) != start || (got.Whole != "") != whole || (got.Raw != "") != raw {
			t.Errorf("%d characters: start %d, whole %d, raw %q", len(text), len([]rune(got.Start)), len(got.Whole), got.Raw)
		}
	}
	f("", 0, false, false)
	f("short", 5, false, false)
	f(strings.Repeat("é", startText), startText, false, false)
	f(strings.Repeat("é", 2000), startText, true, false)
	f(strings.Repeat("line\n", 100), 5*startLines-1, true, false)
	f(strings.Repeat("a", wholeText+1), startText, false, true)
	f(strings.Repeat("a", 9000), startText, false, true) // the budget of the page is used up
}

func TestConnectors(t *testing.T) {
	f := func(want string, calls ...int) { // the call that each message replies to, or -1
		t.Helper()
		var all []Message
		for i, call := range calls {
			all = append(all, Message{Index: i, Parts: []Content{{Kind: "reply", Partner: call}}})
		}
		up, down := connectors(all)
		got := ""
		for i := range all {
			got += map[[2]bool]string{{false, false}: ".", {false, true}: "v", {true, false}: "^", {true, true}: "|"}[[2]bool{up[i], down[i]}]
		}
		must.Equal(t, got, want, "%v", calls)
	}
	f("")
	f("..", -1, -1)
	f(".v||^v^.", -1, -1, 1, 1, 1, -1, 5, -1)
	f("v|||^", -1, -1, -1, 2, 0)
}
