package analyzer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// shelf stores contents and history as a database would.
type shelf struct {
	contents map[string]string
	branches map[string]map[int]analyzer.HistoryEntry
	bytes    int // of contents, put again or not
}

func newShelf() *shelf {
	return &shelf{contents: make(map[string]string), branches: make(map[string]map[int]analyzer.HistoryEntry)}
}

func (s *shelf) take(t *testing.T, out *analyzer.Output) {
	t.Helper()
	for _, c := range out.Contents {
		if old, ok := s.contents[c.ID]; ok && old != c.Body {
			t.Errorf("content %s has two bodies", c.ID)
		}
		s.contents[c.ID] = c.Body
		s.bytes += len(c.Body)
	}
	for _, h := range out.History {
		b := s.branches[h.Branch]
		if b == nil {
			b = make(map[int]analyzer.HistoryEntry)
			s.branches[h.Branch] = b
		}
		if old, ok := b[h.Position]; ok && old.Content != h.Content {
			t.Errorf("position %d of branch %s has two contents", h.Position, h.Branch)
		}
		b[h.Position] = h
	}
}

// request restores the body of e.
func (s *shelf) request(e *analyzer.Exchange) string {
	var msgs []string
	for _, id := range e.Lead {
		msgs = append(msgs, s.contents[id])
	}
	for i := range e.Messages - len(e.Lead) {
		if id, ok := e.Marked[uint32(i)]; ok {
			msgs = append(msgs, s.contents[id])
			continue
		}
		b := e.Branch
		for {
			h, ok := s.branches[b][i]
			if ok {
				msgs = append(msgs, s.contents[h.Content])
				break
			}
			var parent string
			for _, h := range s.branches[b] {
				if i < h.Shared {
					parent = h.Parent
				}
				break
			}
			if parent == "" {
				return fmt.Sprintf("no message %d on branch %s", i, e.Branch)
			}
			b = parent
		}
	}
	rest := s.contents[e.Parameters]
	if len(rest) < e.MessagesAt || rest == "" {
		return "no parameters"
	}
	return rest[:e.MessagesAt] + strings.Join(msgs, ",") + rest[e.MessagesAt:]
}

// keeper returns an analyzer that emits all contents.
func keeper() *analyzer.Analyzer {
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	a.KeepContents(func(string) bool { return true }, nil)
	return a
}

// sender feeds exchanges to an analyzer and checks that each request can be restored.
type sender struct {
	t   *testing.T
	a   *analyzer.Analyzer
	s   *shelf
	now time.Time
	seq uint64
	n   int

	silent   bool // what is sent is replayed
	degraded bool // what is sent is degraded
}

func newSender(t *testing.T) *sender {
	return &sender{t: t, a: keeper(), s: newShelf(), now: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
}

func (s *sender) send(conversation, url, body, answer string) *analyzer.Exchange {
	s.t.Helper()
	s.n++
	var out analyzer.Output
	for _, k := range []event.Kind{event.Request, event.Response} {
		s.seq++
		s.now = s.now.Add(time.Second)
		ev := event.Event{
			Kind: k, Exchange: fmt.Sprintf("x%d", s.n), Time: s.now, Seq: s.seq, Origin: event.OriginHook, Capture: event.CaptureFull, Part: 1, Parts: 1,
			Instance: "i1", Labels: event.Labels{Service: "s", Conversation: conversation}, Degraded: s.degraded,
		}
		if ev.URL, ev.Method, ev.Body = url, "POST", []byte(body); k == event.Response {
			ev.URL, ev.Method, ev.Status, ev.ContentType, ev.Body = "", "", 200, "application/json", []byte(answer)
		}
		ev.BodyBytes = len(ev.Body)
		s.a.Process(&ev, analyzer.Position{Seq: s.seq, Time: s.now}, !s.silent, &out)
	}
	if s.silent {
		return nil
	}
	s.s.take(s.t, &out)
	if len(out.Exchanges) != 1 || s.degraded && len(out.Findings)+len(out.ToolCalls) > 0 {
		s.t.Fatalf("%d exchanges, %d findings, %d tool calls", len(out.Exchanges), len(out.Findings), len(out.ToolCalls))
	}
	e := &out.Exchanges[0]
	if e.Branch == "" && len(e.Lead) == 0 {
		s.t.Fatalf("nothing stored of %s", body)
	}
	must.Equal(s.t, compacted(s.t, s.s.request(e)), compacted(s.t, body), "exchange %s", e.ID)
	must.Equal(s.t, s.s.contents[e.Answer], answer, "answer")
	return e
}

// compacted removes the space between values, which may differ between messages.
func compacted(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		return err.Error() + " in " + s
	}
	return b.String()
}

