package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// shaped returns s as a hook publishes it in capture mode shape.
func shaped(s *stream) *stream {
	shaper, c := shape.New([]byte("key")), *s
	c.steps = slices.Clone(s.steps)
	for i, st := range c.steps {
		if st.ev == nil || st.ev.Capture != event.CaptureFull {
			continue
		}
		ev := *st.ev
		ev.Capture = event.CaptureShape
		url, _, _ := strings.Cut(strings.TrimPrefix(s.url, "https://"), "?")
		_, path, _ := strings.Cut(url, "/")
		switch d := wire.PathDialect("/" + path); {
		case ev.Kind == event.Request:
			ev.Body = slices.Clone(shaper.Request(d, ev.Body, 1<<20))
		case ev.Status < 400:
			ev.Body = slices.Clone(shaper.Response(d, ev.Body, 1<<20))
		}
		ev.BodyBytes = len(ev.Body)
		c.steps[i].ev = &ev
	}
	return &c
}

// signalsOf returns the signals of s: the newest row of each, with its detail.
func signalsOf(t *testing.T, s *stream) []string {
	t.Helper()
	var list []string
	_, findings, _ := latest(run(t, analyzer.Default(), s.steps))
	for _, f := range findings {
		if f.Severity != check.Signal {
			continue
		}
		if f.Summary == "" || f.Evidence == "" && f.Rule != signals.Unexplained400 || f.Fix == "" || f.Predicted != check.Signal {
			t.Errorf("%s: summary %q, evidence %q, fix %q", f.Rule, f.Summary, f.Evidence, f.Fix)
		}
		list = append(list, strings.TrimSpace(f.Rule+" "+f.Detail))
	}
	slices.Sort(list)
	return list
}

