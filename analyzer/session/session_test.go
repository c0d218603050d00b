package session_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

type msg map[string]any

// talk drives a Store as the analyzer does.
type talk struct {
	t     *testing.T
	store *session.Store
	seq   uint64
	now   time.Time

	instance string
}

func newTalk(t *testing.T, cfg session.Config) *talk {
	return &talk{t: t, store: session.New(cfg), now: start}
}

func config() session.Config { return session.Config{Lookback: 30 * time.Minute, Bytes: 1 << 30} }

func (k *talk) ask(conversation string, messages ...msg) *session.Turn {
	k.t.Helper()
	b := must.Get(json.Marshal(msg{"messages": messages}))(k.t)
	var r facts.Request
	must.Do(k.t, facts.ScanRequest(wire.OpenAIChat, b, &r))
	k.seq++
	k.now = k.now.Add(time.Second)
	return k.store.Request(session.Request{
		Order: k.seq, MinSeq: k.seq, Time: k.now, Seen: k.now, Service: "s", Conversation: conversation, Exchange: fmt.Sprintf("x%d", k.seq),
		Instance: k.instance, Target: wire.Target{Dialect: wire.OpenAIChat}, Facts: &r, Body: b,
	})
}

func (k *talk) answer(t *session.Turn, m msg) []*session.Call {
	k.t.Helper()
	b := must.Get(json.Marshal(msg{"choices": []msg{{"message": m, "finish_reason": "stop"}}}))(k.t)
	var r facts.Response
	must.Do(k.t, facts.ScanResponse(wire.OpenAIChat, "", b, &r))
	k.seq++
	k.now = k.now.Add(time.Second)
	return k.store.Answer(t, session.Answer{Facts: &r, Order: k.seq, MinSeq: k.seq, At: k.now, Context: "context"})
}

func system(s string) msg      { return msg{"role": "system", "content": s} }
func user(s string) msg        { return msg{"role": "user", "content": s} }
func tool(id, text string) msg { return msg{"role": "tool", "tool_call_id": id, "content": text} }

func assistant(text any, ids ...string) msg {
	m := msg{"role": "assistant", "content": text}
	if len(ids) > 0 {
		var calls []msg
		for _, id := range ids {
			calls = append(calls, msg{"id": id, "type": "function", "function": msg{"name": "read_file", "arguments": "{}"}})
		}
		m["tool_calls"] = calls
	}
	return m
}

// Package analyzer tests the root causes with whole incidents; these are corner cases.
func TestRootCause(t *testing.T) {
	sys, ask := system("You plan."), user("read config.py")
	f := func(name string, turns [][]msg, rule string, message int, id, want string) {
		t.Helper()
		k := newTalk(t, config())
		var last *session.Turn
		for i, turn := range turns {
			n := len(turn)
			if i == len(turns)-1 {
				last = k.ask("c", turn...)
				break
			}
			if turn[n-1]["role"] == "assistant" {
				k.answer(k.ask("c", turn[:n-1]...), turn[n-1])
			} else {
				k.ask("c", turn...) // failed
			}
		}
		r := last.RootCause(session.Defect{Rule: rule, Message: message, ToolCallID: id})
		must.Equal(t, fmt.Sprint(r.ID, " ", r.Detail, " ", r.Confidence), want, "%s (%s)", name, r.Evidence)
		must.Equal(t, (r.Rank() > 0), r.Evidence != "" && r.Fix != "", "%s: evidence %q, fix %q", name, r.Evidence, r.Fix)
	}
	orphan, missing := "orphan_tool_reply", "missing_tool_reply"
	said := assistant("", "call_1")
	f("a rule that has no root cause", [][]msg{{sys, ask, said}, {sys, ask, assistant(""), tool("call_1", "x")}},
		"arguments_not_string", 3, "call_1", "  ")
	f("no call id", [][]msg{{sys, ask, said}, {sys, ask, assistant(""), tool("", "x")}}, orphan, 3, "", "  ")
	f("a message that is not there", [][]msg{{sys, ask, said}, {sys, ask, assistant(""), tool("call_1", "x")}}, orphan, 9, "call_1", "  ")
	f("compaction and lost calls at once", [][]msg{
		{sys, ask, assistant("a"), user("b"), assistant("I read the file.", "call_1")},
		{sys, user("summary"), assistant("I read the file."), tool("call_1", "x")},
	}, orphan, 3, "call_1", "tool_calls_dropped_on_save  medium")
	f("an assistant's summary before the reply", [][]msg{
		{sys, ask, assistant("Working", "call_1", "call_2")},
		{sys, ask, assistant("Working", "call_1", "call_2"), tool("call_1", "x"), tool("call_2", "y"), assistant("on", "call_3")},
		{sys, ask, assistant("Summary: a file was read."), tool("call_2", "y"), assistant("on", "call_3"), tool("call_3", "z")},
	}, orphan, 3, "call_2", "history_truncated_mid_pair head high")
	f("the same id in each turn, all calls lost", [][]msg{
		{sys, ask, said},
		{sys, ask, assistant(""), tool("call_1", "x"), said},
		{sys, ask, assistant(""), tool("call_1", "x"), assistant(""), tool("call_1", "y")},
	}, orphan, 5, "call_1", "tool_calls_dropped_on_save  high")
	f("a call that is not answered", [][]msg{{sys, ask, said}, {sys, ask, said, user("?")}}, missing, 2, "call_1", "tool_skipped_or_interrupted  medium")
	f("the tail is cut", [][]msg{
		{sys, ask, said},
		{sys, ask, said, tool("call_1", "x")},
		{sys, ask, said, user("go on")},
	}, missing, 2, "call_1", "history_truncated_mid_pair tail high")
}

