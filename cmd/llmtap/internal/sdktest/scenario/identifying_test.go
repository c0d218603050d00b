package scenario

import (
	"fmt"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// same returns an answer whose calls all have this id.
func same(id string, names ...string) provider.Answer {
	s := calls(names...)
	for i := range s.Calls {
		s.Calls[i].ID = id
	}
	return s
}

// Agents and models with bugs in ids.
var identifying = []scenario{
	{
		name: "makes new ids for saved calls, but not for replies", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			answers := replies(m)
			for i := range m.ToolCalls {
				m.ToolCalls[i].ID = fmt.Sprintf("call_new_%d", i) // BUG
			}
			a.ask(append(append(h, m.ToParam()), answers...))
		},
		want: wants("id_rewritten", "high", "unknown_tool_call_id", "missing_tool_reply"),
	},
	{
		name: "answers with a hard-coded id", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(run(m.ToolCalls[0]), "call_1"))) // BUG
		},
		want: wants("id_rewritten", "high", "unknown_tool_call_id", "missing_tool_reply"),
	},
	{
		name: "answers with the tool's name as id", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(run(m.ToolCalls[0]), m.ToolCalls[0].Function.Name))) // BUG
		},
		want: wants("id_rewritten", "high", "unknown_tool_call_id", "missing_tool_reply"),
	},
	{
		name: "swaps result and id", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(m.ToolCalls[0].ID, "PORT=80"))) // BUG: swapped arguments
		},
		want: wants("id_rewritten", "high", "unknown_tool_call_id", "missing_tool_reply"),
	},
	{
		name: "healthy: makes new ids for both calls and replies", model: gpt, says: times(2, calls("read_file", "search")),
		loop: func(a *agent) {
			h := start("Read config.py.")
			for n := 0; ; n++ {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				for i := range m.ToolCalls {
					m.ToolCalls[i].ID = fmt.Sprintf("call_%d_%d", n, i)
				}
				h = append(h, turn(m)...)
			}
		},
	},
	{
		name: "the model gives two calls of an answer the same id", model: deepSeek, says: []provider.Answer{same("call_0", "read_file", "search")},
		loop: healthyLoop,
		want: []want{{rule: "duplicate_call_id_in_message", root: "duplicate_id_from_model", confidence: "high"}},
	},
	{
		name: "the model restarts the numbering of calls in each answer", model: deepSeek, accepted: true,
		says: []provider.Answer{same("call_0", "read_file"), same("call_0", "search")}, loop: healthyLoop,
		want: []want{{rule: "duplicate_call_id_in_history", root: "duplicate_id_from_model", confidence: "high"}},
	},
	{
		name: "look-alike: the agent restarts the numbering of calls and replies in each turn", model: deepSeek, accepted: true, needsID: true, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read two files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				for i := range m.ToolCalls {
					m.ToolCalls[i].ID = fmt.Sprintf("call_%d", i) // BUG: the same ids in every turn
				}
				h = append(h, turn(m)...)
			}
		},
		want: []want{{rule: "duplicate_call_id_in_history", root: "id_rewritten", confidence: "medium"}},
	},
}
