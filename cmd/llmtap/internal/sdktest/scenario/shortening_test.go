package scenario

import (
	"slices"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// keepLast is incident 2: it keeps the system message and the last n messages, even if that splits a pair.
func keepLast(h []msg, n int) []msg {
	if len(h) <= n {
		return h
	}
	return append([]msg{h[0]}, h[len(h)-n+1:]...) // BUG
}

// keepTurns keeps the system message and about n messages, from the start of a turn.
func keepTurns(h []msg, n int) []msg {
	if len(h) <= n {
		return h
	}
	from := len(h) - n + 1
	for h[from].OfTool != nil {
		from--
	}
	return append([]msg{h[0]}, h[from:]...)
}

// shortened returns a loop that compacts the history before each call.
func shortened(compact func([]msg) []msg) func(*agent) {
	return func(a *agent) {
		h := start("Read all files.")
		for {
			h = compact(h)
			m := a.ask(h)
			if len(m.ToolCalls) == 0 {
				return
			}
			h = append(h, turn(m)...)
		}
	}
}

// Agents that shorten their history, with and without bugs.
var shortening = []scenario{
	{
		name: "incident 2: 13 messages are cut to the last 10, in the middle of ten replies", model: qwen,
		says: []provider.Answer{calls("extract", "extract", "extract", "extract", "extract", "extract", "extract", "extract", "extract", "extract")},
		loop: shortened(func(h []msg) []msg { return keepLast(h, 10) }),
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high", n: 9}},
	},
	{
		name: "the last items are sent, each call an item of its own, and the first calls of an answer are cut off", model: gpt,
		says: []provider.Answer{calls("read_file", "search", "search")},
		loop: func(a *agent) {
			h := start("Read all files.")
			m := a.ask(h)
			items := []any{h[1]}
			for _, c := range m.ToolCalls {
				items = append(items, c)
			}
			for _, r := range replies(m) {
				items = append(items, r)
			}
			h = h[:1]
			var group []call
			for _, it := range items[len(items)-4:] { // BUG
				if c, ok := it.(call); ok {
					group = append(group, c)
					continue
				}
				if len(group) > 0 {
					h, group = append(h, assistant(group...)), nil
				}
				h = append(h, it.(msg))
			}
			a.ask(h)
		},
		want: []want{{rule: "unknown_tool_call_id", root: "history_truncated_mid_pair", confidence: "high", n: 2}},
	},
	{
		name: "the last messages of a long conversation begin with a reply", model: deepSeek, says: times(8, calls("read_file")),
		loop: shortened(func(h []msg) []msg { return keepLast(h, 8) }),
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "a summary replaces the first messages and splits a pair", model: gpt, says: times(6, calls("read_file", "search")),
		loop: shortened(func(h []msg) []msg {
			if len(h) < 10 {
				return h
			}
			summary := openai.SystemMessage("Summary of the conversation so far: some files were read.")
			return append([]msg{h[0], summary}, h[len(h)-5:]...) // BUG: the 5 last messages begin in the middle of a turn
		}),
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high", n: 2}},
	},
	{
		name: "large replies are dropped to save tokens, their calls stay", model: deepSeek, says: times(4, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			for i := 0; ; i++ {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				if h = append(h, turn(m)...); i == 2 {
					h = append(h[:3:3], h[4:]...) // BUG: drops the long reply, but not its call
				}
			}
		},
		want: []want{{rule: "missing_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "undo removes the last two messages, one of them a reply", model: deepSeek,
		says: []provider.Answer{calls("write_file"), text("The file is written as you wished.")},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			h = append(h, turn(a.ask(h))...)
			h = append(h, a.ask(h).ToParam())
			h = h[:len(h)-2] // BUG: a turn consists of a call, its replies and the answer
			a.ask(append(h, user("No, write todo.md.")))
		},
		want: []want{{rule: "missing_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "healthy: cuts between turns", model: deepSeek, says: times(8, calls("read_file", "search")),
		loop: shortened(func(h []msg) []msg { return keepTurns(h, 8) }),
	},
	{
		name: "healthy: replaces all messages by a summary", model: qwen, says: times(6, calls("read_file")),
		loop: shortened(func(h []msg) []msg {
			if len(h) < 8 {
				return h
			}
			return []msg{h[0], user("Read all files. So far three were read and nothing was found.")}
		}),
	},
	{
		name: "healthy: shortens the text of old replies", model: gpt, says: times(4, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				for i := range h {
					if t := h[i].OfTool; t != nil {
						h[i] = openai.ToolMessage("(read)", t.ToolCallID)
					}
				}
				h = append(h, turn(m)...)
			}
		},
	},
	{
		name: "look-alike: cuts between turns, but saves no tool_calls", model: deepSeek, says: times(3, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			h = append(h, turn(a.ask(h))...)
			h = append(h, turn(a.ask(h))...)
			m := a.ask(h)
			h = append(append(h, openai.AssistantMessage(m.Content)), replies(m)...) // BUG
			a.ask(keepTurns(h, 5))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "medium"}},
	},
	{
		name: "a sanitizer removes a call without a name, but not its reply", model: gpt,
		says: []provider.Answer{calls("read_file"), {Calls: []provider.Call{{Name: "", Arguments: `{"path":"b.go"}`}}}},
		loop: func(a *agent) {
			h := start("Read two files.")
			h = append(h, turn(a.ask(h))...)
			m := a.ask(h)
			if m.ToolCalls[0].Function.Name != "" { // BUG: skips the message, but not its replies
				h = append(h, m.ToParam())
			}
			a.ask(append(h, openai.ToolMessage("error: no such tool", m.ToolCalls[0].ID)))
		},
		want: []want{{rule: "unknown_tool_call_id", root: "call_dropped_by_sanitizer", confidence: "medium"}},
	},
	{
		name: "the same with the first answer of all", model: gpt,
		says: []provider.Answer{{Calls: []provider.Call{{Name: "", Arguments: `{"path":"b.go"}`}}}},
		loop: func(a *agent) {
			h := start("Read a file.")
			m := a.ask(h)
			h = append(h, m.ToParam(), openai.ToolMessage("error: no such tool", m.ToolCalls[0].ID))
			// BUG: the repair before sending only considers assistant messages.
			h = slices.DeleteFunc(h, func(m msg) bool {
				return m.OfAssistant != nil && m.OfAssistant.ToolCalls[0].OfFunction.Function.Name == ""
			})
			a.ask(h)
		},
		want: []want{{rule: "orphan_tool_reply", root: "call_dropped_by_sanitizer", confidence: "medium"}},
	},
	{
		name: "healthy: a sanitizer removes a call without a name, and its reply", model: deepSeek,
		says: []provider.Answer{calls("read_file"), {Calls: []provider.Call{{Name: "", Arguments: `{"path":"b.go"}`}}}},
		loop: func(a *agent) {
			h := start("Read two files.")
			h = append(h, turn(a.ask(h))...)
			a.ask(h)
			a.ask(append(h, user("You named no tool. Try again.")))
		},
	},
	{
		name: "look-alike: one message with a valid call is lost, but not its reply", model: gpt, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read two files.")
			h = append(h, turn(a.ask(h))...)
			a.ask(append(h, replies(a.ask(h))...)) // BUG: does not save the answer
		},
		want: []want{{rule: "unknown_tool_call_id", root: "|tool_calls_dropped_on_save"}},
	},
}