func TestCalls(t *testing.T) {
	k := newTalk(t, config())
	sys, ask := system("s"), user("u")
	changed := func(turn *session.Turn) (list []string) {
		for _, c := range turn.Changed {
			list = append(list, c.CallID+" "+c.State+" "+c.AnsweredBy)
			if c.Context != "context" {
				t.Errorf("context %v", c.Context)
			}
		}
		return list
	}
	said := assistant("", "call_1", "call_2")
	k.answer(k.ask("c", sys, ask), said)
	if got := changed(k.ask("c", sys, ask)); got != nil { // sent again: says nothing of the calls
		t.Errorf("sent again: %v", got)
	}
	must.Agree(t, cmp.Diff([]string{"call_1 answered x4", "call_2 missing "}, changed(k.ask("c", sys, ask, said, tool("call_1", "x")))))
	must.Agree(t, cmp.Diff([]string{"call_2 late x5"}, changed(k.ask("c", sys, ask, said, tool("call_1", "x"), tool("call_2", "y")))))
	// A reused id: the old reply does not answer the new call.
	h := []msg{sys, ask, said, tool("call_1", "x"), tool("call_2", "y")}
	again := assistant("", "call_1")
	k.answer(k.ask("c", h...), again)
	must.Agree(t, cmp.Diff([]string{"call_1 missing "}, changed(k.ask("c", append(h, again)...))))
	must.Agree(t, cmp.Diff([]string{"call_1 late x9"}, changed(k.ask("c", append(h, again, tool("call_1", "z"))...))))
}

func TestBranches(t *testing.T) {
	k := newTalk(t, config())
	sys, ask := system("s"), user("u")
	main := k.ask("c", sys, ask)
	k.answer(main, assistant("one"))
	on := k.ask("c", sys, ask, assistant("one"), user("left"))
	k.answer(on, assistant("two"))
	k.answer(k.ask("c", sys, ask, assistant("one"), user("left"), assistant("two"), user("more")), assistant("three"))
	fork := k.ask("c", sys, ask, assistant("one"), user("right"))
	k.answer(fork, assistant("four"))
	fork2 := k.ask("c", sys, ask, assistant("one"), user("right"), assistant("four"), user("x"))
	back := k.ask("c", sys, ask, assistant("one"), user("left"), assistant("two"), user("more"), assistant("three"), user("y"))
	if main.Branch != "" || on.Branch != "" || back.Branch != "" {
		t.Errorf("main line: %q %q %q", main.Branch, on.Branch, back.Branch)
	}
	if fork.Branch == "" || fork2.Branch != fork.Branch {
		t.Errorf("fork: %q %q", fork.Branch, fork2.Branch)
	}
}

func TestExpire(t *testing.T) {
	k := newTalk(t, config())
	k.ask("a", user("u"))
	first := k.now
	k.now = k.now.Add(20 * time.Minute)
	k.ask("b", user("u"))
	if k.store.MinSeq() != 1 || k.store.Len() != 2 {
		t.Fatalf("minSeq %d, %d conversations", k.store.MinSeq(), k.store.Len())
	}
	k.store.Expire(first.Add(30*time.Minute + 1))
	if k.store.MinSeq() != 2 || k.store.Len() != 1 {
		t.Errorf("minSeq %d, %d conversations", k.store.MinSeq(), k.store.Len())
	}
	k.store.Expire(first.Add(2 * time.Hour))
	if k.store.MinSeq() != 0 || k.store.Len() != 0 || k.store.Bytes() != 0 {
		t.Errorf("minSeq %d, %d conversations, %d bytes", k.store.MinSeq(), k.store.Len(), k.store.Bytes())
	}
}

