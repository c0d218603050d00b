package analyzer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// final returns the last states of all calls, in the order of their answers, and the signals.
func final(out *analyzer.Output) []string {
	_, _, calls := latest(out)
	var lines []string
	seen := map[string]bool{}
	for _, c := range out.ToolCalls {
		if !seen[c.ID] {
			seen[c.ID] = true
			lines = append(lines, calls[c.ID].CallID+" "+calls[c.ID].Name+" "+calls[c.ID].State)
		}
	}
	return append(lines, ownSignals(out)...)
}

// ownSignals returns the signals that these tests are about.
func ownSignals(out *analyzer.Output) (lines []string) {
	for _, f := range out.Findings {
		switch f.Rule {
		case signals.ReplyNeverArrived, signals.MaskedFailure, signals.ConversationEndedOnError:
			lines = append(lines, f.Rule+" "+dash(f.Detail)+" "+dash(f.ToolCallID))
		}
	}
	return lines
}

// from sends the following events from another process.
func (s *stream) from(instance string, first int) {
	for i, st := range s.steps[first:] {
		if st.ev != nil {
			st.ev.Instance, st.ev.Seq = instance, uint64(i+1)
		}
	}
}

// tool adds an event of a tool.
func (s *stream) tool(callID, status, exchange string) {
	s.add(&event.Event{Kind: event.Tool, ToolCallID: callID, ToolStatus: status, Exchange: exchange})
}

func (s *stream) run(status string) { s.add(&event.Event{Kind: event.Run, RunStatus: status}) }

// habitual makes calls of a tool known to be answered, by so many conversations.
func (s *stream) habitual(tool_ string, n int) {
	was := s.labels
	for i := range n {
		s.labels.Conversation, s.labels.Run = fmt.Sprintf("habit-%s-%d", tool_, i), ""
		id := fmt.Sprintf("call_h%d", i)
		said := assistant("", id+" "+tool_)
		s.ok(said, hello...)
		s.ok(assistant("done"), append(hello[:2:2], said, tool(id, "x"))...)
	}
	s.labels = was
}

// quit makes calls of a tool known to end conversations.
func (s *stream) quit(tool_ string, n int) {
	was := s.labels
	for i := range n {
		s.labels.Conversation, s.labels.Run = fmt.Sprintf("quit-%s-%d", tool_, i), ""
		s.ok(assistant("", fmt.Sprintf("call_q%d %s", i, tool_)), hello...)
	}
	s.labels = was
	s.advance(11 * time.Minute)
}

// lastOf returns the lines of the conversation under test.
func lastOf(lines []string, want []string) []string {
	return lines[max(0, len(lines)-len(want)):]
}

