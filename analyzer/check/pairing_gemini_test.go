package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// geminiContents writes a body from a line per content: "u" a text, "m" with the functions that the model calls, "r"
// with the functions that the user answers, "m+" and "r+" the same with a text before them. "" is a missing name.
func geminiContents(contents ...string) string {
	var all []string
	for _, c := range contents {
		kind, names, _ := strings.Cut(c, " ")
		role, part := "user", `{"functionResponse":{"name":"%s","response":{"result":"ok"}}}`
		if kind[0] == 'm' {
			role, part = "model", `{"functionCall":{"name":"%s","args":{}}}`
		}
		var parts []string
		if kind == "u" || kind == "m" && names == "" || strings.HasSuffix(kind, "+") {
			parts = append(parts, `{"text":"so"}`)
		}
		for name := range strings.SplitSeq(names, ",") {
			switch name {
			case "":
			case "-":
				parts = append(parts, strings.Replace(part, `"name":"%s",`, "", 1))
			default:
				parts = append(parts, fmt.Sprintf(part, name))
			}
		}
		all = append(all, `{"role":"`+role+`","parts":[`+strings.Join(parts, ",")+`]}`)
	}
	return `{"contents":[` + strings.Join(all, ",") + `]}`
}

func TestPairingGemini(t *testing.T) {
	status := map[ReplyStatus]string{
		ReplyMatched: "ok", ReplyDuplicate: "duplicate", ReplyLate: "late", ReplyUnknown: "unknown",
		ReplyWithoutID: "no name", ReplyBeforeCall: "before call", ReplyOrphan: "orphan",
	}
	p := NewChecker(nil).pairing // one for all: what a request leaves behind must not show in the next
	var r facts.Request
	// A reply is rendered as its content, its status, and the content of its call with the index of the call there.
	f := func(replies, unanswered string, contents ...string) {
		t.Helper()
		body := geminiContents(contents...)
		must.Do(t, facts.ScanRequest(wire.Gemini, []byte(body), &r), body)
		p.reset(&r, wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI}, nil)
		place := func(call int) string {
			first := call
			for first > 0 && p.Calls[first-1].Message == p.Calls[call].Message {
				first--
			}
			return fmt.Sprintf("%d.%d", p.Calls[call].Message, call-first)
		}
		var got []string
		for i := range p.Replies {
			rep := &p.Replies[i]
			s := fmt.Sprintf("%d %s", rep.Message, status[rep.Status])
			if rep.Call >= 0 {
				s += " " + place(rep.Call)
			}
			got = append(got, s)
		}
		var open []string
		for c := range p.Unanswered() {
			for i := range p.Calls {
				if &p.Calls[i] == c {
					open = append(open, place(i))
				}
			}
		}
		must.Agree(t, cmp.Diff(replies, strings.Join(got, ", ")), contents, "replies")
		must.Agree(t, cmp.Diff(unanswered, strings.Join(open, ", ")), contents, "unanswered")
	}
	// A turn, and the same function again in the next one.
	f("2 ok 1.0", "", "u", "m f", "r f")
	f("2 ok 1.0, 4 ok 3.0", "", "u", "m f", "r f", "m f", "r f")
	f("2 ok 1.0, 5 ok 4.0", "", "u", "m f", "r f", "u", "m f", "r f", "m")
	// Parallel calls: of one function in order, of several in any order.
	f("2 ok 1.0, 2 ok 1.1, 2 ok 1.2", "", "u", "m f,f,f", "r f,f,f")
	f("2 ok 1.1, 2 ok 1.0, 2 ok 1.2", "", "u", "m f,g,f", "r g,f,f")
	f("2 ok 1.0, 2 ok 1.2, 2 ok 1.1", "", "u", "m+ f,g,f", "r+ f,f,g")
	// A reply is missing.
	f("2 ok 1.0, 2 ok 1.1", "1.2", "u", "m f,f,f", "r f,f")
	f("2 ok 1.0", "1.1", "u", "m f,g", "r f", "u")
	f("", "1.0, 1.1", "u", "m f,g")
	f("", "1.0", "u", "m f", "u")
	// A reply too many.
	f("2 ok 1.0, 2 duplicate 1.0", "", "u", "m f", "r f,f")
	f("2 ok 1.0, 2 ok 1.1, 2 duplicate 1.1", "", "u", "m f,f", "r f,f,f")
	f("2 ok 1.0, 3 duplicate 1.0", "", "u", "m f", "r f", "r f")
	// A name that nobody called, and no name.
	f("2 ok 1.0, 2 unknown", "", "u", "m f", "r f,x")
	f("2 ok 1.0, 2 no name", "", "u", "m f", "r f,-")
	f("2 no name 1.0", "", "u", "m -", "r -")
	f("2 ok 1.1, 2 no name 1.0", "", "u", "m -,f", "r f,-")
	// Replies are counted: a wrong name leaves no call open.
	f("2 unknown", "", "u", "m f", "r x")
	f("2 unknown, 2 ok 1.0", "", "u", "m f,g", "r x,f")
	f("2 unknown", "1.1", "u", "m f,g", "r x")
	// The functions of other turns have replies of their own.
	f("0 orphan, 4 ok 3.0", "", "r f", "m", "u", "m f", "r f")
	f("2 ok 1.0, 5 orphan", "", "u", "m f", "r f", "m", "u", "r f")
	f("2 ok 1.0, 4 unknown, 4 ok 3.0", "", "u", "m f", "r f", "m g", "r f,g")
	// Without a call before.
	f("0 orphan", "", "r f", "m")
	f("1 orphan, 1 no name", "", "u", "r f,-", "m")
	// A text between the call and its reply closes the turn; a text in the reply's own content does not.
	f("3 late 1.0", "1.0", "u", "m f", "u", "r f")
	f("2 ok 1.0, 3 ok 1.1", "", "u", "m f,g", "r+ f", "r+ g")
	f("2 ok 1.0, 4 late 1.1", "1.1", "u", "m f,g", "r f", "u", "r g")
	// Replies in several contents, as a client of the Gemini API sends them and is answered; calls in several, too.
	f("2 ok 1.0, 3 ok 1.1, 4 ok 1.2", "", "u", "m f,f,f", "r f", "r f", "r f")
	f("2 ok 1.0, 3 ok 1.1", "1.2", "u", "m f,f,f", "r f", "r f", "u")
	f("3 ok 1.0, 3 ok 2.0", "", "u", "m f", "m f", "r f,f")
	f("3 ok 2.0, 4 ok 1.0", "", "u", "m f", "m g", "r g", "r f")
}

