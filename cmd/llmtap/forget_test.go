package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/erase"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

// A forgetTest publishes exchanges to a collector and runs commands.
type forgetTest struct {
	t   *testing.T
	up  *upProcess
	pub *jetstream.Publisher
	n   int
}

// send publishes a call of a conversation with these messages and returns its id and body.
func (f *forgetTest) send(conversation, user string, messages ...string) (id, request string) {
	f.t.Helper()
	f.n++
	id = fmt.Sprintf("019aa0b0-%04x-7000-8000-00000000beef", f.n)
	request = `{"model":"deepseek-chat","messages":[` + strings.Join(messages, ",") + `],"temperature":0}`
	answer := `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"answer ` + conversation + `"},"finish_reason":"stop"}]}`
	for k, body := range map[event.Kind]string{event.Request: request, event.Response: answer} {
		ev := event.Event{
			Kind: k, Exchange: id, Time: time.Now(), Origin: event.OriginHook, Capture: event.CaptureFull, Instance: "7c31ab90de55", Seq: uint64(2*f.n) + uint64(k),
			Labels: event.Labels{Service: "planner-api", Stage: "planner", Conversation: conversation, User: user}, Body: []byte(body), BodyBytes: len(body),
		}
		if ev.URL, ev.Method = "https://api.deepseek.com/chat/completions", "POST"; k == event.Response {
			ev.URL, ev.Method, ev.Status, ev.ContentType = "", "", 200, "application/json"
		}
		for m := range ev.Messages() {
			if err := f.pub.Publish(f.t.Context(), m); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	return id, request
}

// waitStored waits until n calls are stored.
func (f *forgetTest) waitStored(n uint64) {
	f.t.Helper()
	if err := f.pub.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	rows := f.up.rows()
	defer rows.close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := rows.query(f.t.Context(), "SELECT uniqExact(exchange_id) FROM exchanges")
		if err == nil && res.Rows[0][0].(uint64) == n {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d exchanges were not stored within a minute: %v %v\n%s", n, res, err, f.up.stderr.String())
		}
	}
}

// llmtap runs a command on the data directory of the collector.
func (f *forgetTest) llmtap(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	err := run(f.t.Context(), append(args, "--data-dir", f.up.dir), nil, &out, &errs, func(string) string { return "" })
	code = command.Report(err, &errs)
	return out.String(), errs.String(), code
}

func (f *forgetTest) forget(args ...string) (r erase.Report) {
	f.t.Helper()
	out, errs, code := f.llmtap(append([]string{"forget", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.ExitOK {
		f.t.Fatalf("forget %v: %s%s, %d, %v", args, out, errs, code, err)
	}
	return r
}

// checkBody fails unless llmtap show prints the sent request.
func (f *forgetTest) checkBody(id, request string) {
	f.t.Helper()
	out, errs, code := f.llmtap("show", id, "--format", "body")
	var got, want any
	if json.Unmarshal([]byte(out), &got) != nil || json.Unmarshal([]byte(request), &want) != nil || code != command.ExitOK || !cmp.Equal(got, want) {
		f.t.Errorf("llmtap show %s:\n%s%s, %d\nwant %s", id, out, errs, code, request)
	}
}

// One of several conversations with the same prompt is deleted from the stream, the dead letters and the tables. The others,
// and later ones, stay complete.
func TestForget(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needClickHouse(t)
	up := startUp(t)
	up.ready(t)
	cfg := jetstream.Default()
	cfg.URL = up.url()
	conn, err := jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	f := &forgetTest{t: t, up: up, pub: conn.NewPublisher(0)}
	prompt, ask := `{"role":"system","content":"You plan trips."}`, func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	said := func(conversation string) string {
		return `{"role":"assistant","content":"answer ` + conversation + `"}`
	}
	f.send("conv-a", "u1", prompt, ask("alpha to Paris"))
	f.send("conv-a", "u1", prompt, ask("alpha to Paris"), said("conv-a"), ask("and alpha back"))
	f.send("conv-b", "u2", prompt, ask("beta to Rome"))
	b, bodyB := f.send("conv-b", "u2", prompt, ask("beta to Rome"), said("conv-b"), ask("and back"))
	f.send("conv-c", "u3", prompt, ask("gamma to Oslo"))
	c, bodyC := f.send("conv-c", "u2", prompt, ask("gamma to Oslo"), said("conv-c"), ask("more"))
	f.send("conv-d", "u3", prompt, ask("delta to Bern"))
	f.waitStored(7)
	bad := event.Event{Kind: event.Request, Exchange: "019aa0b0-aaaa-7000-8000-00000000beef", Time: time.Now(), Labels: event.Labels{Service: "planner-api", Conversation: "conv-a"}}
	conn.DeadLetter(t.Context(), &bad, 1, "bad_body", "made up")

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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("- want, + got\n%s", diff)
		}
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
	f.checkBody(b, bodyB)
	// Deleted messages may be sent again in another conversation.
	e, bodyE := f.send("conv-e", "u2", prompt, ask("alpha to Paris"), said("conv-a"), ask("and alpha back"))
	b, bodyB = f.send("conv-b", "u2", prompt, ask("beta to Rome"), said("conv-b"), ask("and back"), said("conv-b"), ask("thanks"))
	f.waitStored(7)
	f.checkBody(e, bodyE)
	f.checkBody(b, bodyB)

	// The calls of a user are deleted, and the conversations without other users.
	r := f.forget("--user", "u3", "--yes")
	if r.Events != 4 || r.Rows["exchanges"] != 2 || r.Rows["history"] != 1 {
		t.Errorf("user u3: %+v", r)
	}
	f.checkBody(c, bodyC)
	f.checkBody(b, bodyB)
	up.kill(t)
	up.start(t) // replays the stream
	up.ready(t)
	f.checkBody(b, bodyB)
}