func TestOneConversationIsBounded(t *testing.T) {
	k := newTalk(t, config())
	for i := range 12_000 {
		turn := k.ask("c", system("s"), user(fmt.Sprint("u", i%20)))
		k.answer(turn, assistant("", fmt.Sprintf("call_%d", i)))
		k.store.Instance(turn, [16]byte{byte(i), byte(i >> 8)})
	}
	if n := k.store.Bytes(); n > 8<<20 {
		t.Errorf("%d bytes for one conversation", n)
	}
}

func TestEviction(t *testing.T) {
	cfg := config()
	cfg.Bytes = 100 << 10
	k := newTalk(t, cfg)
	kept := k.ask("kept", user("u"))
	for i := range 1000 {
		k.answer(k.ask(fmt.Sprint("c", i), user("u")), assistant("", "call_1"))
		kept = k.ask("kept", user("u"))
	}
	if k.store.Bytes() > cfg.Bytes+4096 || k.store.TakeEvicted() == 0 {
		t.Errorf("%d bytes, %d evicted", k.store.Bytes(), k.store.TakeEvicted())
	}
	r := kept.RootCause(session.Defect{Rule: "orphan_tool_reply"})
	must.Equal(t, r.ID, "", "the conversation in use was forgotten: %+v", r)
}

// Messages of another dialect contain more or less each, so their number is no evidence of a shorter history.
func TestShrunkCountsOneDialect(t *testing.T) {
	b, err := json.Marshal(msg{"messages": []msg{
		user("q"),
		{"role": "assistant", "content": []msg{{"type": "tool_use", "id": "call_3", "name": "read_file", "input": msg{}}}},
		{"role": "user", "content": []msg{{"type": "tool_result", "tool_use_id": "call_3", "content": "c"}}},
	}})
	must.Do(t, err)
	var r facts.Request
	must.Do(t, facts.ScanRequest(wire.Anthropic, b, &r))
	for dialect, want := range map[wire.Dialect]bool{wire.Anthropic: false, wire.OpenAIChat: true} {
		k := newTalk(t, config())
		k.answer(k.ask("c", user("q")), assistant("", "call_1", "call_2"))
		k.answer(k.ask("c", user("q"), assistant("", "call_1", "call_2"), tool("call_1", "a"), tool("call_2", "b")), assistant("", "call_3"))
		k.seq++
		turn := k.store.Request(session.Request{
			Order: k.seq, MinSeq: k.seq, Time: k.now, Seen: k.now, Service: "s", Conversation: "c", Exchange: fmt.Sprintf("x%d", k.seq),
			Target: wire.Target{Dialect: dialect}, Facts: &r, Body: b,
		})
		from, to, shrunk := turn.Shrunk()
		must.Equal(t, shrunk, want, "%s after openai_chat, from %d to %d messages", dialect, from, to)
	}
}

// The pending answers of a process belong to several conversations, which are forgotten at different times.
func TestForgetConversationsOfProcess(t *testing.T) {
	k := newTalk(t, session.Config{Lookback: time.Minute, Bytes: 1 << 30})
	k.instance = "i"
	user := func(text string) msg { return msg{"role": "user", "content": text} }
	call := func(id string) msg {
		return msg{"role": "assistant", "content": "", "tool_calls": []msg{{"id": id, "type": "function", "function": msg{"name": "f", "arguments": "{}"}}}}
	}
	const one, two = "call_Qx7Lk2mZ9pVb4TnR8sYd3WcA", "call_Bx7Lk2mZ9pVb4TnR8sYd3WcB"
	history := []msg{user("one")}
	k.answer(k.ask("", history...), call(one))
	history = append(history, call(one), msg{"role": "tool", "tool_call_id": one, "content": "x"})
	k.answer(k.ask("", history...), msg{"role": "assistant", "content": "The first conversation goes on."})
	k.answer(k.ask("", user("two")), call(two)) // forgotten first
	k.now = k.now.Add(50 * time.Second)
	history = append(history, msg{"role": "assistant", "content": "The first conversation goes on."}, user("more"))
	k.ask("", history...)
	for _, left := range []int{1, 0} {
		k.now = k.now.Add(40 * time.Second)
		k.store.Expire(k.now)
		if k.store.Len() != left {
			t.Fatalf("%d conversations, want %d", k.store.Len(), left)
		}
	}
	must.Equal(t, k.store.Bytes(), 0, "an empty store has bytes")
}
