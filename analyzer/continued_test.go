package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/analyzer"
)

// Without a conversation id, a request is also linked if it extends the history of the newest request of its process without
// the answer, or writes the history anew.
func TestContinuedWithoutTheAnswer(t *testing.T) {
	const long, short = "call_Qx7Lk2mZ9pVb4TnR8sYd3WcA", "call_0"
	sys, ask := system("You plan."), user("read config.py")
	// f returns the conversation of each request, numbered, and the states of the calls.
	f := func(name string, events func(s *stream), conversations, states string) {
		t.Helper()
		s := newStream("")
		events(s)
		n := s.calls
		s.advance(time.Hour)
		rows, _, calls := latest(run(t, analyzer.Default(), s.steps))
		got, numbers, state := "", map[string]int{}, ""
		for i := range n {
			id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", i+1)
			c := rows[id].Conversation
			if numbers[c] == 0 {
				numbers[c] = len(numbers) + 1
			}
			got += fmt.Sprint(numbers[c])
			for _, call := range calls {
				if call.Exchange == id {
					state += call.State + " "
				}
			}
		}
		must.Agree(t, cmp.Diff(conversations+" "+states, got+" "+state), name)
	}
	calls := func(id string) msg { return assistant("", id+" final_result") }

	f("the answer was not accepted", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("{80}"), sys, ask, user("That is no JSON."))
		s.ok(assistant(`{"port":80}`), sys, ask, user("That is no JSON."), user("That is no JSON."))
		s.ok(assistant("bye"), sys, ask, assistant(`{"port":80}`), user("thanks")) // without what was discarded
	}, "1111", "")
	f("the result of a structured output", func(s *stream) {
		s.ok(calls(long), sys, ask)
		s.ok(calls(long+"2"), sys, ask, assistant(`{"port":80}`), user("And the host?"))
	}, "11", "missing abandoned ")
	f("a short answer, a minute later", func(s *stream) {
		s.ok(assistant("Port 80."), sys, user("Which port does config.py set?"))
		s.now = s.now.Add(time.Minute)
		s.ok(assistant("ok"), sys, user("Which port does config.py set?"), assistant("Port 80."), user("thanks"))
	}, "11", "")
	f("calls with new ids", func(s *stream) {
		s.ok(assistant("", long+" read_file"), sys, ask)
		s.ok(assistant("ok"), sys, ask, assistant("", "own1 read_file"), tool("own1", "PORT=80"))
	}, "11", "answered ")
	f("the message with the call was never saved", func(s *stream) {
		s.ok(assistant("", short+" read_file"), sys, ask)
		s.fail(400, orphanText, sys, ask, tool(short, "PORT=80"))
	}, "11", "rejected ")
	f("the SDK sends a request again", func(s *stream) {
		s.fail(429, "Rate limit reached", sys, ask)
		id := s.exchange()
		s.request(id, sys, ask).Retry = 1
		s.response(id, 200, answer(assistant("80")))
	}, "11", "")
	f("a first message that changes each turn", func(s *stream) {
		s.ok(assistant("", short+" read_file"), sys, user("10:01 read config.py"))
		s.ok(assistant("ok"), sys, user("10:02 read config.py"), assistant("", short+" read_file"), tool(short, "PORT=80"))
	}, "11", "answered ")
	f("another agent takes over and reads the calls as texts", func(s *stream) {
		s.ok(assistant("", short+" transfer_to_reader"), sys, ask)
		s.ok(assistant("", short+" read_file"), system("You read."), ask, user("[planner] called transfer_to_reader"), user("[planner] transfer_to_reader returned null"))
		s.ok(assistant("80"), system("You read."), ask, user("[planner] called transfer_to_reader"), user("[planner] transfer_to_reader returned null"),
			assistant("", short+" read_file"), tool(short, "PORT=80"))
	}, "111", "answered answered ")

	f("not from another process", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("80"), sys, ask, user("That is no JSON."))
		s.from("i2", 2)
	}, "12", "")
	f("not after a pause", func(s *stream) {
		s.ok(calls(long), sys, ask)
		s.now = s.now.Add(11 * time.Second)
		s.ok(calls(long+"2"), sys, ask, assistant(`{"port":80}`), user("And the host?"))
	}, "12", "abandoned abandoned ")
	f("not if two conversations start alike", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("80"), sys, ask, user("That is no JSON."))
	}, "123", "")
	f("but by the answer", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("8080"), sys, ask)
		s.ok(assistant("ok"), sys, ask, assistant("80"), user("thanks"))
		s.ok(assistant("ok"), sys, ask, assistant("8080"), user("thanks"))
	}, "1212", "")
	f("not if the first message is followed by another text than the answer", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("ok"), sys, ask, assistant("443"), user("thanks"))
	}, "12", "")
	f("not a stage with the same first message", func(s *stream) {
		s.ok(assistant("80"), sys, ask)
		s.ok(assistant("ok"), system("You execute."), ask, user("Go."))
	}, "12", "")
	f("items of a batch with one prompt", func(s *stream) {
		for i := range 3 {
			s.ok(assistant("80"), sys, user("read file"), user(fmt.Sprint(i)))
		}
		for i := range 3 {
			s.ok(assistant("80"), sys, user("read file"), user(fmt.Sprint(i)), user("That is no JSON."))
		}
	}, "123123", "")
	f("two pending calls with one id", func(s *stream) {
		s.ok(assistant("", short+" read_file"), sys, user("10:01 read a.py"))
		s.ok(assistant("", short+" read_file"), sys, user("10:01 read b.py"))
		s.ok(assistant("ok"), sys, user("10:02 read a.py"), assistant("", short+" read_file"), tool(short, "PORT=80"))
	}, "123", "abandoned abandoned ")
	f("a call that is answered again, and a pending one with its id", func(s *stream) {
		s.ok(assistant("", short+" read_file"), sys, user("10:01 read a.py"))
		s.fail(400, "no", sys, user("10:02 read a.py"), assistant("", short+" read_file"), tool(short, "PORT=80"))
		s.ok(assistant("", short+" read_file"), sys, user("10:02 read b.py"))
		s.fail(400, "no", sys, user("10:03 read a.py"), assistant("", short+" read_file"), tool(short, "PORT=80"))
	}, "1123", "rejected abandoned ")
	f("an example of a call in a prompt", func(s *stream) {
		s.ok(assistant("", short+" read_file"), sys, ask)
		s.ok(assistant("80"), sys, user("An example."), assistant("", short+" read_file"), tool(short, "PORT=1"), user("Now read b.py."))
	}, "12", "abandoned ")
	f("a tool that is another agent", func(s *stream) {
		s.ok(assistant("", short+" ask_researcher"), sys, ask)
		s.ok(assistant("80"), system("You research."), user("Which port?"))
		s.ok(assistant("ok"), sys, ask, assistant("", short+" ask_researcher"), tool(short, "80"))
	}, "121", "answered ")
}
