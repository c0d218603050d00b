package analyzer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// sameWithout compares the output of steps with their output when each request is scanned whole.
func sameWithout(t *testing.T, steps []step, what string) *analyzer.Output {
	t.Helper()
	with, without := new(analyzer.Output), new(analyzer.Output)
	b := newAnalyzer(t, analyzer.Default())
	b.RememberSmall()
	a := newAnalyzer(t, analyzer.Default())
	a.ForgetRequests()
	for _, s := range steps {
		do(b, s, true, with)
		do(a, s, true, without)
	}
	if n, _ := a.Memos(); n > 0 {
		t.Fatalf("%s: the analyzer without memos has %d", what, n)
	}
	if !reflect.DeepEqual(without, with) {
		t.Errorf("%s (-scanned +recalled)\n%.3000s", what, cmp.Diff(without, with, cmpopts.IgnoreUnexported(analyzer.Output{})))
	}
	return with
}

// recorded is one real conversation.
type recorded struct {
	Format   string
	Model    string
	Tools    json.RawMessage
	System   json.RawMessage
	Messages []json.RawMessage
}

func recordedConversations(t *testing.T, f func(n int, c *recorded)) {
	t.Helper()
	recordedtest.Lines(t, recordedtest.Conversations, func(n int, line []byte) {
		c := must.JSON[recorded](t, line)
		f(n, &c)
	})
}

// request returns the body with the first n messages, as clients of the format write it, and its URL.
func (c *recorded) request(n int) (url string, b []byte) {
	root := map[string]any{"model": c.Model, "messages": c.Messages[:n]}
	if c.Tools != nil {
		root["tools"] = c.Tools
	}
	switch c.Format {
	case "openai.chat":
		url = "https://api.openai.com/v1/chat/completions"
	case "anthropic.messages":
		url = "https://api.anthropic.com/v1/messages"
		if c.System != nil {
			root["system"] = c.System
		}
	case "openai.responses":
		url = "https://api.openai.com/v1/responses"
		delete(root, "messages")
		root["input"] = c.Messages[:n]
	}
	return url, body(root)
}

// Real conversations, played turn by turn under a given id, with some messages lost, changed or reordered, give the same rows
// whether known messages are skipped or not.
func TestRecordedConversationsWithoutMemos(t *testing.T) {
	played, findings := 0, 0
	rnd := rand.New(rand.NewPCG(1, 1))
	recordedConversations(t, func(n int, c *recorded) {
		if url, _ := c.request(0); url == "" || testing.Short() && n%10 > 0 {
			return
		}
		played++
		s := newStream(fmt.Sprintf("c%d", n))
		whole := c.Messages
		c.Messages = append([]json.RawMessage(nil), whole...)
		for turn := 1; turn <= len(whole); turn += 1 + rnd.IntN(3) {
			if i := rnd.IntN(turn); n%2 == 0 && rnd.IntN(3) == 0 { // a bug of the agent
				switch j := rnd.IntN(turn); rnd.IntN(3) {
				case 0:
					c.Messages[i] = json.RawMessage(`{"role":"user","content":"…"}`)
				case 1:
					c.Messages[i], c.Messages[j] = c.Messages[j], c.Messages[i]
				case 2:
					c.Messages[i] = whole[j]
				}
			}
			var b []byte
			s.url, b = c.request(turn)
			id := s.exchange()
			s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url, Body: b})
			s.response(id, 400, fault(orphanText))
		}
		findings += len(sameWithout(t, s.steps, fmt.Sprintf("line %d", n)).Findings)
	})
	if findings == 0 {
		t.Error("the conversations have no finding; the test shows nothing")
	}
	t.Logf("%d conversations, %d findings", played, findings)
}

// So do random streams of broken agents whose requests are retried, arrive in parts, overlap and fork.
func TestStreamsWithoutMemos(t *testing.T) {
	for seed := range 6 {
		sameWithout(t, newFleet(uint64(seed)).events(400), fmt.Sprintf("seed %d", seed))
	}
}

// Memos are bounded, in bytes and in time, and conversations without a given id have none.
func TestMemosAreBounded(t *testing.T) {
	cfg := analyzer.Default()
	cfg.MaxStateBytes = 1 << 20
	a := newAnalyzer(t, cfg)
	a.RememberSmall()
	out := new(analyzer.Output)
	s := newStream("")
	loop(s, 3, 100)
	for i := range 500 {
		s.labels.Conversation = fmt.Sprintf("c%d", i)
		loop(s, 3, 100)
	}
	for _, st := range s.steps[:6] {
		do(a, st, true, out)
	}
	if n, bytes := a.Memos(); n != 0 || bytes != 0 {
		t.Errorf("%d memos of %d bytes of a conversation without an id", n, bytes)
	}
	most := 0
	for _, st := range s.steps {
		do(a, st, true, out)
		n, bytes := a.Memos()
		if bytes > 1<<18 {
			t.Fatalf("%d memos take %d bytes", n, bytes)
		}
		most = max(most, n)
	}
	if n, _ := a.Memos(); most < 100 || n == 501 {
		t.Errorf("%d memos, at most %d; nothing was evicted, or too much", n, most)
	}
	s.now = s.now.Add(2 * cfg.SessionLookback)
	s.labels.Conversation = ""
	loop(s, 1, 100)
	for _, st := range s.steps[len(s.steps)-2:] {
		do(a, st, true, out)
	}
	if n, bytes := a.Memos(); n != 0 || bytes != 0 {
		t.Errorf("after %v there are %d memos of %d bytes", 2*cfg.SessionLookback, n, bytes)
	}
}

// A conversation of small requests has no memo.
func TestSmallRequestsHaveNoMemo(t *testing.T) {
	for size, want := range map[int]int{10_000: 0, 20_000: 1} {
		a := newAnalyzer(t, analyzer.Default())
		s := newStream("c")
		loop(s, 3, size) // the last request has two replies of that size
		for _, st := range s.steps {
			do(a, st, true, new(analyzer.Output))
		}
		n, _ := a.Memos()
		must.Equal(t, n, want, "memos with replies of %d bytes", size)
	}
}

// Conversations of 30 messages cost little.
func TestMemoSize(t *testing.T) {
	a := newAnalyzer(t, analyzer.Default())
	out := new(analyzer.Output)
	const conversations = 20
	s := newStream("")
	for i := range conversations {
		s.labels.Conversation = fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		loop(s, 15, 2000) // the last request holds 30 messages
	}
	for _, st := range s.steps {
		do(a, st, true, out)
	}
	n, bytes := a.Memos()
	if n != conversations || bytes/n > 4<<10 {
		t.Errorf("%d memos of %d bytes", n, bytes)
	}
	t.Logf("%d bytes a conversation", bytes/n)
}
