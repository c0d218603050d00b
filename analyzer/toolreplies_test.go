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
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// replyCounts returns the counts of replies, errors and repeated calls by tool and confidence.
func replyCounts(out *analyzer.Output) map[string]uint64 {
	return countsBy(out, func(c *analyzer.Count) string {
		switch c.Metric {
		case analyzer.MetricToolReplies, analyzer.MetricToolErrors, analyzer.MetricRepeated:
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(c.Metric, "llmtap_"), "_total") + " " + c.Labels["tool"] + " " + c.Labels["confidence"])
		}
		return ""
	})
}

// A turn is a call of a tool and its reply.
type turn struct{ name, args, reply string }

// turns adds a conversation: the calls of each turn are made in one answer and replied to in the next request.
func turns(s *stream, history []msg, list ...[]turn) []msg {
	for i, calls := range append(list, nil) {
		var made, replies []msg
		for j, c := range calls {
			id := fmt.Sprintf("call_%d_%d_%d", len(history), i, j)
			made = append(made, msg{"id": id, "type": "function", "function": msg{"name": c.name, "arguments": c.args}})
			replies = append(replies, tool(id, c.reply))
		}
		said := msg{"role": "assistant", "content": "Done with it all, at least as far as I can see."}
		if made != nil {
			said = msg{"role": "assistant", "content": nil, "tool_calls": made}
		}
		s.ok(said, history...)
		history = append(append(history, said), replies...)
	}
	return history
}

// Each reply counts once, with the first request that has it and was not refused, however often it is sent.
func TestToolReplies(t *testing.T) {
	f := func(name string, play func(s *stream), want map[string]uint64) {
		t.Helper()
		s := newStream("c1")
		play(s)
		s.advance(10 * time.Second)
		out := run(t, analyzer.Default(), s.steps)
		must.Agree(t, cmp.Diff(want, replyCounts(out), cmpopts.EquateEmpty()), name)
		for _, y := range out.Tallies {
			for _, x := range y.Examples {
				if x.Labels["confidence"] != "" && (x.ToolName == "" || x.Summary == "" || x.Fix == "" || x.Conversation == "" || x.Message < 2) {
					t.Errorf("%s: the example is %+v", name, x)
				}
			}
		}
	}
	h := []msg{system("You plan."), user("Read config.py.")}
	read := turn{"read_file", `{"path":"config.py"}`, "PORT=80"}
	failed := turn{"read_file", `{"path":"no.py"}`, "Error: no such file"}
	other := turn{"list_files", `{}`, `{"isError":true,"content":[]}`}
	f("a history that grows", func(s *stream) {
		turns(s, h, []turn{read}, []turn{failed}, []turn{read, other})
	}, map[string]uint64{"tool_replies read_file": 3, "tool_replies list_files": 1, "tool_errors read_file likely": 1, "tool_errors list_files certain": 1})
	f("no tools", func(s *stream) { turns(s, h) }, nil)
	said := assistant("I read the file.", "call_1 read_file")
	replied := append(h[:2:2], said, tool("call_1", "Error: no such file"))
	f("sent again by the SDK", func(s *stream) {
		s.ok(said, h...)
		id := s.exchange()
		s.request(id, replied...)
		s.response(id, 500, fault("overloaded"))
		id = s.exchange()
		s.request(id, replied...).Retry = 1
		s.response(id, 200, answer(assistant("It is not there.")))
	}, map[string]uint64{"tool_replies read_file": 1, "tool_errors read_file likely": 1})
	f("refused and sent again", func(s *stream) {
		s.ok(said, h...)
		for _, status := range []int{400, 400, 200} {
			id := s.exchange()
			s.request(id, replied...)
			s.response(id, status, answer(assistant("It is not there.")))
		}
	}, map[string]uint64{"tool_replies read_file": 1, "tool_errors read_file likely": 1})
	f("refused", func(s *stream) {
		s.ok(said, h...)
		id := s.exchange()
		s.request(id, replied...)
		s.response(id, 400, fault(orphanText))
	}, nil)
	f("imported", func(s *stream) {
		s.ok(said, h...)
		s.ok(assistant("It is not there."), replied...)
		for i := range s.steps {
			s.steps[i].ev.Origin = event.OriginImport
		}
	}, nil)
	f("a loop", func(s *stream) {
		turns(s, h, slices.Repeat([][]turn{{failed, read}}, 5)...)
	}, map[string]uint64{"tool_replies read_file": 10, "tool_errors read_file likely": 5, "repeated_calls read_file": 6})
}

// The example of an error names the message of the request that counts, also if a refused one had the reply elsewhere.
func TestToolErrorSentAgain(t *testing.T) {
	s := newStream("c1")
	said, failed := assistant("null", "call_1 read_file"), tool("call_1", "Error: no such file")
	s.ok(said, user("Read config.py."))
	id := s.exchange()
	s.request(id, user("Read config.py."), said, failed)
	s.response(id, 400, fault(orphanText))
	s.ok(assistant("It is not there."), user("Read config.py."), said, user("Go on."), failed)
	s.advance(10 * time.Second)
	var at []int
	for _, y := range run(t, analyzer.Default(), s.steps).Tallies {
		for _, x := range y.Examples {
			if x.Labels["confidence"] != "" {
				at = append(at, x.Message)
			}
		}
	}
	must.Equal(t, slices.Equal(at, []int{3}), true, "messages of the examples: %v", at)
}

