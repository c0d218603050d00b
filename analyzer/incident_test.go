package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// brief renders the failed exchanges and the findings of a stream, one line each, in order.
func brief(out *analyzer.Output) []string {
	var lines []string
	for _, e := range out.Exchanges {
		if e.Failed {
			lines = append(lines, fmt.Sprintf("failed %d %s %s %s", e.Status, e.Cause, e.CauseKnown, dash(e.RootCause)))
		}
	}
	for _, f := range out.Findings {
		if f.Severity == check.Signal {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %d %s %s %s %s", f.Rule, f.Severity, f.Message, dash(f.ToolCallID), dash(f.ToolName),
			dash(f.RootCause), dash(f.Confidence)))
	}
	return lines
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func states(out *analyzer.Output) []string {
	var lines []string
	for _, c := range out.ToolCalls {
		lines = append(lines, c.CallID+" "+c.Name+" "+c.State)
	}
	return lines
}

// Incident 0: the agent saves role and content of an answer, without its tool_calls.
func TestCallsDroppedOnSave(t *testing.T) {
	start := []msg{system("You are a planner."), user("read config.py")}
	f := func(name string, said, saved msg, replies []msg, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.ok(said, start...)
		broken := append(append(start[:2:2], saved), replies...)
		s.fail(400, orphanText, broken...)
		// The agent continues and sends the broken history again, longer.
		s.fail(400, orphanText, append(slices.Clip(broken), user("are you done?"))...)
		out := run(t, analyzer.Default(), s.steps)
		must.Agree(t, cmp.Diff(want, brief(out)), name)
	}
	failed := "failed 400 orphan_tool_reply both tool_calls_dropped_on_save"
	found := "orphan_tool_reply reject %d %s %s tool_calls_dropped_on_save %s"

	f("one call, empty content", assistant("", "call_1 read_file"), assistant(""), []msg{tool("call_1", "PORT=80")},
		failed, failed, fmt.Sprintf(found, 3, "call_1", "read_file", "high"))
	f("null content, saved as empty", assistant("null", "call_1 read_file"), assistant(""), []msg{tool("call_1", "PORT=80")},
		failed, failed, fmt.Sprintf(found, 3, "call_1", "read_file", "high"))
	f("two calls", assistant("", "call_1 read_file", "call_2 write_file"), assistant("null"),
		[]msg{tool("call_1", "PORT=80"), tool("call_2", "ok")},
		failed, failed, fmt.Sprintf(found, 3, "call_1", "read_file", "high"), fmt.Sprintf(found, 4, "call_2", "write_file", "high"),
		"assistant_content_missing lenient 2 - - - -")
	f("with text", assistant("I read the file.", "call_1 read_file"), assistant("I read the file."), []msg{tool("call_1", "PORT=80")},
		failed, failed, fmt.Sprintf(found, 3, "call_1", "read_file", "high"))
	f("with text that the agent shortens", assistant("I read the file, as you asked me.", "call_1 read_file"), assistant("I read…"),
		[]msg{tool("call_1", "PORT=80")},
		failed, failed, fmt.Sprintf(found, 3, "call_1", "read_file", "medium"))
}

func TestCallsDroppedEvidence(t *testing.T) {
	s := newStream("c1")
	history := []msg{system("You are a planner."), user("read config.py")}
	first := s.ok(assistant("", "call_1 read_file"), history...)
	second := s.fail(400, orphanText, append(history, assistant(""), tool("call_1", "PORT=80"))...)
	out := run(t, analyzer.Default(), s.steps)
	got := out.Findings[0]
	want := "answer of LLM call " + first + " made call_1 (read_file); message 2 of the next request is its copy without tool_calls, and message 3 answers call_1"
	must.Equal(t, got.Evidence, want, "evidence")
	if got.Exchange != second || got.Fix == "" || got.Conversation != "c1" || got.Status != 400 {
		t.Errorf("finding %+v", got)
	}
	must.Agree(t, cmp.Diff([]string{"call_1 read_file open", "call_1 read_file answered", "call_1 read_file rejected"}, states(out)))
}

