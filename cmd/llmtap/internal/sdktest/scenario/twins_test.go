package scenario

import (
	"fmt"
	"slices"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// Agents whose correct behaviour resembles a bug, or hides one.
var twins = []scenario{
	{
		name: "the system prompt contains the time, and tool_calls are lost", model: deepSeek, says: times(3, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			for i := range 3 {
				h[0] = openai.SystemMessage(fmt.Sprintf("You are a careful assistant. It is 12:0%d.", i))
				m := a.ask(h)
				if i == 0 {
					h = append(h, turn(m)...)
					continue
				}
				h = append(append(h, openai.AssistantMessage(m.Content)), replies(m)...) // BUG
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "the text is trimmed on saving, and tool_calls are lost", model: deepSeek, inText: true,
		says: []provider.Answer{{Text: "I read the file.\n\n", Calls: calls("read_file").Calls}},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			h = append(h, openai.AssistantMessage("I read the file.")) // BUG
			a.ask(append(h, replies(m)...))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "medium"}},
	},
	{
		name: "the model restarts the numbering of calls, and the agent loses them", model: deepSeek, accepted: true,
		says: []provider.Answer{same("call_0", "read_file"), same("call_0", "search")},
		loop: func(a *agent) {
			a.accept(true)
			dropsCalls(a)
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "a broken history is repaired after the first error", model: gpt, says: []provider.Answer{calls("read_file"), calls("search")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(append(h, openai.AssistantMessage(m.Content)), replies(m)...)) // BUG
			h = append(h, turn(m)...)
			h = append(h, turn(a.ask(h))...)
			a.ask(h)
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "two bugs in one request: a skipped call, and tool_calls lost in the turn after it", model: gpt,
		says: []provider.Answer{calls("search", "refund", "search"), calls("read_file")},
		loop: func(a *agent) {
			h := start("Refund order 12.")
			m := a.ask(h)
			a.accept(true)                                                           // as providers that repair histories
			h = append(h, m.ToParam(), reply(m.ToolCalls[0]), reply(m.ToolCalls[2])) // BUG: refunds are not run
			m = a.ask(h)
			a.accept(false)
			a.ask(append(append(h, openai.AssistantMessage(m.Content)), replies(m)...)) // BUG
		},
		want: []want{
			{rule: "missing_tool_reply", root: "tool_skipped", confidence: "medium"},
			{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"},
		},
	},
	{
		name: "healthy: sends each request twice and continues with the first answer", model: deepSeek, says: times(4, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read four files.")
			for range 4 {
				m := a.ask(h)
				a.ask(slices.Clip(h)) // repeated
				h = append(h, turn(m)...)
			}
		},
	},
	{
		name: "healthy: the user edits an earlier question and continues from there", model: deepSeek, says: times(4, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read config.py.")
			h = append(h, turn(a.ask(h))...)
			a.ask(h)
			h = start("Read setup.py.")
			h = append(h, turn(a.ask(h))...)
			a.ask(h)
		},
	},
	{
		name: "healthy: sends two concurrent requests and continues with the second answer", model: gpt,
		loop: func(a *agent) {
			h := start("Read config.py.")
			ask := func() openai.ChatCompletionMessage { return a.ask(h) }
			m := a.together(calls("read_file"), ask, ask)
			a.ask(append(h, turn(m[1])...))
		},
	},
	{
		name: "healthy: planner and executor take turns in one conversation, each with its history", model: deepSeek, says: times(6, calls("read_file")),
		loop: func(a *agent) {
			plan, work := start("Plan it."), []msg{openai.SystemMessage("You carry plans out."), user("Do it.")}
			for range 3 {
				plan = append(plan, turn(a.ask(plan))...)
				work = append(work, turn(a.ask(work))...)
			}
		},
	},
	{
		name: "planner and executor take turns in one conversation, and the planner loses tool_calls", model: deepSeek, says: times(6, calls("read_file")),
		loop: func(a *agent) {
			plan, work := start("Plan it."), []msg{openai.SystemMessage("You carry plans out."), user("Do it.")}
			for range 2 {
				m := a.ask(plan)
				plan = append(append(plan, openai.AssistantMessage(m.Content)), replies(m)...) // BUG
				work = append(work, turn(a.ask(work))...)
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "healthy: tool messages become text when the history is passed on", model: deepSeek, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, openai.AssistantMessage("I called read_file."), user("Result: "+run(m.ToolCalls[0]))))
		},
	},
	{
		name: "the last call is of an unknown tool, in three conversations", model: deepSeek,
		says: []provider.Answer{calls("search", "teleport"), calls("search", "search", "teleport"), calls("search", "search", "search", "teleport")},
		loop: func(a *agent) {
			for i := range 3 {
				a, h := a.in(fmt.Sprintf("conversation-%d", i)), start(fmt.Sprintf("Question %d.", i))
				m := a.ask(h)
				h = append(h, m.ToParam())
				for _, c := range m.ToolCalls {
					if c.Function.Name == "search" { // BUG: no else
						h = append(h, reply(c))
					}
				}
				a.ask(h)
			}
		},
		fails: 3,
		want:  []want{{rule: "missing_tool_reply", root: "tool_skipped", confidence: "medium", n: 3}},
	},
	{
		name: "keeps the last messages and a system prompt with the time", model: gpt, says: times(5, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read all files.")
			for i := 0; ; i++ {
				h = slices.Clone(keepLast(h, 8)) // BUG
				h[0] = openai.SystemMessage(fmt.Sprintf("You are a careful assistant. It is 12:0%d.", i))
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				h = append(h, turn(m)...)
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "healthy: two users ask the same and get the same answers with the same ids, interleaved", model: deepSeek,
		says: []provider.Answer{same("call_0", "read_file"), same("call_0", "read_file"), text("It is port 80, as you can see."), text("It is port 80, as you can see.")},
		loop: func(a *agent) {
			users := [2][]msg{start("Which port?"), start("Which port?")}
			for range 2 {
				for i := range users {
					m := a.in(fmt.Sprintf("user-%d", i)).ask(users[i])
					users[i] = append(users[i], turn(m)...)
				}
			}
		},
	},
}