// Calls that do not lead anywhere are a loop, also of several turns. Progress ends it: another reply, other arguments, a message
// of the user, or waiting.
func TestAgentLoop(t *testing.T) {
	f := func(name string, play func(s *stream), want string, inShape ...string) {
		t.Helper()
		for _, conversation := range []string{"c1", ""} {
			s := newStream(conversation)
			play(s)
			for i, s := range []*stream{s, shaped(s)} {
				want := want
				if i == 1 && inShape != nil {
					want = inShape[0]
				}
				var got []string
				_, findings, _ := latest(run(t, analyzer.Default(), s.steps))
				for _, x := range findings {
					if x.Rule == signals.AgentLoop {
						got = append(got, x.Summary+"; "+x.Evidence)
					}
				}
				must.Equal(t, strings.Join(got, "\n"), want, "%s", name)
			}
		}
	}
	h := []msg{system("You plan."), user("Read config.py, please, and tell me the port in it.")}
	read := []turn{{"read_file", `{"path":"config.py"}`, "PORT=80"}}
	list := []turn{{"list_files", `{}`, "config.py"}}
	find := []turn{{"find", `{}`, "nothing"}}
	times := func(n int, of ...[]turn) [][]turn { return slices.Repeat(of, n) }
	const from = "; since message 3 of LLM call 018f0000-0000-7000-8000-000000000002; no message of the user came in between"
	f("four times", func(s *stream) { turns(s, h, times(4, read)...) }, "")
	f("five times", func(s *stream) { turns(s, h, times(5, read)...) },
		"read_file was called 5 times in a row with the same arguments, and the reply was the same each time"+from)
	f("twelve times", func(s *stream) { turns(s, h, times(12, read)...) },
		"read_file was called 10 times in a row with the same arguments, and the reply was the same each time"+from)
	f("two turns", func(s *stream) { turns(s, h, times(5, read, list)...) },
		"read_file was called 5 times with the same arguments in a loop of 2 turns, and the replies were the same each time"+from)
	f("three turns", func(s *stream) { turns(s, h, times(5, read, list, find)...) },
		"read_file was called 5 times with the same arguments in a loop of 3 turns, and the replies were the same each time"+from)
	f("two calls in each turn", func(s *stream) { turns(s, h, times(5, append(slices.Clip(read), list...))...) },
		"read_file was called 5 times in a row with the same arguments, and the reply was the same each time"+from)
	f("other arguments", func(s *stream) {
		var all [][]turn
		for i := range 8 {
			all = append(all, []turn{{"read_file", fmt.Sprintf(`{"line":%d}`, i), "PORT=80"}})
		}
		turns(s, h, all...)
	}, "")
	f("other replies", func(s *stream) {
		var all [][]turn
		for i := range 8 {
			all = append(all, []turn{{"job_status", `{}`, fmt.Sprintf("%d%%", 10*i)}})
		}
		turns(s, h, all...)
	}, "")
	f("another call in between", func(s *stream) {
		turns(s, h, slices.Concat(times(4, read), times(1, list), times(4, read))...)
	}, "")
	f("the user asks again", func(s *stream) {
		history := h
		for range 8 {
			history = append(turns(s, history, read), user("And now? Please look once more."))
		}
	}, "")
	slow := func(n int, reply string) func(s *stream) {
		return func(s *stream) {
			history := h
			for i := range n {
				said := assistant("null", fmt.Sprintf("call_%d job_status", i))
				s.ok(said, history...)
				s.now = s.now.Add(20 * time.Second)
				history = append(history, said, tool(fmt.Sprint("call_", i), reply))
			}
			s.ok(assistant("It goes on like this."), history...)
		}
	}
	f("the tool waits", slow(8, "running"), "")
	f("the tool fails slowly", slow(5, "Error: timed out"), "job_status was called 5 times in a row with the same arguments, and the reply was the same each time"+from+"; the reply reports an error",
		"") // a shape has no text, so the tool might wait
	f("one request sent again and again", func(s *stream) {
		said := assistant("null", "call_1 read_file")
		s.ok(said, h...)
		for range 8 {
			s.ok(assistant("The port is 80, as far as I can see."), append(h[:2:2], said, tool("call_1", "PORT=80"))...)
		}
	}, "")
}

// A process that starts anywhere in a loop counts and finds the same.
func TestAgentLoopRestart(t *testing.T) {
	s := newStream("c1")
	turns(s, []msg{user("Read config.py, please, and tell me the port in it.")}, slices.Repeat([][]turn{
		{{"read_file", `{"path":"no.py"}`, "Error: no such file"}}, {{"list_files", `{}`, "config.py"}},
	}, 6)...)
	s.advance(10 * time.Second)
	whole := run(t, analyzer.Default(), s.steps)
	must.Agree(t, cmp.Diff(map[string]uint64{
		"tool_replies read_file": 6, "tool_replies list_files": 6, "tool_errors read_file likely": 6, "repeated_calls read_file": 4, "repeated_calls list_files": 4,
	}, replyCounts(whole)))
	for k := 1; k < len(s.steps); k++ {
		if !sameOutput(t, whole, restarted(t, s.steps, k)) {
			t.Fatalf("stopped after %d events", k)
		}
	}
}
