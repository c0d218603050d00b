package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestRunRow(t *testing.T) {
	s := newStream("c1")
	s.labels.Run = "r1"
	s.run("started")
	started := s.now
	s.ok(assistant("hello"), hello...)
	id := s.exchange()
	s.request(id, hello...).Retry = 1
	s.response(id, 429, fault("slow down"))
	last := s.fail(400, orphanText, append(hello[:2:2], tool("call_1", "x"))...)
	s.run("error")
	s.steps = append(s.steps, step{s.steps[0].ev, s.steps[len(s.steps)-1].at}) // a hook sends it again, as it saw no acknowledgement
	out := run(t, analyzer.Default(), s.steps)
	runs := runsOf(out)
	if len(runs) != 1 || len(out.Runs) != 2 || out.Runs[0].Status != "started" || out.Rows() < len(out.Runs) {
		t.Fatalf("%+v", out.Runs)
	}
	labels := s.labels
	labels.Stage = "planner"
	for _, got := range runs {
		want := analyzer.Run{
			ID: got.ID, Seq: s.seq, Labels: labels, Status: "error", SeenAt: s.now, StartedAt: started, EndedAt: s.now,
			Calls: 2, Failed: 1, LastExchange: last, LastStatus: 400, LastCause: "orphan_tool_reply",
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got.ID) != 32 {
			t.Error(diff)
		}
	}
}

func TestMaskedFailure(t *testing.T) {
	broken := append(hello[:2:2], tool("call_1", "x"))
	f := func(name string, play func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		s.labels.Run = "r1"
		s.run("started")
		play(s)
		s.advance(time.Hour)
		must.Agree(t, cmp.Diff(want, ownSignals(run(t, analyzer.Default(), s.steps))), name)
	}
	masked := "masked_failure orphan_tool_reply -"
	fail := func(s *stream) string { return s.fail(400, orphanText, broken...) }
	good := func(s *stream) { s.ok(assistant("hello"), hello...) }
	f("masked", func(s *stream) { good(s); fail(s); s.run("ok") }, masked)
	f("told once", func(s *stream) { fail(s); s.run("ok"); s.run("ok") }, masked)
	f("the run says error", func(s *stream) { fail(s); s.run("error") })
	f("cancelled", func(s *stream) { fail(s); s.run("cancelled") })
	f("retried", func(s *stream) { fail(s); good(s); s.run("ok") })
	f("it never ends", func(s *stream) { fail(s) })
	f("all is well", func(s *stream) { good(s); s.run("ok") })
	f("the call was cancelled", func(s *stream) {
		id := s.exchange()
		s.request(id, hello...)
		s.response(id, 0, nil).Error = event.ErrorCancelled
		s.run("ok")
	})
	f("no answer came", func(s *stream) {
		id := s.exchange()
		s.request(id, hello...)
		s.response(id, 0, nil).Error = "connection reset by peer"
		s.run("ok")
	}, "masked_failure no_response -")
	f("the answer ends after the run", func(s *stream) {
		id := s.exchange()
		s.request(id, broken...)
		s.run("ok")
		s.response(id, 400, fault(orphanText))
	}, masked)
	f("side by side", func(s *stream) {
		id := s.exchange()
		s.request(id, hello...)
		fail(s)
		s.response(id, 200, answer(assistant("hello")))
		s.run("ok")
	})
	f("an event is lost", func(s *stream) { fail(s); s.lost++; s.run("ok") })
	f("imported", func(s *stream) {
		fail(s)
		s.run("ok")
		for _, st := range s.steps {
			st.ev.Origin = event.OriginImport
		}
	})
	f("degraded", func(s *stream) {
		fail(s)
		s.run("ok")
		for _, st := range s.steps {
			st.ev.Degraded = true
		}
	})
	f("without an id of the run", func(s *stream) {
		s.labels.Run = ""
		fail(s)
		s.run("ok")
	}, "conversation_ended_on_error orphan_tool_reply -")
}

// A run that ends in error leaves calls without replies, which is reported; a cancelled run leaves them too, which is not.
func TestRunEndsBeforeReply(t *testing.T) {
	f := func(name, status string, lost uint64, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.habitual("book", 4)
		s.labels.Run = "r1"
		s.run("started")
		said := assistant("", "call_1 book", "call_2 book")
		s.ok(said, hello...)
		s.ok(assistant("", "call_3 book"), append(hello[:2:2], said, tool("call_1", "x"), tool("call_2", "y"))...)
		s.lost += lost
		s.run(status)
		s.advance(30 * time.Minute)
		must.Agree(t, cmp.Diff(want, lastOf(final(run(t, analyzer.Default(), s.steps)), want)), name)
	}
	f("error", "error", 0, "call_1 book answered", "call_2 book answered", "call_3 book missing", "reply_never_arrived ended call_3")
	f("cancelled", "cancelled", 0, "call_1 book answered", "call_2 book answered", "call_3 book abandoned")
	f("ok", "ok", 0, "call_1 book answered", "call_2 book answered", "call_3 book abandoned")
	f("an event is lost", "error", 1, "call_1 book answered", "call_2 book answered", "call_3 book abandoned")
}

// The reply was cut off with its call: a rule reports it for the refused request.
func TestRunEndsAfterCut(t *testing.T) {
	s := newStream("c1")
	s.habitual("book", 4)
	s.labels.Run = "r1"
	s.ok(assistant("", "call_1 book", "call_2 book"), hello...)
	s.tool("call_1", event.StatusStarted, "")
	s.tool("call_1", event.StatusOK, "")
	s.fail(400, orphanText, hello[0], tool("call_2", "ok"))
	s.run("error")
	s.advance(30 * time.Minute)
	want := []string{"call_1 book missing", "call_2 book rejected"}
	must.Agree(t, cmp.Diff(want, lastOf(final(run(t, analyzer.Default(), s.steps)), want)))
}

