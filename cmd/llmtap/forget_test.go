package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/erase"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A forgetTest sends conversations of users.
type forgetTest struct {
	*commandTest
	key []byte // of the hashes of users; nil: as of hooks without a key
}

// send publishes a call of a conversation with these messages and returns its id.
func (f forgetTest) send(conversation, user string, messages ...string) string {
	f.t.Helper()
	request := `{"model":"deepseek-chat","messages":[` + strings.Join(messages, ",") + `],"temperature":0}`
	answer := `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"answer ` + conversation + `"},"finish_reason":"stop"}]}`
	return f.publish(event.Labels{Conversation: conversation, User: event.HashUser(f.key, user)}, "https://api.deepseek.com/chat/completions", event.CaptureFull, 200, request, answer)
}

func (f forgetTest) forget(args ...string) (r erase.Report) {
	f.t.Helper()
	out, errs, code := f.llmtap(append([]string{"forget", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.ExitOK {
		f.t.Fatalf("forget %v: %s%s, %d, %v", args, out, errs, code, err)
	}
	return r
}

// One of several conversations with the same prompt is deleted from the stream, the dead letters and the tables. The others,
// and later ones, stay complete.
func TestForget(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	f := forgetTest{commandTest: newCommandTest(t)}
	up := f.up
	prompt, ask := `{"role":"system","content":"You plan trips."}`, func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	said := func(conversation string) string {
		return `{"role":"assistant","content":"answer ` + conversation + `"}`
	}
	f.send("conv-a", "u1", prompt, ask("alpha to Paris"))
	f.send("conv-a", "u1", prompt, ask("alpha to Paris"), said("conv-a"), ask("and alpha back"))
	f.send("conv-b", "u2", prompt, ask("beta to Rome"))
	b := f.send("conv-b", "u2", prompt, ask("beta to Rome"), said("conv-b"), ask("and back"))
	f.send("conv-c", "u3", prompt, ask("gamma to Oslo"))
	c := f.send("conv-c", "u2", prompt, ask("gamma to Oslo"), said("conv-c"), ask("more"))
	keyed := f
	keyed.key = []byte(must.Get(collector.ShapeKey(up.dir))(t))
	keyed.send("conv-d", "u3", prompt, ask("delta to Bern"))
	f.waitStored(7)
	bad := event.Event{Kind: event.Request, Exchange: "019aa0b0-aaaa-7000-8000-00000000beef", Time: time.Now(), Labels: event.Labels{Service: "planner-api", Conversation: "conv-a"}}
	f.conn.DeadLetter(t.Context(), &bad, 1, 0, "bad_body", "made up")

	if _, errs, code := f.llmtap("forget", "--conversation", "conv-a"); code != command.ExitBadInput || !strings.Contains(errs, "--yes") {
		t.Errorf("without --yes: %s, %d", errs, code)
	}
	if _, errs, code := f.llmtap("forget", "--yes"); code != command.ExitBadInput || !strings.Contains(errs, "exactly one of") {
		t.Errorf("without a subject: %s, %d", errs, code)
	}
	want := erase.Report{DryRun: true, Events: 4, DeadLetters: 1, Rows: map[string]uint64{
		"exchanges": 2, "findings": 0, "tool_calls": 0, "runs": 0, "alerts": 0,
		"history": 3, "messages": 4, // three of the history, and the answer, stored once; prompt and parameters are shared
	}}
	check := func(got, want erase.Report) {
		t.Helper()
		got.Scanned = 0
		delete(got.Rows, "findings") // there may be signals
		delete(want.Rows, "findings")
		must.Agree(t, cmp.Diff(want, got))
	}
	check(f.forget("--conversation", "conv-a", "--dry-run"), want)
	check(f.forget("--conversation", "conv-a", "--dry-run"), want)
	want.DryRun = false
	check(f.forget("--conversation", "conv-a", "--yes"), want)

	nothing := erase.Report{DryRun: true, Rows: map[string]uint64{"exchanges": 0, "tool_calls": 0, "runs": 0, "alerts": 0, "history": 0, "messages": 0}}
	check(f.forget("--conversation", "conv-a", "--dry-run"), nothing)
	remaining := groups(t, up.open(t), `SELECT 'message', count() FROM messages WHERE body LIKE '%alpha%' OR body LIKE '%conv-a%'
		UNION ALL SELECT 'exchange', count() FROM exchanges WHERE conversation_id = 'conv-a' UNION ALL SELECT 'history', count() FROM history WHERE conversation_id = 'conv-a'
		UNION ALL SELECT 'finding', count() FROM findings WHERE conversation_id = 'conv-a'`)
	for what, n := range remaining {
		if n > 0 {
			t.Errorf("%d rows of %s remain", n, what)
		}
	}
	f.checkBody(b)
	// Deleted messages may be sent again in another conversation.
	e := f.send("conv-e", "u2", prompt, ask("alpha to Paris"), said("conv-a"), ask("and alpha back"))
	b = f.send("conv-b", "u2", prompt, ask("beta to Rome"), said("conv-b"), ask("and back"), said("conv-b"), ask("thanks"))
	f.waitStored(7)
	f.checkBody(e)
	f.checkBody(b)

	// The calls of a user are deleted, of hooks with the key and of those without, and the conversations without other users.
	r := f.forget("--user-name", "u3", "--yes")
	if r.Events != 4 || r.Rows["exchanges"] != 2 || r.Rows["history"] != 1 {
		t.Errorf("user u3: %+v", r)
	}
	f.checkBody(c)
	f.checkBody(b)
	up.kill(t)
	up.start(t) // replays the stream
	up.ready(t)
	f.checkBody(b)
}