func TestToolCallStates(t *testing.T) {
	said := assistant("", "call_1 book")
	asked := append(hello[:2:2], said)
	goOn := append(hello[:2:2], assistant("Booked."), user("and now?"))
	f := func(name string, play func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		s.habitual("book", 4)
		play(s)
		s.advance(30 * time.Minute)
		out := run(t, analyzer.Default(), s.steps)
		got := final(out)
		i := slices.IndexFunc(got, func(l string) bool { return l[:6] == "call_1" })
		must.Agree(t, cmp.Diff(want, got[i:]), name)
	}
	f("answered", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"))...)
	}, "call_1 book answered")
	f("the conversation stops", func(s *stream) { s.ok(said, hello...) }, "call_1 book abandoned")
	f("sent again, then it stops", func(s *stream) {
		s.ok(said, hello...)
		s.fail(500, "overloaded", hello...)
	}, "call_1 book abandoned")
	f("it goes on without the reply, and a rule says so", func(s *stream) {
		s.ok(said, hello...)
		s.fail(400, missingText, append(asked, user("well?"))...)
		s.ok(assistant("done"), append(hello[:2:2], user("well?"))...)
	}, "call_1 book missing")
	f("it goes on without call and reply", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("fine"), goOn...)
	}, "call_1 book missing", "reply_never_arrived active call_1")
	f("it goes on after a pause, without call and reply", func(s *stream) {
		s.ok(said, hello...)
		s.now = s.now.Add(20 * time.Minute)
		s.ok(assistant("fine"), goOn...)
	}, "call_1 book missing", "reply_never_arrived active call_1")
	f("the answer is thrown away, and the user asks on", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], user("No, wait: what is free?"))...)
	}, "call_1 book abandoned")
	f("another agent speaks before the one that runs the tool", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], user("call_1: booked"))...)
		s.ok(assistant("done"), append(asked, tool("call_1", "booked"), user("fine"))...)
	}, "call_1 book answered")
	f("the first of parallel calls is kept", func(s *stream) {
		s.ok(assistant("", "call_0 book", "call_1 book"), hello...)
		s.ok(assistant("done"), append(hello[:2:2], assistant("", "call_0 book"), tool("call_0", "ok"))...)
	}, "call_1 book missing")
	f("the first of parallel calls is kept, and the other one ran", func(s *stream) {
		s.ok(assistant("", "call_0 book", "call_1 book"), hello...)
		s.tool("call_1", event.StatusStarted, "")
		s.ok(assistant("done"), append(hello[:2:2], assistant("", "call_0 book"), tool("call_0", "ok"))...)
	}, "call_1 book missing", "reply_never_arrived active call_1")
	f("the answer is saved without its calls, and with one of the replies", func(s *stream) {
		s.ok(assistant("", "call_1 book", "call_2 book"), hello...)
		s.fail(400, orphanText, append(hello[:2:2], assistant(""), tool("call_2", "ok"))...)
	}, "call_1 book missing", "call_2 book rejected", "conversation_ended_on_error orphan_tool_reply -")
	f("the history is cut behind the calls", func(s *stream) {
		s.ok(assistant("", "call_1 book", "call_2 book"), hello...)
		s.fail(400, orphanText, hello[0], tool("call_2", "ok"))
	}, "call_1 book abandoned", "call_2 book rejected", "conversation_ended_on_error orphan_tool_reply -")
	f("the history is cut", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("fine"), hello[0], user("Summary: a table was booked."), user("and now?"))
	}, "call_1 book abandoned")
	f("the reply comes late, in its place", func(s *stream) {
		s.ok(said, hello...)
		s.fail(400, missingText, append(asked, user("well?"))...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"), user("well?"))...)
	}, "call_1 book late")
	f("the reply stands behind another message", func(s *stream) {
		s.ok(said, hello...)
		s.fail(400, missingText, append(asked, user("well?"), tool("call_1", "ok"))...)
		s.ok(assistant("done"), hello...)
	}, "call_1 book late")
	f("two replies at once", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"), tool("call_1", "ok"))...)
	}, "call_1 book duplicate")
	f("a second reply later", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"))...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"), tool("call_1", "ok"), assistant("done"), user("?"))...)
	}, "call_1 book duplicate")
	f("the reply is refused, and repaired", func(s *stream) {
		s.ok(said, hello...)
		s.fail(400, orphanText, append(hello[:2:2], assistant(""), tool("call_1", "ok"))...)
		s.ok(assistant("done"), append(asked, tool("call_1", "ok"))...)
	}, "call_1 book answered")
	f("the reply is refused", func(s *stream) {
		s.ok(said, hello...)
		s.fail(400, orphanText, append(hello[:2:2], assistant(""), tool("call_1", "ok"))...)
		s.run("cancelled") // without a run, it says nothing
	}, "call_1 book rejected", "conversation_ended_on_error orphan_tool_reply -")
	f("the provider is busy", func(s *stream) {
		s.ok(said, hello...)
		s.fail(429, "slow down", append(asked, tool("call_1", "ok"))...)
	}, "call_1 book answered")
	f("ids of each turn", func(s *stream) { // the reply to the old call_1 is none to the new one
		s.ok(said, hello...)
		h := append(asked, tool("call_1", "ok"))
		s.ok(said, h...)
	}, "call_1 book answered", "call_1 book abandoned")
	f("ids of each turn, and the answer is generated again", func(s *stream) {
		s.ok(said, hello...)
		h := append(asked, tool("call_1", "ok"))
		s.ok(said, h...)
		s.fail(500, "overloaded", h...)
		s.ok(assistant("done"), h...)
	}, "call_1 book answered", "call_1 book abandoned")
}