// A provider accepts the broken history, as in incident 0, and later rejects it: the finding becomes stronger.
func TestLenientProviderThenStrict(t *testing.T) {
	s := newStream("c1")
	h := []msg{system("You are a planner."), user("read config.py")}
	s.ok(assistant("", "call_1 read_file"), h...)
	h = append(h, assistant(""), tool("call_1", "PORT=80"))
	s.ok(assistant("", "call_2 read_file"), h...)
	h = append(h, assistant(""), tool("call_2", "PORT=81"))
	s.fail(400, orphanText, h...)
	want := []string{
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply lenient 3 call_1 read_file tool_calls_dropped_on_save high",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high",
		"orphan_tool_reply reject 5 call_2 read_file tool_calls_dropped_on_save high",
	}
	out := run(t, analyzer.Default(), s.steps)
	must.Agree(t, cmp.Diff(want, brief(out)))
	if a, b := out.Findings[0], out.Findings[2]; a.ID != b.ID || a.Exchange != b.Exchange || !a.FirstSeen.Equal(b.FirstSeen) || a.Fingerprint != b.Fingerprint {
		t.Errorf("the same defect has two identities:\n%+v\n%+v", a, b)
	}
}

// Incident 2: the history is cut to its last N messages, between a call and its replies.
func TestHistoryTruncatedMidPair(t *testing.T) {
	full := []msg{system("You are an analyst."), user("analyse this chunk")}
	var replies []msg
	var calls []string
	for i := range 5 {
		calls = append(calls, fmt.Sprintf("call_%d extract", i))
		replies = append(replies, tool(fmt.Sprintf("call_%d", i), fmt.Sprintf("result %d", i)))
	}
	summary := system("Summary of the conversation so far: a chunk was analysed.")

	f := func(name string, asked []msg, sent []msg, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.ok(assistant("Working.", calls...), full...)
		if asked != nil {
			s.ok(assistant("", "call_9 extract"), asked...)
		}
		s.fail(400, orphanText, sent...)
		must.Agree(t, cmp.Diff(want, brief(run(t, analyzer.Default(), s.steps))), name)
	}
	failed := "failed 400 orphan_tool_reply both history_truncated_mid_pair"
	found := func(message, call int, confidence string) string {
		return fmt.Sprintf("orphan_tool_reply reject %d call_%d extract history_truncated_mid_pair %s", message, call, confidence)
	}

	const noUser = "no_user_message lenient 0 - - - -" // what is cut is the user's turn too
	f("the newest answer is cut", nil, append(full[:1:1], replies[1:]...),
		failed, found(1, 1, "high"), found(2, 2, "high"), found(3, 3, "high"), found(4, 4, "high"), noUser)
	saved := append(append(full[:2:2], assistant("Working.", calls...)), replies...)
	more := []msg{assistant("", "call_9 extract"), tool("call_9", "done")}
	f("an older answer is cut", saved, append(append(full[:1:1], replies[3:]...), more...),
		failed, found(1, 3, "high"), found(2, 4, "high"), noUser)
	f("behind a summary", saved, append(append(append(full[:1:1], summary), replies[4:]...), more...),
		failed, found(2, 4, "high"), noUser)
	f("the first user message is kept", saved, append(append(full[:2:2], replies[4:]...), more...),
		failed, found(2, 4, "high"))
}

// Incident 4: calls without replies, and duplicate replies.
func TestMissingAndDuplicateReplies(t *testing.T) {
	s := newStream("c1")
	h := []msg{system("You book trips."), user("book a trip to Oslo")}
	said := assistant("", "call_1 weather", "call_2 submit_trip")
	s.ok(said, h...)
	h = append(h, said, tool("call_1", "rain"))
	s.fail(400, missingText, append(slices.Clip(h), user("so?"))...)
	// The repair replies twice.
	s.fail(400, "Duplicate value for 'tool_call_id' of 'call_1', in messages[3] and messages[4].",
		append(slices.Clip(h), tool("call_1", "sun"), tool("call_2", "ok"))...)
	out := run(t, analyzer.Default(), s.steps)
	want := []string{
		"failed 400 missing_tool_reply both tool_skipped_or_interrupted",
		"failed 400 duplicate_tool_reply both duplicate_reply",
		"missing_tool_reply reject 2 call_2 submit_trip tool_skipped_or_interrupted medium",
		"duplicate_tool_reply reject 4 call_1 weather duplicate_reply medium",
	}
	must.Agree(t, cmp.Diff(want, brief(out)))
	wantCalls := []string{
		"call_1 weather open", "call_2 submit_trip open", "call_1 weather answered", "call_2 submit_trip missing", "call_1 weather rejected",
		"call_2 submit_trip late", "call_1 weather duplicate",
	}
	must.Agree(t, cmp.Diff(wantCalls, states(out)))
}

