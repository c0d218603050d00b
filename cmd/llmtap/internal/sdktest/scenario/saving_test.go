package scenario

import (
	"encoding/json"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// dropsCalls is incident 0: it saves role and content, but no calls.
func dropsCalls(a *agent) {
	h := start("Read config.py and change the port.")
	for {
		m := a.ask(h)
		if len(m.ToolCalls) == 0 {
			return // logged in the incident: no tool calls, task finished
		}
		h = append(h, openai.AssistantMessage(m.Content)) // BUG: without m.ToolCalls
		h = append(h, replies(m)...)
	}
}

// healthyLoop has no bugs.
func healthyLoop(a *agent) {
	h := start("Read config.py and change the port.")
	for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
		h = append(h, turn(m)...)
	}
}

// Agents that lose parts of an answer on save, and healthy ones.
var saving = []scenario{
	{
		name: "incident 0: saves role and content without tool_calls", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: dropsCalls,
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "incident 0: three calls at once, OpenAI", model: gpt, says: []provider.Answer{calls("read_file", "search", "read_file")},
		loop: dropsCalls,
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high", n: 3}},
	},
	{
		name: "incident 0: the answer has text too", model: deepSeek,
		says: []provider.Answer{{Text: "I read the file first.", Calls: []provider.Call{{Name: "read_file", Arguments: `{"path":"config.py"}`}}}},
		loop: dropsCalls,
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "incident 0: one code path has the bug, after many valid turns", model: deepSeek, says: times(4, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			for i := 0; ; i++ {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				if i < 3 {
					h = append(h, m.ToParam())
				} else {
					h = append(h, openai.AssistantMessage(m.Content)) // BUG: the planner's path
				}
				h = append(h, replies(m)...)
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "incident 0: retries and new questions repeat the defect", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			h = append(append(h, openai.AssistantMessage(m.Content)), replies(m)...) // BUG
			a.ask(h)
			a.ask(h)
			a.ask(append(h, user("Are you done?")))
		},
		fails: 3,
		want:  []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "incident 0: the provider accepted it at first, then rejects it", model: deepSeek, says: times(3, calls("read_file")),
		loop: func(a *agent) {
			a.accept(true)
			h := start("Read all files.")
			for i := 0; ; i++ {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				h = append(append(h, openai.AssistantMessage(m.Content)), replies(m)...) // BUG
				a.accept(i < 2)
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high", n: 3}},
	},
	{
		name: "saves only replies, in a tool loop", model: gpt, says: times(2, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read config.py.")
			h = append(h, turn(a.ask(h))...)
			h = append(h, replies(a.ask(h))...) // BUG: without the assistant message
			a.ask(h)
		},
		want: []want{{rule: "unknown_tool_call_id", root: "tool_calls_dropped_on_save", confidence: "high", n: 2}},
	},
	{
		name: "healthy: saves everything", model: deepSeek,
		says: []provider.Answer{calls("read_file", "search"), calls("write_file"), calls("read_file")}, loop: healthyLoop,
	},
	{
		name: "healthy: saves calls with an empty content instead of null", model: gpt, says: times(2, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read two files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				h = append(append(h, assistant(m.ToolCalls...)), replies(m)...)
			}
		},
	},
	{
		name: "incident 3: arguments are parsed, and saved as an object", model: gemini2, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			stored := load(m)
			for _, c := range stored["tool_calls"].([]any) {
				f := c.(row)["function"].(row)
				var args any
				_ = json.Unmarshal([]byte(f["arguments"].(string)), &args)
				f["arguments"] = args // BUG: the database has a JSON column
			}
			a.ask(append(append(h, raw(stored)), replies(m)...))
		},
		want: []want{{rule: "arguments_not_string", root: "arguments_reserialised_as_object", confidence: "high"}},
	},
	{
		name: "incident 3: the object comes back from the database in a later process, OpenAI", model: gpt, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			h = append(h, turn(m)...)
			a.ask(h) // valid in memory
			a = a.restart()
			stored := load(m)
			f := stored["tool_calls"].([]any)[0].(row)["function"].(row)
			f["arguments"] = row{"path": "file_1.go"} // BUG: read from a JSON column
			a.ask([]msg{h[0], h[1], raw(stored), h[3], user("And today?")})
		},
		want: []want{{rule: "arguments_not_string", root: "arguments_reserialised_as_object", confidence: "high"}},
	},
	{
		name: "arguments are encoded twice", model: gpt, accepted: true, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			c := m.ToolCalls[0]
			b, _ := json.Marshal(c.Function.Arguments) // BUG: it is encoded already
			c.Function.Arguments = string(b)
			a.ask(append(h, assistant(c), reply(c)))
		},
		want: []want{{rule: "arguments_invalid_json", root: "arguments_sent_as_string|"}}, // a shape hides the inner string
	},
	{
		name: "healthy: arguments are parsed and encoded again, with other white space", model: gpt,
		says: []provider.Answer{{Calls: []provider.Call{{Name: "search", Arguments: `{ "path": "a.go",  "deep": true }`}}}},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			c := m.ToolCalls[0]
			var args map[string]any
			_ = json.Unmarshal([]byte(c.Function.Arguments), &args)
			b, _ := json.Marshal(args)
			c.Function.Arguments = string(b)
			a.ask(append(h, assistant(c), reply(c)))
		},
	},
	{
		name: "look-alike: the object is not what the model wrote", model: gpt, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			stored := load(m)
			f := stored["tool_calls"].([]any)[0].(row)["function"].(row)
			f["arguments"] = row{"redacted": true} // BUG: a filter replaces the arguments by its own object
			a.ask(append(append(h, raw(stored)), replies(m)...))
		},
		want: []want{{rule: "arguments_not_string"}},
	},
	{
		name: "no history: the object is in a turn before the recording", model: gpt,
		loop: func(a *agent) {
			h := append(start("What is new?"),
				raw(row{"role": "assistant", "content": "", "tool_calls": []row{
					{"id": "call_old", "type": "function", "function": row{"name": "search", "arguments": row{"path": "a.go"}}},
				}}),
				openai.ToolMessage("nothing", "call_old"), user("And today?"))
			a.ask(h)
		},
		want: []want{{rule: "arguments_not_string", root: noHistory, confidence: "low"}},
	},
	{
		name: "no history: a call from before the recording has no reply", model: deepSeek, says: []provider.Answer{calls("search")},
		loop: func(a *agent) {
			h := start("What is new?")
			h = append(h, a.ask(h).ToParam(), user("And?")) // BUG, but whose?
			a.unseen()
			a.ask(h)
		},
		want: []want{{rule: "missing_tool_reply", root: noHistory, confidence: "low"}},
	},
	{
		name: "incident 3: a history from the database, tool rows without the calls they answer", model: gemini2,
		loop: func(a *agent) {
			// The rows of an earlier, unrecorded run: role, content and the ids of tool rows.
			h := []msg{
				openai.SystemMessage("You are a careful assistant. Today is Friday."), user("What is new?"),
				raw(row{"role": "assistant", "content": "I look it up."}),
				openai.ToolMessage("three new things", "function-call-1001"), // BUG: its call is not in this request
				raw(row{"role": "assistant", "content": "Three new things."}), user("And today?"),
			}
			a.ask(h)
		},
		want: []want{{rule: "orphan_tool_reply", root: "replayed_history_without_binding", confidence: "medium"}},
	},
	{
		name: "incident 3: the same of an earlier run that was recorded", model: gemini2,
		says: []provider.Answer{calls("search"), text("Three new things were found in the library.")},
		loop: func(a *agent) {
			h := start("What is new?")
			m := a.ask(h)
			h = append(h, turn(m)...)
			said := a.ask(h)
			a = a.restart()
			a.ask([]msg{
				openai.SystemMessage("You are a careful assistant. Today is Friday."), user("What is new?"),
				h[3], // BUG: the tool row without the assistant message with the call
				said.ToParam(), user("And today?"),
			})
		},
		want: []want{{rule: "orphan_tool_reply", root: "replayed_history_without_binding", confidence: "medium"}},
	},
	{
		name: "healthy: a history from the database without its tool messages", model: gemini2,
		says: []provider.Answer{calls("search"), text("Three new things were found in the library.")},
		loop: func(a *agent) {
			h := start("What is new?")
			h = append(h, turn(a.ask(h))...)
			said := a.ask(h)
			a = a.restart()
			a.ask([]msg{openai.SystemMessage("You are a careful assistant. Today is Friday."), h[1], said.ToParam(), user("And today?")})
		},
	},
	{
		name: "no history: recording began in the middle of the conversation", model: deepSeek, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read two files.")
			h = append(h, turn(a.ask(h))...)
			m := a.ask(h)
			a.unseen()
			a.ask(append(append(h, openai.AssistantMessage(m.Content)), replies(m)...)) // BUG, but the cause is unknown
		},
		want: []want{{rule: "orphan_tool_reply", root: noHistory, confidence: "low"}},
	},
	{
		name: "saves calls without their ids", model: gpt, needsID: true, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			c := m.ToolCalls[0]
			h = append(h, raw(row{"role": "assistant", "content": "", "tool_calls": []row{
				{"type": "function", "function": row{"name": c.Function.Name, "arguments": c.Function.Arguments}}, // BUG: no id
			}}))
			a.ask(append(h, raw(row{"role": "tool", "content": run(c)}))) // BUG: no tool_call_id
		},
		want: wants("id_dropped_on_save", "high", "malformed_tool_call", "missing_tool_call_id"),
	},
	{
		name: "saves replies without the id of their call", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			h = append(h, m.ToParam())
			a.ask(append(h, raw(row{"role": "tool", "content": run(m.ToolCalls[0])}))) // BUG: no tool_call_id
		},
		want: wants("id_dropped_on_save", "high", "missing_tool_call_id", "missing_tool_reply"),
	},
	{
		name: "a field of a framework in every message", model: llama, says: []provider.Answer{calls("read_file"), text("ok"), calls("read_file")},
		loop: func(a *agent) {
			for _, id := range []string{"conversation-1", "conversation-2", "conversation-3"} {
				h := []msg{
					raw(row{"role": "system", "content": "You are a careful assistant.", "metadata": row{"source": "framework"}}), // BUG
					raw(row{"role": "user", "content": "Read config.py.", "metadata": row{"source": "framework"}}),
				}
				a.in(id).ask(h)
			}
		},
		fails: 3,
		want:  []want{{rule: "unexpected_message_field", root: "sdk_field_leak", confidence: "medium", n: 3}},
	},
}