// Each signal, and cases that resemble it.
func TestSignals(t *testing.T) {
	f := func(name string, play func(s *stream), want ...string) {
		t.Helper()
		s := newStream("c1")
		play(s)
		must.Agree(t, cmp.Diff(want, signalsOf(t, s)), name)
		visible := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return strings.HasPrefix(w, signals.SanitizerAtWork) })
		must.Agree(t, cmp.Diff(visible, signalsOf(t, shaped(s)), cmpopts.EquateEmpty()), name, "its shape")
		if s.now.Sub(epoch) > analyzer.Default().SessionLookback {
			return
		}
		rows, firsts := map[string]int{}, map[string]string{}
		for _, row := range run(t, analyzer.Default(), s.steps).Findings {
			if row.Severity != check.Signal {
				continue
			}
			rows[row.ID]++
			// Versions of a row share what rows are sorted and cut by.
			if first := row.Conversation + row.Exchange + row.FirstSeen.String(); firsts[row.ID] == "" {
				firsts[row.ID] = first
			} else if firsts[row.ID] != first {
				t.Errorf("%s: %s is first seen twice: %s, %s", name, row.Rule, firsts[row.ID], first)
			}
		}
		for _, st := range slices.Clone(s.steps) { // everything is delivered again
			if st.ev != nil {
				s.again(st.ev)
			}
		}
		for _, row := range run(t, analyzer.Default(), s.steps).Findings {
			if row.Severity == check.Signal {
				rows[row.ID]--
			}
		}
		for id, n := range rows {
			must.Equal(t, n, 0, "%s: delivered twice, row %s is emitted %d more times", name, id, -n)
		}
	}
	h := []msg{system("You plan."), user("Read config.py.")}
	with := func(more ...msg) []msg { return append(h[:2:2], more...) }
	said := assistant("I read the file.", "call_1 read_file")
	done := assistant("The port is 80.")
	reply := tool("call_1", "PORT=80")
	broken := with(assistant("I read the file."), reply)

	// Accepted, and rejected elsewhere.
	f("a broken history is accepted, and sent again each turn", func(s *stream) {
		s.ok(said, h...)
		s.ok(done, broken...)
		s.ok(done, append(slices.Clip(broken), done, user("And then?"))...)
	}, "latent_violation orphan_tool_reply")
	f("it is accepted by a server that does not look", func(s *stream) {
		s.url = "http://localhost:8000/v1/chat/completions"
		s.ok(said, h...)
		s.ok(done, broken...)
	}, "latent_violation orphan_tool_reply")
	f("it is rejected", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, orphanText, broken...)
	})
	f("arguments as an object, where they are taken", func(s *stream) {
		s.url = mistralURL
		s.ok(done, with(msg{"role": "assistant", "tool_calls": []msg{{"id": "call12345", "type": "function", "function": msg{"name": "f", "arguments": msg{}}}}}, tool("call12345", "a"))...)
	})

	// Repeated requests.
	f("one request is refused three times", func(s *stream) {
		for range 3 {
			s.fail(400, "odd", h...)
		}
	}, "retry_storm 400", "unexplained_400")
	f("twice", func(s *stream) {
		s.fail(400, "odd", h...)
		s.fail(400, "odd", h...)
	}, "unexplained_400")
	f("three times, but not in a row", func(s *stream) {
		s.fail(400, "odd", h...)
		s.fail(400, "odd", h...)
		s.ok(done, h...)
		s.fail(400, "odd", h...)
	}, "unexplained_400")
	f("asked to wait", func(s *stream) {
		for range 5 {
			s.fail(429, "slow down", h...)
		}
	})
	f("a failing server", func(s *stream) {
		for range 5 {
			s.fail(503, "down", h...)
		}
	})
	f("other requests each time", func(s *stream) {
		for i := range 4 {
			s.fail(401, "Incorrect API key provided", user(fmt.Sprint("task ", i)))
		}
	})
	f("hours apart", func(s *stream) {
		for range 4 {
			s.fail(401, "Incorrect API key provided", h...)
			s.now = s.now.Add(time.Hour)
		}
	})
	f("without an id of the conversation", func(s *stream) {
		s.labels.Conversation = ""
		for range 7 {
			s.fail(401, "Incorrect API key provided", h...)
		}
	}, "retry_storm 401")

	// One defect stays and the history grows.
	f("nothing that is added helps", func(s *stream) {
		s.ok(said, h...)
		for i := range 4 {
			s.fail(400, orphanText, append(slices.Clip(broken), slices.Repeat([]msg{user("Go on.")}, i)...)...)
		}
	}, "poisoned_session orphan_tool_reply")
	f("it is mended", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, orphanText, broken...)
		s.fail(400, orphanText, append(slices.Clip(broken), user("Go on."))...)
		s.ok(done, with(said, reply)...)
	})

	// Changes of the history by the agent.
	f("other arguments", func(s *stream) {
		s.ok(said, h...)
		other := assistant("I read the file.", "call_1 read_file")
		other["tool_calls"].([]msg)[0]["function"] = msg{"name": "read_file", "arguments": `{"path":"other.py"}`}
		s.ok(done, with(other, reply)...)
	}, "history_rewritten arguments")
	f("the same arguments, written otherwise", func(s *stream) {
		s.ok(said, h...)
		other := assistant("I read the file.", "call_1 read_file")
		other["tool_calls"].([]msg)[0]["function"] = msg{"name": "read_file", "arguments": `{ "path" : "config\u002epy" }`}
		s.ok(done, with(other, reply)...)
	})
	f("another text", func(s *stream) {
		s.ok(done, h...)
		s.ok(done, with(assistant("The port is 80, and I have changed it to 8080."), user("Thanks."))...)
	}, "history_rewritten content")
	f("a text without its space", func(s *stream) {
		s.ok(assistant("\n\nThe port is 80.\n"), h...)
		s.ok(done, with(done, user("Thanks."))...)
	})
	f("a text without the thoughts", func(s *stream) {
		s.ok(assistant("<think>Where is it?</think>The port is 80."), h...)
		s.ok(done, with(done, user("Thanks."))...)
	})
	f("the first of two answers to one request", func(s *stream) {
		s.ok(done, h...)
		s.ok(assistant("Port 80."), h...)
		s.ok(done, with(done, user("Thanks."))...)
	})
	long := []msg{assistant("I see.", "call_a f"), tool("call_a", "1"), assistant("I go on.", "call_b f"), tool("call_b", "2")}
	f("a compaction", func(s *stream) {
		s.ok(long[0], h...)
		s.ok(long[2], with(long[:2]...)...)
		s.ok(done, with(long...)...)
		s.ok(done, system("You plan."), user("Summary: the port is 80."), done, user("Go on."))
	}, "history_shrunk")
	f("an edited question", func(s *stream) {
		s.ok(long[0], h...)
		s.ok(done, with(long[:2]...)...)
		s.ok(done, system("You plan."), user("Read other.py."))
	})
	f("back to an earlier question, whose answer reads like the last one", func(s *stream) {
		said := assistant("All of it is done; there is nothing left to look up.")
		s.ok(said, h...)
		s.ok(said, with(said, user("And other.py?"))...)
		s.ok(said, with(said, user("And other.py?"), said, user("And third.py?"))...)
		s.ok(done, with(said, user("And fourth.py?"))...)
	})
	f("another agent of the conversation", func(s *stream) {
		s.ok(long[0], h...)
		s.ok(done, with(long[:2]...)...)
		s.ok(done, system("You title."), done)
	})

	// Concurrent requests.
	f("two requests of one history at once", func(s *stream) {
		s.ok(said, h...)
		a, b := s.exchange(), s.exchange()
		s.request(a, with(said, reply)...)
		s.request(b, with(said, reply, user("Hurry."))...)
		s.response(a, 200, answer(done))
		s.response(b, 200, answer(done))
	}, "concurrent_session_requests")
	f("the same request twice at once", func(s *stream) {
		a, b := s.exchange(), s.exchange()
		s.request(a, h...)
		s.request(b, h...)
		s.response(a, 200, answer(done))
		s.response(b, 200, answer(done))
	})
	f("the answer's event comes late", func(s *stream) {
		a := s.exchange()
		s.request(a, h...)
		b := s.exchange()
		s.request(b, with(done, user("Thanks."))...)
		s.response(a, 200, answer(done)).Time = s.now.Add(-2 * time.Second)
		s.response(b, 200, answer(done))
	})
	f("the agent left the stream open when it had its end", func(s *stream) {
		s.ok(said, h...)
		a, b := s.exchange(), s.exchange()
		s.request(a, with(said, reply)...)
		s.request(b, with(said, reply, done, user("Thanks."))...)
		s.response(b, 200, answer(done))
		s.response(a, 200, answer(done)).Error = "neither read to its end nor closed"
	})
	f("the first one was called off", func(s *stream) {
		a, b := s.exchange(), s.exchange()
		s.request(a, h...)
		s.request(b, with(user("No, other.py."))...)
		s.response(a, 0, nil).Error = event.ErrorCancelled
		s.response(b, 200, answer(done))
	})

	// Placeholders of gateways.
	f("a placeholder for a reply", func(s *stream) {
		s.ok(said, h...)
		stand := tool("call_1", "[System: Tool execution skipped/interrupted by user. No result provided for tool 'read_file'.]")
		s.ok(done, with(said, stand)...)
		s.ok(done, with(said, stand, done, user("Go on."))...)
	}, "sanitizer_at_work missing_reply")
	f("a file that speaks of it", func(s *stream) {
		s.ok(said, h...)
		s.ok(done, with(said, tool("call_1", "docs: LiteLLM writes [System: Tool execution skipped] for a missing reply"))...)
	})
	f("a placeholder for an empty content", func(s *stream) {
		s.ok(done, with(assistant("[System: Empty message content sanitised to satisfy protocol]"), user("Go on."))...)
	}, "sanitizer_at_work empty_content")

	// Failures without an error status.
	f("the text speaks of another defect", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, missingText, broken...)
	}, "error_rule_mismatch missing_tool_reply")
	f("the text misses a reply that is there", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1", with(said, tool("call_1", "x"))...)
	}, "error_rule_mismatch missing_tool_reply")
	f("the text misses a reply of another request", func(s *stream) {
		s.ok(said, h...)
		s.fail(400, "The following tool_call_ids did not have response messages: call_12", with(said, tool("call_1", "x"))...)
	})
	f("no answer in time", func(s *stream) {
		s.request(s.exchange(), h...)
		s.advance(16 * time.Minute)
	}, "no_response timeout")
	f("no connection, three attempts", func(s *stream) {
		for range 3 {
			id := s.exchange()
			s.request(id, h...)
			s.response(id, 0, nil).Error = "dial tcp: connection refused"
		}
	}, "no_response error")
	f("a gap where the answer may have been", func(s *stream) {
		s.request(s.exchange(), h...)
		s.lost++
		s.ok(done, user("another task"))
		s.advance(16 * time.Minute)
	})
	f("called off", func(s *stream) {
		id := s.exchange()
		s.request(id, h...)
		s.response(id, 0, nil).Error = event.ErrorCancelled
	})
}

// Each signal has one sentence, and no id of a rule.
func TestSignalsAreDescribed(t *testing.T) {
	for i, s := range signals.All {
		if s.ID == "" || !strings.HasSuffix(s.Doc, ".") || i > 0 && signals.All[i-1].ID >= s.ID || rules.ByID(s.ID) != nil {
			t.Errorf("signal %d is %+v", i, s)
		}
	}
}