// Structured output and final answers: the call is the answer and gets no reply.
func TestTerminalCalls(t *testing.T) {
	said := assistant("", "call_1 final_answer")
	f := func(name string, play func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		play(s)
		s.advance(30 * time.Minute)
		got := final(run(t, analyzer.Default(), s.steps))
		if diff := cmp.Diff(want, lastOf(got, want)); diff != "" || len(ownSignals(run(t, analyzer.Default(), s.steps))) > 0 {
			t.Errorf("%s (-want +got):\n%s\n%v", name, diff, got)
		}
	}
	forced := func(s *stream, m msg, history ...msg) {
		id := s.exchange()
		s.request(id, history...).Body = body(msg{
			"model": "deepseek-chat", "messages": history, "tools": []msg{{"type": "function", "function": msg{"name": "final_answer"}}},
			"tool_choice": msg{"type": "function", "function": msg{"name": "final_answer"}},
		})
		s.steps[len(s.steps)-1].ev.BodyBytes = len(s.steps[len(s.steps)-1].ev.Body)
		s.response(id, 200, answer(m))
	}
	f("forced", func(s *stream) { forced(s, said, hello...) }, "call_1 final_answer terminal")
	f("forced, and the conversation goes on", func(s *stream) {
		forced(s, said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], assistant("42"), user("why?"))...)
	}, "call_1 final_answer terminal")
	f("forced and answered", func(s *stream) {
		forced(s, said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], said, tool("call_1", "ok"))...)
	}, "call_1 final_answer answered")
	f("learned", func(s *stream) {
		s.quit("final_answer", 6)
		s.ok(said, hello...)
	}, "call_1 final_answer terminal")
	f("learned, and the conversation goes on", func(s *stream) {
		s.quit("final_answer", 6)
		s.ok(said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], assistant("42"), user("why?"))...)
	}, "call_1 final_answer terminal")
	f("nothing is known, and the conversation goes on", func(s *stream) {
		s.ok(said, hello...)
		s.ok(assistant("fine"), append(hello[:2:2], assistant("42"), user("why?"))...)
	}, "call_1 final_answer missing")
	f("the run ends in error", func(s *stream) {
		s.quit("final_answer", 6)
		s.labels.Run = "r1"
		s.ok(said, hello...)
		s.run("error")
	}, "call_1 final_answer terminal")
}