const openaiURL = "https://api.openai.com/v1/chat/completions"

func chat(messages ...string) string {
	return `{"model":"gpt-4.1", "messages": [` + strings.Join(messages, ", ") + `], "tools":[{"type":"function","function":{"name":"f"}}]}`
}

func TestHistoryIsStoredOnce(t *testing.T) {
	s := newSender(t)
	sys, u1, a1, t1 := `{"role":"system","content":"You plan."}`, `{"role":"user","content":"Which port?"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_8Kq2mVx0TnWz4RbY","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"call_8Kq2mVx0TnWz4RbY","content":"80"}`
	calls := `{"choices":[{"message":` + a1 + `,"finish_reason":"tool_calls"}]}`
	ok := `{"choices":[{"message":{"role":"assistant","content":"Port 80."},"finish_reason":"stop"}]}`
	e1 := s.send("c", openaiURL, chat(sys, u1), calls)
	e2 := s.send("c", openaiURL, chat(sys, u1, a1, t1), ok)
	if e2.Branch != e1.Branch || len(e2.Lead) != 1 || e2.Parameters != e1.Parameters {
		t.Errorf("the next turn is %+v, after %+v", e2, e1)
	}
	before := len(s.s.contents)
	s.send("c", openaiURL, chat(sys, u1, a1, t1), ok) // sent again
	s.send("c", openaiURL, chat(sys, u1), calls)      // shorter
	must.Equal(t, len(s.s.contents), before, "contents stored")
	fork := s.send("c", openaiURL, chat(sys, u1, a1, `{"role":"tool","tool_call_id":"call_8Kq2mVx0TnWz4RbY","content":"81"}`), ok)
	if fork.Branch == e1.Branch {
		t.Error("a rewrite is no new branch")
	}
	// A changed system prompt is no rewrite.
	must.Equal(t, s.send("c", openaiURL, chat(`{"role":"system","content":"It is 8:01."}`, u1, a1, t1), ok).Branch, e1.Branch, "branch")
	// A second conversation shares the prompt and the tools.
	before = len(s.s.contents)
	if e := s.send("d", openaiURL, chat(sys, u1), calls); len(s.s.contents) != before+2 || e.Lead[0] != e1.Lead[0] || e.Parameters != e1.Parameters {
		t.Errorf("%d contents were stored, want a message and an answer", len(s.s.contents)-before)
	}
	// Under another id it is another history, complete by itself.
	e := s.send("f", openaiURL, chat(sys, u1, a1, t1), ok)
	must.Equal(t, e.Branch, e.ID, "branch of another conversation with the same history")
	s.send("e", "https://api.openai.com/v1/responses", `{"model":"gpt-5","input":[{"role":"user","content":"q"}]}`, `{"id":"resp_1","output":[]}`)
}

