package scenario

import (
	"sync"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// together makes the model wait with its answers until n requests are there.
func (w *world) together(n int, says func(provider.Asked) provider.Said) {
	var all sync.WaitGroup
	all.Add(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model = func(asked provider.Asked) provider.Said {
		all.Done()
		all.Wait()
		return says(asked)
	}
}

// alone ends together.
func (w *world) alone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model = nil
}

// Agents that put something in the wrong place, and several that write to one history.
var writing = []scenario{
	{
		name: "puts a reminder between the replies, in two conversations", model: deepSeek,
		says: []provider.Said{calls("read_file", "search"), calls("read_file", "search")},
		loop: func(a *agent) {
			for _, id := range []string{"conversation-1", "conversation-2"} {
				a, h := a.in(id), start("Task of "+id)
				m := a.ask(h)
				h = append(h, m.ToParam())
				for i, c := range m.ToolCalls {
					if i == 1 {
						h = append(h, openai.SystemMessage("Reminder: be careful with files.")) // BUG
					}
					h = append(h, reply(c))
				}
				a.ask(h)
			}
		},
		fails: 2,
		want: []want{
			{rule: "late_tool_reply", root: "interleaved_injection", confidence: "high", n: 2},
			{rule: "missing_tool_reply", root: "interleaved_injection", confidence: "high", n: 2},
		},
	},
	{
		name: "puts a reminder in the user's name behind each reply, also where another is to come", model: deepSeek,
		says: []provider.Said{calls("read_file"), calls("search"), calls("read_file", "search")},
		loop: func(a *agent) {
			h := start("Read files.")
			for {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				h = append(h, m.ToParam())
				for _, c := range m.ToolCalls {
					h = append(h, reply(c), user("Reminder: be careful with files.")) // BUG
				}
			}
		},
		fails: 1,
		want: []want{
			{rule: "late_tool_reply", root: "interleaved_injection", confidence: "medium"},
			{rule: "missing_tool_reply", root: "interleaved_injection", confidence: "medium"},
		},
	},
	{
		name: "healthy: puts a reminder behind the replies", model: deepSeek, says: times(2, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read files.")
			for {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				h = append(append(h, turn(m)...), openai.SystemMessage("Reminder: be careful with files."))
			}
		},
	},
	{
		name: "saves parallel calls as several messages, and the replies behind", model: deepSeek, says: []provider.Said{calls("read_file", "search")},
		loop: func(a *agent) {
			h := start("Read files.")
			m := a.ask(h)
			for _, c := range m.ToolCalls {
				h = append(h, assistant(c)) // BUG: one message each
			}
			a.ask(append(h, replies(m)...))
		},
		fails: 1,
		want: []want{
			{rule: "late_tool_reply", root: "calls_split_over_messages", confidence: "high"},
			{rule: "missing_tool_reply", root: "calls_split_over_messages", confidence: "high"},
		},
	},
	{
		name: "healthy: saves parallel calls as several messages, each with its reply", model: deepSeek, says: []provider.Said{calls("read_file", "search")},
		loop: func(a *agent) {
			h := start("Read files.")
			m := a.ask(h)
			for _, c := range m.ToolCalls {
				h = append(h, assistant(c), reply(c))
			}
			a.ask(h)
		},
	},
	{
		name: "two workers write one conversation", model: deepSeek,
		loop: func(a *agent) {
			a.together(2, func(provider.Asked) provider.Said { return calls("read_file") })
			shared := start("Read two files.") // BUG: both append to it
			asked, answers := [2]int{}, [2]openai.ChatCompletionMessage{}
			var both sync.WaitGroup
			for i := range 2 {
				shared = append(shared, user("Read file "+string('a'+rune(i))+"."))
				h := append([]msg(nil), shared...)
				asked[i] = len(h)
				both.Go(func() { answers[i] = a.ask(h) })
			}
			both.Wait()
			a.alone()
			shared = append(shared, answers[0].ToParam(), answers[1].ToParam())
			shared = append(append(shared, replies(answers[0])...), replies(answers[1])...)
			a.ask(shared)
		},
		fails: 1,
		want: []want{
			{rule: "late_tool_reply", root: "concurrent_writers", confidence: "high"},
			{rule: "missing_tool_reply", root: "concurrent_writers", confidence: "high"},
		},
	},
	{
		name: "a second question is asked while the tools of the first run, in a history of its own", model: deepSeek,
		loop: func(a *agent) {
			a.together(2, func(provider.Asked) provider.Said { return calls("read_file") })
			h := start("Read files.")
			var answers [2]openai.ChatCompletionMessage
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() { answers[i] = a.ask(append(h[:2:2], user("File "+string('a'+rune(i))))) })
			}
			both.Wait()
			a.alone()
			// BUG: the store keeps one history per conversation; the second worker's calls are in, the first one's replies too
			h = append(h, user("File a"), answers[0].ToParam(), user("File b"), answers[1].ToParam())
			a.ask(append(append(h, replies(answers[0])...), replies(answers[1])...))
		},
		fails: 1,
		want: []want{
			{rule: "late_tool_reply", root: "concurrent_writers", confidence: "high"},
			{rule: "missing_tool_reply", root: "concurrent_writers", confidence: "high"},
		},
	},
	{
		name: "healthy: two workers go on from one history, each with its copy", model: deepSeek,
		loop: func(a *agent) {
			a.together(2, func(provider.Asked) provider.Said { return calls("read_file") })
			h := start("Read files.")
			var answers [2]openai.ChatCompletionMessage
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() { answers[i] = a.ask(append(h[:2:2], user("File "+string('a'+rune(i))))) })
			}
			both.Wait()
			a.alone()
			for i := range 2 {
				own := append(h[:2:2], user("File "+string('a'+rune(i))))
				a.ask(append(own, turn(answers[i])...))
			}
		},
	},
	{
		name: "look-alike: two workers with histories of their own, one saves no tool_calls", model: deepSeek,
		loop: func(a *agent) {
			a.together(2, func(provider.Asked) provider.Said { return calls("read_file") })
			h := start("Read files.")
			var answers [2]openai.ChatCompletionMessage
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() { answers[i] = a.ask(append(h[:2:2], user("File "+string('a'+rune(i))))) })
			}
			both.Wait()
			a.alone()
			a.ask(append(append(h[:2:2], user("File a")), turn(answers[0])...))
			h = append(h, user("File b"), openai.AssistantMessage(answers[1].Content)) // BUG
			a.ask(append(h, replies(answers[1])...))
		},
		fails: 1,
		want:  []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "medium"}},
	},
}
