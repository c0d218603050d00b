package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/stored"
)

// The diff of two messages does not depend on the order of members, and omits members that SDKs add to answers.
func TestDiff(t *testing.T) {
	f := func(said, sent string, want ...string) {
		t.Helper()
		var got []string
		for _, c := range diff(fields([]Place{{Body: json.RawMessage(said)}}), fields([]Place{{Body: json.RawMessage(sent)}})) {
			got = append(got, fmt.Sprintf("%c %s %s", c.mark, c.field().path, c.field().value))
		}
		must.Agree(t, cmp.Diff(want, got), said, sent)
	}
	f(`{"role":"assistant","content":"a"}`, `{"content": "a", "role": "assistant"}`, `  role "assistant"`, `  content "a"`)
	f(`{"content":null,"refusal":null,"annotations":[],"audio":null}`, `{"content":""}`, `- content null`, `+ content ""`)
	f(`{"tool_calls":null}`, `{"tool_calls":[]}`, `- tool_calls null`, `+ tool_calls []`)
	f(`{}`, `{"refusal":null}`, `-  {}`, `+ refusal null`)
	f(`{"c":[{"id":"1"},{"id":"2"}]}`, `{"c":[{"id":"2"}]}`, `- c[0].id "1"`, `  c[0].id "2"`)
	f(`{"arguments":"{\"a\": \"<b>\"}"}`, `{"arguments":{"a":"<b>"}}`, `- arguments '{"a": "<b>"}'`, `+ arguments.a "<b>"`)
	f(`{"n":1.0}`, `{"n":1}`, `- n 1.0`, `+ n 1`)
	f(`not JSON`, `not JSON`, `  `+` "not JSON"`)
}

func TestCopies(t *testing.T) {
	f := func(finding Finding, said string, request []string, want ...int) {
		t.Helper()
		m, _ := records.ParseMessage([]byte(said))
		var all []records.Message
		for _, r := range request {
			q, _ := records.ParseMessage([]byte(r))
			all = append(all, q)
		}
		must.Agree(t, cmp.Diff(want, copies(&finding, []records.Message{m}, all)), said)
	}
	const (
		user  = `{"role":"user","content":"q"}`
		call  = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		plain = `{"role":"assistant","content":""}`
		reply = `{"role":"tool","tool_call_id":"c1","content":"ok"}`
		text  = `{"role":"assistant","content":"Port 80."}`
	)
	f(Finding{Finding: stored.Finding{Message: 2}}, call, []string{user, call, reply}, 1)
	f(Finding{Finding: stored.Finding{Message: 2}}, call, []string{user, plain, reply}, 1)
	f(Finding{Finding: stored.Finding{Message: 2}}, call, []string{user, user, reply})
	f(Finding{Finding: stored.Finding{Message: 1, RootCause: "history_truncated_mid_pair"}}, call, []string{plain, reply})
	f(Finding{Finding: stored.Finding{Message: 3}}, call, []string{user, call, reply, call, reply}, 1, 3)
	f(Finding{Finding: stored.Finding{Message: 3}}, text, []string{user, text, user, reply}, 1)
}

// A request that names an answer by its id holds the calls of the answer, although no message has them.
func TestCompareUnresolved(t *testing.T) {
	said := []Place{{"x", -1, json.RawMessage(`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`)}}
	user, _ := records.ParseMessage([]byte(`{"role":"user","content":"well?"}`))
	c := compare(&Finding{Finding: stored.Finding{Rule: unresolved, Message: -1, ToolCallID: "c1"}}, "y", said, []records.Message{user}, []string{`{"role":"user","content":"well?"}`})
	if want := []Pair{{ToolCallID: "c1", ToolName: "f", Called: true, Sent: true, Replies: []int{}}}; !cmp.Equal(want, c.Calls) || len(c.Sent) > 0 {
		t.Errorf("%+v", c)
	}
}