// Agents of Anthropic's API move cache marks: a marked message is stored with its mark and without.
func TestHistoryWithCacheMarks(t *testing.T) {
	s := newSender(t)
	message := func(text string, marked bool) string {
		mark := ""
		if marked {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		return `{"role":"user","content":[{"type":"text","text":"` + text + `"` + mark + `}]}`
	}
	said := `{"role":"assistant","content":[{"type":"text","text":"I look at the next one of them, and tell you."}]}`
	const turns = 40
	before := 0
	for n := range turns {
		var all []string
		for i := range n {
			all = append(all, message(fmt.Sprint("question ", i), i == n-1), said)
		}
		all = append(all, message(fmt.Sprint("question ", n), true))
		e := s.send("c", "https://api.anthropic.com/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[`+strings.Join(all, ",")+`]}`,
			`{"type":"message","role":"assistant","content":[{"type":"text","text":"I look at the next one of them, and tell you."}],"stop_reason":"end_turn"}`)
		if e.Branch != "x1" {
			t.Fatalf("turn %d is on branch %s", n, e.Branch)
		}
		if n == turns/2 {
			before = s.s.bytes
		}
	}
	if after := s.s.bytes - before; after > before*3/2 {
		t.Errorf("%d bytes for the first half of the turns, %d for the second", before, after)
	}
}

// A forgotten history that is sent again is stored as another branch: stored rows never change.
func TestHistoryAfterForgetting(t *testing.T) {
	s := newSender(t)
	ok := `{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`
	u := func(i int) string { return fmt.Sprintf(`{"role":"user","content":"question %d"}`, i) }
	first := s.send("c", openaiURL, chat(u(1), u(2), u(3)), ok)
	s.now = s.now.Add(2 * time.Hour)
	again := s.send("c", openaiURL, chat(u(1), u(2), u(4)), ok)
	if again.Branch == first.Branch {
		t.Errorf("branch %s was begun twice", again.Branch)
	}
	must.Equal(t, compacted(t, s.s.request(first)), compacted(t, chat(u(1), u(2), u(3))), "the first is now")
	s.now = s.now.Add(24 * time.Hour)
	stored := s.s.bytes
	if s.send("c", openaiURL, chat(u(1), u(2), u(4)), ok); s.s.bytes == stored {
		t.Error("a content in use is not stored again after a day")
	}
}

// Every recorded conversation is stored turn by turn and restored.
func TestHistoryOfRecordedConversations(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	requests, whole := 0, 0
	s := newSender(t)
	recordedConversations(t, func(n int, c *recorded) {
		for i := range c.Messages {
			url, body := c.request(i + 1)
			if url == "" || i < len(c.Messages)-1 && !bytes.Contains(c.Messages[i+1], []byte(`"assistant"`)) {
				continue
			}
			requests++
			whole += len(body)
			s.send(fmt.Sprint("c", n), url, string(body), `{}`)
		}
	})
	if s.s.bytes > whole/4 {
		t.Errorf("%d bytes are stored of %d", s.s.bytes, whole)
	}
	t.Logf("%d requests of %d bytes in %d bytes", requests, whole, s.s.bytes)
}

// An analyzer that knows a conversation only from a replay, which may have begun anywhere, stores all of it again.
func TestHistoryAfterReplay(t *testing.T) {
	ok := `{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`
	u := func(i int) string { return fmt.Sprintf(`{"role":"user","content":"question %d"}`, i) }
	for _, replayed := range []int{0, 1, 2, 3} { // of the requests before the restart
		s := newSender(t)
		all := [][]string{{u(1)}, {u(1), u(2), u(3)}, {u(1), u(2), u(4)}}
		for _, m := range all {
			s.send("c", openaiURL, chat(m...), ok)
		}
		last := &sender{t: t, a: keeper(), s: s.s, now: s.now.Add(-10 * time.Second), seq: 100, n: 100, silent: true}
		for _, m := range all[len(all)-replayed:] {
			last.send("c", openaiURL, chat(m...), ok)
		}
		last.silent = false
		for _, m := range [][]string{{u(1), u(2)}, {u(1), u(2), u(3)}, {u(1), u(2), u(4), u(5)}, {u(1), u(6)}} {
			last.send("c", openaiURL, chat(m...), ok)
		}
	}
}

// The messages of degraded requests are stored, each once, but not judged: with a reply without its call, without a
// conversation, and in dialects with the system prompt apart.
func TestDegradedRequestsAreStored(t *testing.T) {
	s := newSender(t)
	s.degraded = true
	sys, u1, orphan := `{"role":"system","content":"You plan."}`, `{"role":"user","content":"Which port?"}`,
		`{"role":"tool","tool_call_id":"call_8Kq2mVx0TnWz4RbY","content":"80"}`
	ok := `{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"call_9","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`
	e1 := s.send("c", openaiURL, chat(sys, u1), ok)
	if e1.Branch != e1.ID || len(e1.Lead) != 1 || e1.Conversation != "c" {
		t.Errorf("%+v", e1)
	}
	before := len(s.s.contents)
	e2 := s.send("c", openaiURL, chat(sys, u1, orphan), ok)
	if n := len(s.s.contents) - before; n != 1 || e2.Parameters != e1.Parameters || e2.Lead[0] != e1.Lead[0] {
		t.Errorf("%d contents were stored for one new message: %+v", n, e2)
	}
	// Erasing finds the messages of a call without a conversation through its row.
	if e := s.send("", openaiURL, chat(sys, u1), ok); e.Conversation != "" || e.Branch != "" || len(e.Lead) != 2 {
		t.Errorf("%+v", e)
	}
	s.now = s.now.Add(24 * time.Hour)
	s.send("c", openaiURL, chat(sys, u1, orphan), ok)
	s.send("d", "https://api.anthropic.com/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":9,"system":"You plan.","messages":[{"role":"user","content":"q"}]}`,
		`{"type":"message","role":"assistant","content":[]}`)
}