// The role of a content with replies does not matter: older clients call it function.
func TestPairingGeminiRoles(t *testing.T) {
	var r facts.Request
	p := NewChecker(nil).pairing
	for _, role := range []string{`"role":"function",`, `"role":"USER",`, ""} {
		body := `{"contents":[{"role":"MODEL","parts":[{"functionCall":{"name":"f"}}]},{` + role + `"parts":[{"functionResponse":{"name":"f"}}]}]}`
		must.Do(t, facts.ScanRequest(wire.Gemini, []byte(body), &r))
		p.reset(&r, wire.Target{Dialect: wire.Gemini}, nil)
		if len(p.Replies) != 1 || p.Replies[0].Status != ReplyMatched {
			t.Errorf("%s: replies %+v", body, p.Replies)
		}
	}
}

// Where calls and replies have ids too, replies to one function may come in any order.
func TestPairingGeminiIDs(t *testing.T) {
	var r facts.Request
	p := NewChecker(nil).pairing
	call := func(id string) string { return `{"functionCall":{"name":"f","id":"` + id + `"}}` }
	reply := func(id string) string { return `{"functionResponse":{"name":"f","id":"` + id + `","response":{}}}` }
	body := `{"contents":[{"role":"model","parts":[` + call("1") + `,` + call("2") + `,` + call("3") + `]},` +
		`{"role":"user","parts":[` + reply("3") + `,` + reply("1") + `,` + reply("2") + `,` + reply("4") + `]}]}`
	must.Do(t, facts.ScanRequest(wire.Gemini, []byte(body), &r))
	p.reset(&r, wire.Target{Dialect: wire.Gemini}, nil)
	for i, want := range []int{2, 0, 1} {
		if p.Replies[i].Status != ReplyMatched || p.Replies[i].Call != want {
			t.Errorf("reply %d: status %d of call %d, want call %d", i, p.Replies[i].Status, p.Replies[i].Call, want)
		}
	}
	if p.Replies[3].Status != ReplyUnknown { // no call has its id
		t.Errorf("one reply too many: status %d", p.Replies[3].Status)
	}
}

// An id that two calls share is known to be one, although replies name functions. A name in place of an id is none.
func TestPairingGeminiSharedIDs(t *testing.T) {
	var r facts.Request
	p := NewChecker(nil).pairing
	for _, test := range []struct {
		ids  []string // of calls to f and g in turn; each is a message of its own
		want []int
	}{
		{[]string{"1", "2", "1", "1", "2"}, []int{-1, -1, 0, 2, 1}},
		{[]string{"", "", ""}, []int{-1, -1, -1}},
		{[]string{"f", "1", "f"}, []int{-1, -1, -1}},
		{[]string{"g", "1", "g"}, []int{-1, -1, 0}},
	} {
		var body strings.Builder
		for i, id := range test.ids {
			fmt.Fprintf(&body, `,{"role":"model","parts":[{"functionCall":{"name":"%c","id":"%s"}}]}`, "fg"[i%2], id)
		}
		must.Do(t, facts.ScanRequest(wire.Gemini, []byte(`{"contents":[`+body.String()[1:]+`]}`), &r))
		p.reset(&r, wire.Target{Dialect: wire.Gemini}, nil)
		for i, want := range test.want {
			must.Equal(t, p.Calls[i].Again, want, "ids %q: call %d has the id of call", test.ids, i)
		}
	}
}