// The request before contained the reply.
func TestReplyCutAway(t *testing.T) {
	s := newStream("c1")
	h := []msg{system("s"), user("u")}
	said := assistant("", "call_1 f", "call_2 f")
	s.ok(said, h...)
	h = append(h, said, tool("call_1", "a"), tool("call_2", "b"))
	s.ok(assistant("done"), h...)
	s.fail(400, missingText, append(h[:4:4], user("and now?"))...)
	want := []string{
		"failed 400 missing_tool_reply both history_truncated_mid_pair",
		"missing_tool_reply reject 2 call_2 f history_truncated_mid_pair high",
	}
	must.Agree(t, cmp.Diff(want, brief(run(t, analyzer.Default(), s.steps))))
}

// Histories that resemble a defect, or have another one, get no wrong root cause.
func TestLookAlikes(t *testing.T) {
	h := []msg{system("You are a planner."), user("read config.py")}
	said := assistant("", "call_1 read_file")
	healthy := append(h[:2:2], said, tool("call_1", "PORT=80"))
	broken := append(h[:2:2], assistant(""), tool("call_1", "PORT=80"))

	f := func(name string, build func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		build(s)
		must.Agree(t, cmp.Diff(want, brief(run(t, analyzer.Default(), s.steps))), name)
	}
	f("a healthy conversation", func(s *stream) {
		s.ok(said, h...)
		s.ok(assistant("PORT is 80"), healthy...)
		s.ok(assistant("bye"), append(healthy, assistant("PORT is 80"), user("thanks"))...)
	})
	f("compaction that keeps pairs", func(s *stream) {
		s.ok(said, h...)
		s.ok(assistant("", "call_2 read_file"), healthy...)
		s.ok(assistant("done"), h[0], user("summary"), assistant("", "call_2 read_file"), tool("call_2", "x"))
	})
	f("a foreign history", func(s *stream) {
		s.fail(400, orphanText, broken...)
		s.fail(400, orphanText, append(broken, user("hello?"))...)
	},
		"failed 400 orphan_tool_reply both unknown_no_history", "failed 400 orphan_tool_reply both unknown_no_history",
		"orphan_tool_reply reject 3 call_1 - unknown_no_history low")
	f("a foreign history after an unrelated one", func(s *stream) {
		s.ok(assistant("hi"), system("You chat."), user("hello"))
		s.fail(400, orphanText, broken...)
	},
		"failed 400 orphan_tool_reply both unknown_no_history",
		"orphan_tool_reply reject 3 call_1 - unknown_no_history low")
	f("a reply to a call nobody made", func(s *stream) {
		s.ok(assistant("hi"), h...)
		s.fail(400, orphanText, append(h[:2:2], assistant("hi"), tool("call_7", "x"))...)
	},
		"failed 400 orphan_tool_reply both -",
		"orphan_tool_reply reject 3 call_7 - - -")
	f("the answer alone was not saved", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, orphanText, h[0], h[1], tool("call_1", "PORT=80"))
	},
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 2 call_1 read_file tool_calls_dropped_on_save high")
	f("a cut that leaves an older plain answer before the reply", func(s *stream) {
		plain := append(h[:2:2], assistant("Let me think."), user("go on"))
		s.ok(said, plain...)
		s.ok(assistant("ok"), append(plain[:4:4], said, tool("call_1", "PORT=80"))...)
		s.fail(400, orphanText, h[0], plain[2], tool("call_1", "PORT=80"), assistant("ok"), user("next"))
	},
		"failed 400 orphan_tool_reply both history_truncated_mid_pair",
		"orphan_tool_reply reject 2 call_1 read_file history_truncated_mid_pair high")
	f("a broken request that is sent again by the SDK", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, orphanText, broken...)
		id := s.exchange()
		s.request(id, broken...).Retry = 1
		s.response(id, 400, fault(orphanText))
	},
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save", "failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high")
	f("a fork", func(s *stream) {
		s.ok(said, h...)
		s.ok(assistant("PORT is 80"), healthy...)
		s.ok(assistant("", "call_2 read_file"), append(healthy[:4:4], assistant("PORT is 80"), user("and the host?"))...)
		s.ok(assistant("no"), append(healthy[:4:4], assistant("PORT is 80"), user("is that right?"))...)
		s.ok(assistant("x"), append(healthy[:4:4], assistant("PORT is 80"), user("and the host?"), assistant("", "call_2 read_file"), tool("call_2", "HOST=a"))...)
	})
	f("a failed turn between answer and defect", func(s *stream) {
		s.ok(said, h...)
		s.fail(503, "overloaded", append(h[:2:2], user("quick!"))...)
		s.fail(400, orphanText, broken...)
	},
		"failed 503 server_error stated -", "failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save medium")
	f("saved whole, then loaded without the calls", func(s *stream) {
		s.ok(said, h...)
		s.fail(500, "oops", healthy...)
		s.fail(400, orphanText, broken...)
	},
		"failed 500 server_error guessed -", "failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high")
	f("a rate limit on a broken history is no protocol failure", func(s *stream) {
		s.ok(said, h...)
		s.fail(429, "Rate limit reached", broken...)
	},
		"failed 429 rate_limit stated -",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high")
	f("two stages of one conversation", func(s *stream) {
		task := user("build it")
		planner, executor := system("You plan."), system("You execute.")
		s.ok(assistant("", "call_p plan"), planner, task)
		s.ok(assistant("", "call_e exec"), executor, task)
		s.fail(400, orphanText, planner, task, assistant(""), tool("call_p", "1. a"))
		s.ok(assistant("done"), executor, task, assistant("", "call_e exec"), tool("call_e", "ok"))
	},
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_p plan tool_calls_dropped_on_save high")
	f("a system prompt that changes each turn", func(s *stream) {
		s.ok(said, system("It is 10:01."), h[1])
		s.fail(400, orphanText, append([]msg{system("It is 10:02.")}, broken[1:]...)...)
		s.fail(400, orphanText, append([]msg{system("It is 10:03.")}, broken[1:]...)...)
	},
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save", "failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high")
}

// Without a conversation id, a request is linked by the answer in it.
func TestInferredConversation(t *testing.T) {
	long := "call_Qx7Lk2mZ9pVb4TnR8sYd3WcA"
	f := func(name, id, reply string, want string) {
		t.Helper()
		s := newStream("")
		h := []msg{system("You are a planner."), user("read config.py")}
		first := s.ok(assistant("", id+" read_file"), h...)
		s.ok(assistant("hello there"), system("You chat."), user("hi")) // another one
		s.fail(400, orphanText, append(h, assistant(""), tool(reply, "PORT=80"))...)
		e, _, _ := latest(run(t, analyzer.Default(), s.steps))
		last := e["018f0000-0000-7000-8000-000000000003"]
		if !last.Inferred || strings.HasSuffix(last.Conversation, first) != (want != "unknown_no_history") || last.RootCause != want {
			t.Errorf("%s: conversation %s, root cause %s, want %s", name, last.Conversation, last.RootCause, want)
		}
	}
	f("by a call id", long, long, "tool_calls_dropped_on_save")
	f("by a short call id and a shared start", "call_1", "call_1", "tool_calls_dropped_on_save")
	f("not by a shared start alone", "call_1", "call_2", "unknown_no_history")
}

// Two conversations with the same short call ids cannot be distinguished by them, and nothing is guessed.
func TestInferredConversationIsNeverGuessed(t *testing.T) {
	s := newStream("")
	h := []msg{system("You are a planner."), user("read config.py")}
	s.ok(assistant("", "call_1 read_file"), h...)
	s.ok(assistant("", "call_1 read_file"), h...)
	s.fail(400, orphanText, append(h, assistant(""), tool("call_1", "PORT=80"))...)
	want := []string{
		"failed 400 orphan_tool_reply both unknown_no_history",
		"orphan_tool_reply reject 3 call_1 - unknown_no_history low",
	}
	must.Agree(t, cmp.Diff(want, brief(run(t, analyzer.Default(), s.steps))))
}

// The same conversation id in two services is two conversations.
func TestConversationsAreScopedByService(t *testing.T) {
	s := newStream("1")
	h := []msg{system("You are a planner."), user("read config.py")}
	s.ok(assistant("", "call_1 read_file"), h...)
	s.labels.Service = "other"
	s.fail(400, orphanText, append(h, assistant(""), tool("call_1", "PORT=80"))...)
	out := run(t, analyzer.Default(), s.steps)
	must.Equal(t, out.Findings[0].RootCause, "unknown_no_history", "root cause")
}
