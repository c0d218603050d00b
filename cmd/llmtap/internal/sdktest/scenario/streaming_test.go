package scenario

import (
	"encoding/json"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// long returns an answer with arguments that are streamed in pieces.
func long() provider.Answer {
	return provider.Answer{Calls: []provider.Call{{
		Name: "write_file", Arguments: `{"path":"notes.md","text":"first line, second line, third line, fourth line"}`,
	}}}
}

// byIndex joins the fragments of streamed calls by index only.
func byIndex(chunks []openai.ChatCompletionChunk) (list []call) {
	for _, c := range chunks {
		if len(c.Choices) == 0 {
			continue
		}
		for _, d := range c.Choices[0].Delta.ToolCalls {
			if int(d.Index) >= len(list) {
				list = append(list, call{ID: d.ID})
				list[len(list)-1].Function.Name = d.Function.Name
			}
			list[d.Index].Function.Arguments += d.Function.Arguments
		}
	}
	return list
}

// byID joins fragments without reliable indexes: a new id is a new call.
func byID(chunks []openai.ChatCompletionChunk) (list []call) {
	for _, c := range chunks {
		if len(c.Choices) == 0 {
			continue
		}
		for _, d := range c.Choices[0].Delta.ToolCalls {
			if d.ID != "" {
				list = append(list, call{ID: d.ID})
				list[len(list)-1].Function.Name = d.Function.Name
			}
			list[len(list)-1].Function.Arguments += d.Function.Arguments
		}
	}
	return list
}

// answered returns h with calls and their replies.
func answered(h []msg, list []call) []msg {
	h = append(h, assistant(list...))
	for _, c := range list {
		if !json.Valid([]byte(c.Function.Arguments)) {
			h = append(h, openai.ToolMessage("error: the arguments are not JSON", c.ID))
			continue
		}
		h = append(h, reply(c))
	}
	return h
}

// Agents and models with bugs in streams and arguments. Qwen checks the arguments in a history.
var streaming = []scenario{
	{
		name: "incident 0, streamed", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := assemble(a.stream(h))
			h = append(h, openai.AssistantMessage(m.Content)) // BUG: without m.ToolCalls
			a.stream(append(h, replies(m)...))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "healthy: streamed", model: deepSeek, says: []provider.Answer{calls("read_file", "search"), long()},
		loop: func(a *agent) {
			h := start("Read config.py.")
			for m := assemble(a.stream(h)); len(m.ToolCalls) > 0; m = assemble(a.stream(h)) {
				h = append(h, turn(m)...)
			}
		},
	},
	{
		name: "saves a call from a truncated stream", model: qwen,
		says: []provider.Answer{func() provider.Answer { s := long(); s.Cut = 4; return s }()},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			list := byIndex(a.stream(h)) // BUG: does not check for the end
			a.ask(answered(h, list))
		},
		want: []want{{rule: "arguments_invalid_json", root: "arguments_truncated_stream", confidence: "high"}},
	},
	{
		name: "healthy: a stream is truncated, and the agent repeats the call", signals: []string{"stream_cut"}, model: qwen,
		says: []provider.Answer{func() provider.Answer { s := long(); s.Cut = 4; return s }(), long()},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			list := byIndex(a.stream(h))
			if !json.Valid([]byte(list[0].Function.Arguments)) {
				list = byIndex(a.stream(h))
			}
			a.ask(answered(h, list))
		},
	},
	{
		name: "saves a call truncated by max_tokens", model: qwen,
		says: []provider.Answer{{Finish: "length", Calls: []provider.Call{{Name: "write_file", Arguments: `{"path":"notes.md","text":"first li`}}}},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			m := a.ask(h) // BUG: ignores the finish reason
			a.ask(answered(h, m.ToolCalls))
		},
		want: []want{{rule: "arguments_invalid_json", root: "arguments_truncated_stream", confidence: "high"}},
	},
	{
		name: "joins two calls of a stream with index 0 into one", model: qwen,
		says: []provider.Answer{func() provider.Answer { s := calls("read_file", "read_file"); s.OneIndex = true; return s }()},
		loop: func(a *agent) {
			h := start("Read two files.")
			list := byIndex(a.stream(h)) // BUG: a new id is a new call, even with the same index
			a.ask(answered(h, list))
		},
		want: []want{{rule: "arguments_invalid_json", root: "stream_assembly_bug", confidence: "high"}},
	},
	{
		name: "joins two calls of a valid stream into one", model: qwen, says: []provider.Answer{calls("read_file", "read_file")},
		loop: func(a *agent) {
			h := start("Read two files.")
			list := byID(a.stream(h))
			for _, c := range list[1:] {
				list[0].Function.Arguments += c.Function.Arguments // BUG: keeps only one call
			}
			a.ask(answered(h, list[:1]))
		},
		want: []want{{rule: "arguments_invalid_json", root: "stream_assembly_bug", confidence: "high"}},
	},
	{
		name: "healthy: a stream whose indexes are all 0 is joined by ids", model: qwen,
		says: []provider.Answer{func() provider.Answer { s := calls("read_file", "read_file"); s.OneIndex = true; return s }()},
		loop: func(a *agent) {
			h := start("Read two files.")
			a.ask(answered(h, byID(a.stream(h))))
		},
	},
	{
		name: "takes the id of a streamed call from its first fragment, which has none", model: gpt, needsID: true,
		says: []provider.Answer{func() provider.Answer { s := calls("read_file"); s.LateID = true; return s }()},
		loop: func(a *agent) {
			h := start("Read config.py.")
			a.ask(answered(h, byIndex(a.stream(h)))) // BUG: in byIndex
		},
		want: wants("stream_assembly_bug|id_dropped_on_save", "high", "malformed_tool_call", "missing_tool_call_id"),
	},
	{
		name: "saves invalid arguments of the model", model: qwen,
		says: []provider.Answer{{Calls: []provider.Call{{Name: "write_file", Arguments: `{"path": notes.md}`}}}},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			m := a.ask(h)
			a.ask(answered(h, m.ToolCalls)) // BUG: saves invalid JSON
		},
		want: []want{{rule: "arguments_invalid_json", root: "malformed_by_model", confidence: "high"}},
	},
	{
		name: "the same, streamed, and kept for three turns", model: qwen,
		says: []provider.Answer{{Calls: []provider.Call{{Name: "write_file", Arguments: `{"path": notes.md}`}}}},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			h = answered(h, byIndex(a.stream(h))) // BUG
			a.stream(h)
			a.stream(append(h, user("Well?")))
			a.stream(append(h, user("Well?"), user("Hello?")))
		},
		fails: 3,
		want:  []want{{rule: "arguments_invalid_json", root: "malformed_by_model", confidence: "high"}},
	},
	{
		name: "healthy: invalid arguments of the model are saved as {}", model: qwen,
		says: []provider.Answer{{Calls: []provider.Call{{Name: "write_file", Arguments: `{"path": notes.md}`}}}},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			c := a.ask(h).ToolCalls[0]
			c.Function.Arguments = "{}"
			a.ask(append(h, assistant(c), openai.ToolMessage("error: your arguments were not JSON", c.ID)))
		},
	},
	{
		name: "the agent truncates valid arguments", model: qwen, says: []provider.Answer{long()},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			c := a.ask(h).ToolCalls[0]
			c.Function.Arguments = c.Function.Arguments[:20] // BUG: to save tokens
			a.ask(answered(h, []call{c}))
		},
		want: []want{{rule: "arguments_invalid_json", root: "arguments_truncated_on_save|"}}, // a shape does not say how they end
	},
}