// A tool that waits for a human's approval for an hour.
func TestApproval(t *testing.T) {
	play := func() *stream {
		s := newStream("c1")
		s.habitual("approve", 4)
		said := assistant("", "call_1 approve")
		s.tool("call_1", "started", s.ok(said, hello...))
		for range 6 { // others are at work
			s.now = s.now.Add(10 * time.Minute)
			s.labels.Conversation = "other"
			s.ok(assistant("hello"), hello...)
		}
		s.labels.Conversation = "c1"
		s.tool("call_1", "ok", s.steps[len(s.steps)-1].ev.Exchange)
		s.ok(assistant("approved"), append(hello[:2:2], said, tool("call_1", "yes"))...)
		return s
	}
	f := func(name string, cfg analyzer.Config, want string) {
		t.Helper()
		out := run(t, cfg, play().steps)
		got := final(out)
		if got[len(got)-1] != want || len(ownSignals(out)) > 0 {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	cfg := analyzer.Default()
	f("by default", cfg, "call_1 approve abandoned") // the conversation is forgotten after half an hour
	cfg.SessionLookback = 2 * time.Hour
	f("a longer memory", cfg, "call_1 approve answered")
	cfg.ToolReplyTimeouts = map[string]time.Duration{"approve": 2 * time.Hour}
	f("a tool that takes long", cfg, "call_1 approve answered")
	s := play()
	s.steps = s.steps[:len(s.steps)-3]
	got := final(run(t, cfg, s.steps))
	must.Equal(t, got[len(got)-1], "call_1 approve open", "within its time-out")
}

// The process dies between call and reply, and another one continues.
func TestProcessDied(t *testing.T) {
	said := assistant("", "call_1 book")
	again := assistant("Let me look at that once more, please.", "call_2 book")
	f := func(name string, alive, lost bool, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.habitual("book", 4)
		s.ok(said, hello...)
		if alive {
			s.labels.Conversation = "other"
			s.ok(assistant("hello"), hello...)
			s.labels.Conversation = "c1"
		}
		if lost {
			s.lost++
			s.labels.Conversation = "other"
			s.request(s.exchange(), hello...)
			s.labels.Conversation = "c1"
		}
		first := len(s.steps)
		s.ok(again, hello...) // as if nothing had been said
		s.ok(assistant("done"), append(hello[:2:2], again, tool("call_2", "ok"))...)
		s.from("i2", first)
		s.advance(30 * time.Minute)
		got := final(run(t, analyzer.Default(), s.steps))
		must.Agree(t, cmp.Diff(want, lastOf(got, want)), name)
	}
	f("died", false, false, "call_1 book missing", "call_2 book answered", "reply_never_arrived idle call_1")
	f("it is alive", true, false, "call_1 book abandoned", "call_2 book answered")
	f("its events are lost", false, true, "call_1 book abandoned", "call_2 book answered")
}

// Absence is no evidence where events may be missing.
func TestReplyMayBeLost(t *testing.T) {
	s := newStream("c1")
	s.habitual("book", 4)
	s.ok(assistant("", "call_1 book"), hello...)
	s.lost = 2
	s.ok(assistant("fine"), append(hello[:2:2], assistant("Booked."), user("and now?"))...)
	want := []string{"call_1 book open"}
	must.Agree(t, cmp.Diff(want, lastOf(final(run(t, analyzer.Default(), s.steps)), want)))
}

// The times and the status of tool events are in the row, even if the tool starts before the answer ends.
func TestToolEvents(t *testing.T) {
	s := newStream("c1")
	id := s.exchange()
	s.request(id, hello...)
	s.tool("call_1", "started", id)
	started := s.now
	s.response(id, 200, answer(assistant("", "call_1 book")))
	s.tool("call_1", "error", id)
	ended := s.now
	out := run(t, analyzer.Default(), s.steps)
	_, _, calls := latest(out)
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if !c.StartedAt.Equal(started) || !c.EndedAt.Equal(ended) || c.ToolStatus != "error" || c.State != "open" {
			t.Errorf("%+v", c)
		}
	}
}

// After an outage of an hour the analyzer reads what it missed: calls that were answered in time are answered.
func TestCatchingUp(t *testing.T) {
	s := newStream("c1")
	s.habitual("book", 3)
	said := assistant("", "call_1 book")
	s.ok(said, hello...)
	s.now = s.now.Add(8 * time.Minute)
	s.ok(assistant("done"), append(hello[:2:2], said, tool("call_1", "ok"))...)
	s.fail(400, orphanText, append(hello[:2:2], tool("call_1", "ok"))...)
	s.now = s.now.Add(8 * time.Minute)
	s.ok(assistant("done"), append(hello[:2:2], said, tool("call_1", "ok"), assistant("done"), user("?"))...)
	a, out := newAnalyzer(t, analyzer.Default()), new(analyzer.Output)
	for _, st := range s.steps { // nothing is pending only after the last
		do(a, st, true, out)
	}
	a.Advance(s.now.Add(time.Hour), true, out)
	got := final(out)
	must.Equal(t, got[len(got)-1], "call_1 book answered", "%v", got)
}
