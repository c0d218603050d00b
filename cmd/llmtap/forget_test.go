package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/erase"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks"
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

var forgotten = flag.Int("forget", 40_000, "conversations of the user in TestForgetManyConversations, whose ids take a statement per 25,000")

// A user with many conversations is deleted with progress, and nothing of them is left in the tables, the streams and the buckets, but
// who deleted it.
//
//	go test ./cmd/llmtap -run TestForgetManyConversations -slow -forget 100000 -v
func TestForgetManyConversations(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	const inStream = 100
	stored := *forgotten
	f := forgetTest{commandTest: newCommandTest(t)}
	user := event.HashUser(nil, "u1")
	f.send("conv-kept", "u2", `{"role":"user","content":"stays"}`)
	for i := range inStream {
		id := fmt.Sprintf("erased-%06d", stored+i)
		f.send(id, "u1", `{"role":"user","content":"words of `+id+`"}`)
	}
	f.waitStored(inStream + 1)
	sink, at := f.up.open(t), time.Now().Add(-time.Hour)
	for first := 0; first < stored; first += 10_000 { // of the days before, which have left the stream
		b := &sinks.Batch{}
		for i := first; i < first+10_000; i++ {
			id := fmt.Sprintf("erased-%06d", i)
			labels := event.Labels{Service: "planner-api", Stage: "planner", Conversation: id, User: user}
			x := analyzer.Exchange{
				ID: "x-" + id, Seq: 1, Labels: labels, Conversation: id, StartedAt: at, StoredAt: at, Branch: "b-" + id, Lead: []string{"shared"}, Answer: "a-" + id, Parameters: "p",
			}
			b.Exchanges = append(b.Exchanges, x)
			b.Findings = append(b.Findings, analyzer.Finding{ID: "f-" + id, Seq: 1, Labels: labels, Conversation: id, Exchange: x.ID, FirstSeen: at, StoredAt: at})
			b.ToolCalls = append(b.ToolCalls, analyzer.ToolCall{ID: "c-" + id, Seq: 1, Labels: labels, Conversation: id, Exchange: x.ID, AskedAt: at, StoredAt: at})
			b.Runs = append(b.Runs, analyzer.Run{ID: "r-" + id, Seq: 1, Labels: labels, SeenAt: at, StartedAt: at})
			b.History = append(b.History, analyzer.HistoryEntry{Service: labels.Service, Conversation: id, Branch: x.Branch, Exchange: x.ID, Seq: 1, SeenAt: at, Content: "m-" + id})
			for _, text := range []string{"m-" + id, "a-" + id} {
				b.Contents = append(b.Contents, analyzer.Content{ID: text, Kind: content.KindMessage, SeenAt: at, Body: "words of " + text})
			}
		}
		must.Do(t, sink.Write(t.Context(), b))
	}
	began := time.Now()
	out, progress, code := f.llmtap("forget", "--user", user, "--yes")
	must.Equal(t, code, command.ExitOK, "%s%s", out, progress)
	t.Logf("deleted in %v\n%s", time.Since(began), out)
	must.Contain(t, out, fmt.Sprintf("exchanges %21d", stored+inStream))

	res := must.Get(sink.Query(t.Context(), "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name NOT IN ('audit', 'migrations')", nil))(t)
	must.Equal(t, len(res.Rows), len(sinks.Tables)-1, "tables")
	for _, row := range res.Rows {
		left := must.Get(sink.Query(t.Context(), "SELECT count() FROM "+row[0].(string)+" WHERE match(toString(tuple(*)), 'erased-[0-9]{6}|"+user+"')", nil))(t)
		must.Equal(t, left.Rows[0][0], any(uint64(0)), "rows of %s", row[0])
	}
	f.send("conv-after", "u2", `{"role":"user","content":"stays"}`) // the last message of a stream must exist for replayStream
	must.Do(t, f.pub.Flush(t.Context()))
	js := streams(t, f.up.collectorURL())
	for name := range js.StreamNames(t.Context()).Name() { // buckets are streams, too
		left := 0
		must.Do(t, replayStream(t.Context(), js, name, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
			if text := fmt.Sprint(m.Headers(), string(m.Data())); strings.Contains(text, "erased-") || strings.Contains(text, user) {
				left++
			}
			return nil
		}))
		must.Equal(t, left, 0, "messages of the stream %s", name)
	}
	must.Equal(t, len(must.Get(sink.Query(t.Context(), "SELECT exchange_id FROM exchanges_final WHERE conversation_id = 'conv-kept'", nil))(t).Rows), 1, "calls of others")
	out, _, _ = f.llmtap("audit", "--what", "erase", "--target", user)
	must.Contain(t, out, fmt.Sprint(stored+inStream, " calls"))
	must.Equal(t, strings.Count(out, "llmtap forget"), 2, "records of start and end: %s", out)
}
