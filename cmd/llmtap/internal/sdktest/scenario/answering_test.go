package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// notRun lists the root causes that only tool events distinguish.
const notRun = "tool_skipped_or_interrupted"

// Agents that do not answer all calls, or answer some twice.
var answering = []scenario{
	{
		name: "runs the first two of the parallel calls, in three conversations", model: deepSeek,
		says: []provider.Answer{calls("search", "search", "search"), calls("search", "search", "search", "search"), calls("search", "search", "search")},
		loop: func(a *agent) {
			for i := range 3 {
				a, h := a.in(fmt.Sprintf("conversation-%d", i)), start(fmt.Sprintf("Question %d.", i))
				m := a.ask(h)
				h = append(h, m.ToParam())
				for _, c := range m.ToolCalls[:2] { // BUG
					h = append(h, reply(c))
				}
				a.ask(h)
			}
		},
		fails: 3,
		want:  []want{{rule: "missing_tool_reply", root: "parallel_calls_truncated", confidence: "medium", n: 4}},
	},
	{
		name: "healthy: the first of parallel calls is run and saved, turn after turn", model: deepSeek,
		says: times(8, calls("search", "read_file", "search")),
		loop: func(a *agent) {
			h := start("Look it up.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				h = append(h, assistant(m.ToolCalls[0]), reply(m.ToolCalls[0]))
			}
		},
	},
	{
		name: "healthy: two agents take turns, and each sees the other's tool results as text", model: gpt,
		says: times(12, calls("search")),
		loop: func(a *agent) {
			anna, ben := start("Find a hotel."), start("Find a hotel.")
			for range 6 {
				m := a.ask(anna)
				anna = append(anna, turn(m)...)
				ben = append(ben, user(run(m.ToolCalls[0])))
				m = a.ask(ben)
				ben = append(ben, turn(m)...)
				anna = append(anna, user(run(m.ToolCalls[0])))
			}
		},
	},
	{
		name: "incident 4: a call that needs approval is never run", model: deepSeek, says: []provider.Answer{calls("weather", "submit_trip", "policy")},
		loop: func(a *agent) {
			h := start("Book the trip.")
			m := a.ask(h)
			h = append(h, m.ToParam())
			for _, c := range m.ToolCalls {
				if c.Function.Name == "submit_trip" { // BUG: the graph never reaches the node of this tool
					continue
				}
				h = append(h, reply(c))
			}
			a.ask(h)
		},
		want: []want{{rule: "missing_tool_reply", root: "tool_skipped", confidence: "medium"}},
	},
	{
		name: "incident 4: the same, with tool events", model: deepSeek, says: []provider.Answer{calls("weather", "submit_trip", "policy")},
		loop: func(a *agent) {
			h := start("Book the trip.")
			m := a.ask(h)
			h = append(h, m.ToParam())
			for _, c := range m.ToolCalls {
				if c.Function.Name == "submit_trip" { // BUG
					continue
				}
				a.hook.ToolStarted(a.ctx, c.ID)
				h = append(h, reply(c))
				a.hook.ToolEnded(a.ctx, c.ID, nil)
			}
			a.ask(h)
		},
		want: []want{{rule: "missing_tool_reply", root: "tool_skipped", confidence: "high"}},
	},
	{
		name: "an unknown tool is skipped, and the user continues", model: gpt, says: []provider.Answer{calls("teleport")},
		loop: func(a *agent) {
			h := start("Go home.")
			m := a.ask(h)
			h = append(h, m.ToParam())
			for _, c := range m.ToolCalls {
				if tools := map[string]bool{"walk": true}; tools[c.Function.Name] { // BUG: no else
					h = append(h, reply(c))
				}
			}
			a.ask(append(h, user("And?")))
		},
		want: []want{{rule: "missing_tool_reply", root: notRun, confidence: "medium"}},
	},
	{
		name: "healthy: an unknown tool is answered with an error", model: gpt, says: []provider.Answer{calls("teleport", "walk")},
		loop: func(a *agent) {
			h := start("Go home.")
			m := a.ask(h)
			h = append(h, m.ToParam(), openai.ToolMessage("error: no such tool", m.ToolCalls[0].ID), reply(m.ToolCalls[1]))
			a.ask(append(h, user("And?")))
		},
	},
	{
		name: "healthy: a failed tool is answered with an error", model: gpt, says: []provider.Answer{calls("walk")},
		loop: func(a *agent) {
			h := start("Go home.")
			m := a.ask(h)
			a.hook.ToolStarted(a.ctx, m.ToolCalls[0].ID)
			a.hook.ToolEnded(a.ctx, m.ToolCalls[0].ID, errors.New("no way"))
			a.ask(append(h, m.ToParam(), openai.ToolMessage("error: no way", m.ToolCalls[0].ID)))
		},
	},
	{
		name: "crashes between call and reply, and resumes from disk", model: deepSeek, says: []provider.Answer{calls("write_file")},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			h = append(h, a.ask(h).ToParam()) // saved to disk before the process dies
			a = a.restart()
			a.ask(append(h, user("Go on."))) // BUG: the call is loaded from disk and not run
		},
		want: []want{{rule: "missing_tool_reply", root: "crash_between_call_and_reply", confidence: "medium"}},
	},
	{
		name: "crashes while a tool runs, with tool events, and resumes the next day", model: deepSeek,
		says: []provider.Answer{calls("write_file")},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			m := a.ask(h)
			h = append(h, m.ToParam())
			a.hook.ToolStarted(a.ctx, m.ToolCalls[0].ID)
			a = a.restart()
			a.later(20 * time.Minute)
			a.ask(append(h, user("Go on."))) // BUG
		},
		want: []want{{rule: "missing_tool_reply", root: "crash_between_call_and_reply", confidence: "high"}},
	},
	{
		name: "healthy: crashes between call and reply, resumes from disk and runs the tool", model: deepSeek,
		says: []provider.Answer{calls("write_file")},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			m := a.ask(h)
			a = a.restart()
			a.ask(append(h, turn(m)...))
		},
	},
	{
		name: "look-alike: the call was skipped long before the restart", model: deepSeek, says: []provider.Answer{calls("submit_trip")},
		loop: func(a *agent) {
			h := start("Book the trip.")
			h = append(h, a.ask(h).ToParam(), user("And?")) // BUG: not run
			a.ask(h)
			a = a.restart()
			a.ask(append(h, user("Still nothing?")))
		},
		fails: 2,
		want:  []want{{rule: "missing_tool_reply", root: notRun, confidence: "medium"}},
	},
	{
		name: "the user writes while a tool runs, with tool events", model: gpt, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			c := m.ToolCalls[0]
			a.hook.ToolStarted(a.ctx, c.ID)
			h = append(h, m.ToParam(), user("Never mind. What time is it?"))
			a.ask(h) // BUG: neither waits for the tool nor answers its call
			a.hook.ToolEnded(a.ctx, c.ID, nil)
			a.ask(append(h, reply(c)))
		},
		fails: 2,
		want:  wants("user_interrupt", "medium", "missing_tool_reply", "late_tool_reply"),
	},
	{
		name: "healthy: the user writes while a tool runs, and its call is answered as cancelled", model: gpt, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage("cancelled by the user", m.ToolCalls[0].ID), user("What time is it?")))
		},
	},
	{
		name: "incident 4: two nodes run the same tool, and both answer", model: deepSeek, says: []provider.Answer{calls("weather", "notify")},
		loop: func(a *agent) {
			h := start("Tell the customer.")
			m := a.ask(h)
			h = append(h, turn(m)...)
			for _, c := range m.ToolCalls {
				if c.Function.Name == "notify" { // BUG: both nodes run this tool
					h = append(h, openai.ToolMessage("customer notified a second time", c.ID))
				}
			}
			a.ask(h)
		},
		want: []want{{rule: "duplicate_tool_reply", root: "duplicate_reply", confidence: "medium"}},
	},
	{
		name: "a resumed process appends a saved reply again", model: gpt, says: []provider.Answer{calls("weather", "search")},
		loop: func(a *agent) {
			h := start("How is the weather?")
			h = append(h, turn(a.ask(h))...) // saved to disk before the process dies
			a = a.restart()
			a.ask(append(h, h[len(h)-1])) // BUG: treats the last step as unfinished and appends its reply again
		},
		want: []want{{rule: "duplicate_tool_reply", root: "duplicate_reply", confidence: "high"}},
	},
	{
		name: "a call that waits for approval is answered immediately, and again after it ran", model: gpt, says: []provider.Answer{calls("refund")},
		loop: func(a *agent) {
			h := start("Refund order 12.")
			m := a.ask(h)
			h = append(h, m.ToParam(), openai.ToolMessage("Waiting for approval.", m.ToolCalls[0].ID))
			h = append(h, a.ask(h).ToParam())
			h = append(h[:4:4], reply(m.ToolCalls[0])) // BUG: keeps the placeholder before the result
			a.ask(h)
		},
		want: []want{{rule: "duplicate_tool_reply", root: "duplicate_reply", confidence: "medium"}},
	},
	{
		name: "healthy: the result replaces the placeholder", model: gpt, says: []provider.Answer{calls("refund")},
		loop: func(a *agent) {
			h := start("Refund order 12.")
			m := a.ask(h)
			h = append(h, m.ToParam(), openai.ToolMessage("Waiting for approval.", m.ToolCalls[0].ID))
			a.ask(h)
			h[3] = reply(m.ToolCalls[0])
			a.ask(h)
		},
	},
	{
		name: "a resumed process appends the last turn twice", model: deepSeek, accepted: true, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			h = append(h, turn(a.ask(h))...)
			a = a.restart()
			a.ask(append(h, h[2:]...)) // BUG: once from the checkpoint, once from the log
		},
		want: []want{{rule: "duplicate_call_id_in_history", root: "turn_appended_twice", confidence: "high"}},
	},
	{
		name: "an answer is saved by the stream's handler and by the loop", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			h = append(h, m.ToParam())   // BUG: the handler's
			a.ask(append(h, turn(m)...)) // the loop's
		},
		want: wants("turn_appended_twice", "high", "missing_tool_reply", "duplicate_call_id_in_history"),
	},
}