// A view shortens long lists and texts, unless it is full.
func TestView(t *testing.T) {
	shown := func(v *view, marked ...int) string {
		var b strings.Builder
		each(v.gaps(30, 2, 3, 1, marked), func(i int) { fmt.Fprint(&b, i, " ") }, func(n int) { fmt.Fprintf(&b, "(%d) ", n) })
		return strings.TrimSpace(b.String())
	}
	must.Equal(t, shown(&view{}, 10), "0 1 (7) 9 10 11 (15) 27 28 29", "shown")
	must.Equal(t, shown(&view{}, 4), "0 1 2 3 4 5 (21) 27 28 29", "shown")
	if got := shown(&view{full: true}); strings.Contains(got, "(") {
		t.Errorf("full: %s", got)
	}
	f := func(full bool, text, want string) {
		t.Helper()
		v := &view{Style: &terminal.Style{Width: 40}, full: full}
		v.text(2, text, 20)
		must.Equal(t, v.String(), want, "%q", text)
	}
	f(false, "a\n\n b", "  a\n\n  b\n")
	f(false, strings.Repeat("0123456789", 200), "  0123456789012 … 1,980 characters left\n  out … 3456789\n")
	f(true, strings.Repeat("abcd ", 10), "  abcd abcd abcd abcd abcd abcd abcd\n  abcd abcd abcd\n")
	f(false, `{"a":[1,{"b":"x,y:z"}]}`, "  {\"a\": [1, {\"b … 6 characters left out\n  … y:z\"}]}\n")
	f(true, `{"a":[1,{"b":"x,y:z"}]}`, "  {\"a\": [1, {\"b\": \"x,y:z\"}]}\n")
}

// An error text is cut around the call that the finding is about.
func TestExcerpt(t *testing.T) {
	v := &view{Style: &terminal.Style{Width: 80}}
	text := strings.Repeat("x", 300) + " call_77 " + strings.Repeat("y", 300)
	if got := v.excerpt(text, []Finding{{Finding: stored.Finding{ToolCallID: "call_77", Message: 3}}}, 60); !strings.Contains(got, "call_77") || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") {
		t.Error(got)
	}
	must.Contain(t, v.excerpt(text, nil, 60), "549 characters left out")
}

// Half of the limit is for failures, each with the exchange before it; the rest are the newest exchanges.
func TestSelected(t *testing.T) {
	var all []*Turn
	for i := range 100 {
		t := &Turn{Exchange: &Exchange{}}
		if i == 20 || i == 30 || i == 40 {
			t.Cause = "orphan_tool_reply"
		}
		all = append(all, t)
	}
	must.Agree(t, cmp.Diff([]int{19, 20, 29, 30, 96, 97, 98, 99}, selected(all, 8)))
	got := selected(all, 100)
	must.Equal(t, len(got), 100, "got %v", got)
	must.Agree(t, cmp.Diff([]int{19, 20}, selected(all, 1)))
}

// A reply belongs to the nearest call with its id or, without ids, to the first one with its name.
func TestLinks(t *testing.T) {
	f := func(want string, messages ...string) {
		t.Helper()
		all := make([]records.Message, len(messages))
		for i, m := range messages {
			all[i], _ = records.ParseMessage([]byte(m))
		}
		must.Equal(t, fmt.Sprint(Links(all)), want, "%v", messages)
	}
	call := func(id string) string {
		return `{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	}
	reply := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"ok"}` }
	f("[]", reply("a"), call("a"))
	f("[{0 0 1 0 false} {0 0 2 0 true}]", call("a"), reply("a"), reply("a"), reply("b"))
	f("[{0 0 2 0 false} {1 0 3 0 false}]", call("a"), call("b"), reply("a"), reply("b"))
	f("[{0 0 1 0 false} {2 0 3 0 false}]", call("a"), reply("a"), call("a"), reply("a"))
	f("[{1 0 2 0 false}]", call("a"), call("a"), reply("a"))
	f("[{0 0 1 0 false} {0 1 1 1 false}]", `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"f","args":{}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"name":"f","response":{}}}]}`)
}