func TestConversationEndedOnError(t *testing.T) {
	broken := append(hello[:2:2], tool("call_1", "x"))
	ended := "conversation_ended_on_error orphan_tool_reply -"
	f := func(name string, play func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		play(s)
		s.advance(time.Hour)
		must.Agree(t, cmp.Diff(want, ownSignals(run(t, analyzer.Default(), s.steps))), name)
	}
	fail := func(s *stream) string { return s.fail(400, orphanText, broken...) }
	f("ended", func(s *stream) { fail(s) }, ended)
	f("repaired at once", func(s *stream) { fail(s); s.ok(assistant("hello"), hello...) })
	f("repaired within the time", func(s *stream) {
		fail(s)
		s.now = s.now.Add(9 * time.Minute)
		s.ok(assistant("hello"), hello...)
	})
	f("repaired later", func(s *stream) {
		fail(s)
		s.now = s.now.Add(11 * time.Minute)
		s.ok(assistant("hello"), hello...)
	}, ended)
	f("twice", func(s *stream) { fail(s); fail(s) }, ended)
	f("a rate limit", func(s *stream) { s.fail(429, "Rate limit reached", hello...) })
	f("a server error", func(s *stream) { s.fail(503, "overloaded", hello...) })
	f("a wrong key", func(s *stream) { s.fail(401, "Incorrect API key provided", hello...) })
	f("cancelled", func(s *stream) {
		fail(s)
		id := s.exchange()
		s.request(id, hello...)
		s.response(id, 0, nil).Error = event.ErrorCancelled
	})
	f("without a given id, nobody knows what follows", func(s *stream) { s.labels.Conversation = ""; fail(s) })
	f("a side call", func(s *stream) {
		s.ok(assistant("The answer to all of your questions is 42."), hello...)
		s.fail(400, orphanText, system("Write a title."), user("what was said"), tool("call_1", "x"))
	})
	f("the next request may be lost", func(s *stream) {
		fail(s)
		s.lost++
		s.labels.Conversation = "other"
		s.ok(assistant("hello"), hello...)
	})
	f("the run says how it ended", func(s *stream) { s.labels.Run = "r1"; s.run("started"); fail(s); s.run("error") })
	f("a run that says nothing", func(s *stream) { s.labels.Run = "r1"; fail(s) }, ended)
	f("degraded", func(s *stream) {
		fail(s)
		for _, st := range s.steps {
			st.ev.Degraded = true
		}
	})
	f("imported", func(s *stream) {
		fail(s)
		for _, st := range s.steps {
			st.ev.Origin = event.OriginImport
		}
	})
}

// A fleet is idle overnight: some of its conversations wait for a tool, some for a user. One continues in the morning.
func TestIdleNight(t *testing.T) {
	s := newStream("")
	s.habitual("book", 5)
	for i := range 20 {
		s.labels.Conversation, s.labels.Run = fmt.Sprintf("c%d", i), fmt.Sprintf("r%d", i)
		s.run("started")
		if i%2 == 0 {
			s.ok(assistant("What else?"), hello...)
		} else {
			s.ok(assistant("", fmt.Sprintf("call_1%d book", i)), hello...)
		}
	}
	s.advance(8 * time.Hour)
	s.labels.Conversation, s.labels.Run = "c1", "r1"
	s.ok(assistant("done"), append(hello[:2:2], assistant("", "call_11 book"), tool("call_11", "ok"))...)
	s.run("ok")
	s.advance(time.Hour)
	out := run(t, analyzer.Default(), s.steps)
	if len(out.Findings) > 0 {
		t.Errorf("%v", out.Findings)
	}
}

// The next process knows what was known when a process died.
func TestCallsSurviveRestart(t *testing.T) {
	s := newStream("")
	s.habitual("book", 4)
	s.quit("final_answer", 6)
	s.labels.Conversation, s.labels.Run = "c1", "r1"
	said := assistant("", "call_1 book", "call_2 final_answer")
	s.run("started")
	s.tool("call_1", "started", s.ok(said, hello...))
	s.fail(400, missingText, append(hello[:2:2], said, tool("call_2", "ok"))...)
	s.ok(assistant("", "call_3 book"), append(hello[:2:2], assistant("Booked."), user("and now?"))...)
	s.run("error")
	s.labels.Conversation, s.labels.Run = "c2", "r2"
	s.run("started")
	s.fail(400, orphanText, append(hello[:2:2], tool("call_1", "x"))...)
	s.run("ok")
	s.labels.Conversation, s.labels.Run = "c3", ""
	s.fail(400, orphanText, append(hello[:2:2], tool("call_1", "x"))...)
	s.now = s.now.Add(12 * time.Minute)
	s.labels.Conversation = "c4"
	s.ok(assistant("", "call_4 final_answer"), hello...)
	s.advance(20 * time.Minute)
	whole := run(t, analyzer.Default(), s.steps)
	if n := len(ownSignals(whole)); n < 3 {
		t.Fatalf("%v: the stream shows too little", ownSignals(whole))
	}
	for k := 1; k < len(s.steps); k++ {
		if !sameOutput(t, whole, restarted(t, s.steps, k)) {
			t.Fatalf("stopped after %d events", k)
		}
	}
}
