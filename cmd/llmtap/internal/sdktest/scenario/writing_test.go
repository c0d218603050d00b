package scenario

import (
	"slices"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// together makes overlapping calls: each is sent when the previous one has reached the provider, and none is answered before all
// are sent. Answers arrive in the same order, and are the same.
func (w *world) together(said provider.Answer, asks ...func() openai.ChatCompletionMessage) []openai.ChatCompletionMessage {
	w.t.Helper()
	arrived, release := make(chan int), make([]chan struct{}, len(asks))
	for i := range release {
		release[i] = make(chan struct{})
	}
	w.collect()
	next, done := 0, int(w.whole) // next is guarded by w.mu
	w.setModel(func(provider.Request) provider.Answer {
		w.mu.Lock()
		i := next
		next++
		w.mu.Unlock()
		arrived <- i
		<-release[i]
		return said
	})
	defer w.setModel(nil)
	answers, ended := make([]openai.ChatCompletionMessage, len(asks)), make(chan int, len(asks))
	for i, ask := range asks {
		go func() {
			answers[i] = ask()
			ended <- i
		}()
		select {
		case <-arrived:
		case <-ended:
			w.t.Fatal("a call was not answered by the model")
		}
		w.take()
	}
	for i := range asks {
		close(release[i])
		<-ended
		for ; w.whole <= int64(done+i); w.whole++ {
			<-w.stored
		}
		w.take()
	}
	return answers
}

func (w *world) setModel(m provider.Model) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model = m
}

// Agents that insert messages in the wrong place, and several that write to one history.
var writing = []scenario{
	{
		name: "saves the replies before their calls, in a tool loop", model: gpt, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read config.py.")
			h = append(h, turn(a.ask(h))...)
			m := a.ask(h)
			h = append(append(h, replies(m)...), m.ToParam()) // BUG
			a.ask(h)
		},
		want: wants("history_reordered", "high", "tool_reply_before_call", "missing_tool_reply"),
	},
	{
		name: "puts a reminder between the replies, in two conversations", model: deepSeek,
		says: []provider.Answer{calls("read_file", "search"), calls("read_file", "search")},
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
		name: "puts a user message with a reminder after each reply, even before another reply", model: deepSeek,
		says: []provider.Answer{calls("read_file"), calls("search"), calls("read_file", "search")},
		loop: func(a *agent) {
			h := start("Read files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				h = append(h, m.ToParam())
				for _, c := range m.ToolCalls {
					h = append(h, reply(c), user("Reminder: be careful with files.")) // BUG
				}
			}
		},
		want: wants("interleaved_injection", "medium", "late_tool_reply", "missing_tool_reply"),
	},
	{
		name: "healthy: puts a reminder after the replies", model: deepSeek, says: times(2, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				h = append(append(h, turn(m)...), openai.SystemMessage("Reminder: be careful with files."))
			}
		},
	},
	{
		name: "saves parallel calls as several messages, followed by the replies", model: deepSeek, says: []provider.Answer{calls("read_file", "search")},
		loop: func(a *agent) {
			h := start("Read files.")
			m := a.ask(h)
			for _, c := range m.ToolCalls {
				h = append(h, assistant(c)) // BUG: one message per call
			}
			a.ask(append(h, replies(m)...))
		},
		want: wants("calls_split_over_messages", "high", "late_tool_reply", "missing_tool_reply"),
	},
	{
		name: "healthy: saves parallel calls as several messages, each with its reply", model: deepSeek, says: []provider.Answer{calls("read_file", "search")},
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
		name: "two workers write one conversation", model: deepSeek, needsID: true,
		loop: func(a *agent) {
			shared := start("Read two files.") // BUG: both append to it
			worker := func(task string) func() openai.ChatCompletionMessage {
				shared = append(shared, user(task))
				h := slices.Clone(shared)
				return func() openai.ChatCompletionMessage { return a.ask(h) }
			}
			m := a.together(calls("read_file"), worker("Read a.go."), worker("Read b.go."))
			shared = append(shared, m[0].ToParam(), m[1].ToParam())
			shared = append(append(shared, replies(m[0])...), replies(m[1])...)
			a.ask(shared)
		},
		want: wants("concurrent_writers", "high", "late_tool_reply", "missing_tool_reply"),
	},
	{
		name: "two processes continue one conversation, and the store keeps the messages of both", model: deepSeek, needsID: true,
		loop: func(a *agent) {
			b, h := a.process(deepSeek), start("Read files.")
			m := a.together(calls("read_file"), forked(a, h, "File a."), forked(b, h, "File b."))
			// BUG: rows are in the order of arrival, not of turns.
			h = append(h, user("File a."), user("File b."), m[0].ToParam(), m[1].ToParam())
			b.ask(append(append(h, replies(m[0])...), replies(m[1])...))
		},
		want: wants("concurrent_writers", "high", "late_tool_reply", "missing_tool_reply"),
	},
	{
		name: "healthy: two workers continue one history, each with its own copy", model: deepSeek,
		loop: func(a *agent) {
			h := start("Read files.")
			m := a.together(calls("read_file"), forked(a, h, "File a."), forked(a, h, "File b."))
			a.ask(slices.Concat(h, []msg{user("File a.")}, turn(m[0])))
			a.ask(slices.Concat(h, []msg{user("File b.")}, turn(m[1])))
		},
	},
	{
		name: "healthy: a second process waits and continues with the messages of the first", model: deepSeek,
		says: []provider.Answer{calls("read_file"), text("The first file is read, and all is well."), calls("read_file")},
		loop: func(a *agent) {
			b, h := a.process(deepSeek), start("Read files.")
			h = append(h, turn(a.ask(h))...)
			h = append(h, a.ask(h).ToParam(), user("Now b.go."))
			a.collect()
			h = append(h, turn(b.ask(h))...)
			b.ask(h)
		},
	},
	{
		name: "look-alike: two workers with separate histories, one saves no tool_calls", model: deepSeek,
		loop: func(a *agent) {
			h := start("Read files.")
			m := a.together(calls("read_file"), forked(a, h, "File a."), forked(a, h, "File b."))
			a.ask(slices.Concat(h, []msg{user("File a.")}, turn(m[0])))
			h = append(h, user("File b."), openai.AssistantMessage(m[1].Content)) // BUG
			a.ask(append(h, replies(m[1])...))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "medium"}},
	},
}

// forked makes a call with a copy of h and its own task.
func forked(a *agent, h []msg, task string) func() openai.ChatCompletionMessage {
	return func() openai.ChatCompletionMessage { return a.ask(slices.Concat(h, []msg{user(task)})) }
}
