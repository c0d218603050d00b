package analyzer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// sharedID returns the id of a content that conversations share.
func sharedID(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "000000000000" + hex.EncodeToString(sum[:14])
}

// Repeated contents have the id of their bytes, whatever preceded them, and are emitted once.
func TestContentsThatRepeat(t *testing.T) {
	s := newSender(t)
	ok := `{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`
	u := func(i int) string { return fmt.Sprintf(`{"role":"user","content":"question %d"}`, i) }
	prompts := func(n int, text string) (p []string) {
		for i := range n {
			p = append(p, fmt.Sprintf(`{"role":"system","content":"%s %d"}`, text, i%11))
		}
		return p
	}
	history := []string{}
	for turn, x := range []struct {
		lead          []string
		before, after string // of the messages
	}{
		{prompts(2, "Plan."), `{"model":"a","messages":[`, `]}`},
		{prompts(2, "Plan."), `{"model":"a","messages":[`, `]}`},
		{prompts(2, "Plan."), `{"model":"a","messages":[`, `],"n":1}`},
		{prompts(2, "Plan."), `{"model":"a","n":1,"messages":[`, `]}`},
		{prompts(2, "Plan."), `{"model":"b","n":1,"messages":[`, `]}`},
		{prompts(2, "Think."), `{"model":"a","messages":[`, `]}`},
		{prompts(1, "Think."), `{"model":"a","messages":[`, `]}`},
		{prompts(30, "Plan."), `{"model":"a","messages":[`, `]}`},
		{prompts(30, "Plan."), `{"model":"a","messages":[`, `]}`},
		{nil, `{"model":"a","messages":[`, `]}`},
		{prompts(2, "Plan."), `{"model":"a","messages":[`, `]}`},
	} {
		history = append(history, u(turn))
		e := s.send("c", openaiURL, x.before+strings.Join(append(slices.Clone(x.lead), history...), ",")+x.after, ok)
		if want := sharedID(x.before + x.after); e.Parameters != want || e.MessagesAt != len(x.before) {
			t.Errorf("turn %d: parameters %s at %d, want %s at %d", turn, e.Parameters, e.MessagesAt, want, len(x.before))
		}
		if len(e.Lead) != len(x.lead) {
			t.Fatalf("turn %d: %d leading messages, want %d", turn, len(e.Lead), len(x.lead))
		}
		for i, id := range e.Lead {
			must.Equal(t, id, sharedID(x.lead[i]), "turn %d: leading message %d", turn, i)
		}
	}
}

// Redaction may shorten a content: MessagesAt refers to the stored bytes, also when the content is known. A content that
// was stored long ago, or may have been deleted, is redacted and emitted again.
func TestContentsAreRedactedOnce(t *testing.T) {
	a := keeper()
	calls := 0
	a.KeepContents(func(string) bool { return true }, func(dst []byte, _ string, body []byte) []byte {
		calls++
		return append(dst, bytes.ReplaceAll(body, []byte("hunter22"), []byte("***"))...)
	})
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	body := `{"user":"hunter22","messages":[{"role":"system","content":"hunter22"},{"role":"user","content":"My word is hunter22."}],"stop":"hunter22"}`
	send := func(n int, conversation string) (out analyzer.Output) {
		for seq, k := range []event.Kind{event.Request, event.Response} {
			now = now.Add(time.Second)
			ev := event.Event{
				Kind: k, Exchange: fmt.Sprint("x", n), Time: now, Seq: uint64(2*n + seq), Origin: event.OriginHook, Capture: event.CaptureFull, Part: 1, Parts: 1, Instance: "i1",
				Labels: event.Labels{Service: "s", Conversation: conversation}, URL: openaiURL, Body: []byte(body),
			}
			if k == event.Response {
				ev.URL, ev.Status, ev.ContentType, ev.Body = "", 200, "application/json", nil
			}
			ev.BodyBytes = len(ev.Body)
			a.Process(&ev, analyzer.Position{Seq: ev.Seq, Time: now}, true, &out)
		}
		return out
	}
	for n, x := range []struct {
		conversation string
		before       func()
		contents     int
		masked       int // pieces
	}{
		{"c", func() {}, 3, 4},
		{"c", func() {}, 0, 0},
		{"d", func() {}, 1, 1}, // the message
		{"c", a.ForgetContents, 3, 4},
		{"c", func() { now = now.Add(13 * time.Hour) }, 3, 4},
	} {
		x.before()
		calls = 0
		out := send(n, x.conversation)
		if len(out.Contents) != x.contents || calls != x.masked {
			t.Errorf("exchange %d: %d contents emitted and %d pieces redacted, want %d and %d", n, len(out.Contents), calls, x.contents, x.masked)
		}
		if at := len(`{"user":"***","messages":[`); len(out.Exchanges) != 1 || out.Exchanges[0].MessagesAt != at {
			t.Errorf("exchange %d: %+v", n, out.Exchanges)
		}
		for _, c := range out.Contents {
			if strings.Contains(c.Body, "hunter22") {
				t.Errorf("exchange %d: %s", n, c.Body)
			}
			if c.Kind == content.KindParameters && c.Body != `{"user":"***","messages":[],"stop":"***"}` {
				t.Errorf("exchange %d: parameters %s", n, c.Body)
			}
		}
	}
}

// An argument with the name of a cache mark is no cache mark.
func TestContentsKeepArgumentsNamedLikeCacheMarks(t *testing.T) {
	s := newSender(t)
	s.send("c", "https://api.anthropic.com/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"Set it."},`+
		`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_01Ab","name":"set","input":{"a":1,"cache_control":{"type":"ephemeral"}}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01Ab","content":"done"}]}]}`, `{"type":"message","role":"assistant","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn"}`)
}
