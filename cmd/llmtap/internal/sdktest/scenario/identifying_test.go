package scenario

import (
	"fmt"

	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// same is an answer whose calls all have this id.
func same(id string, names ...string) provider.Answer {
	s := calls(names...)
	for i := range s.Calls {
		s.Calls[i].ID = id
	}
	return s
}

// Agents and models that are careless with ids.
var identifying = []scenario{
	{
		name: "makes new ids for calls when it saves, and not for replies", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			answers := replies(m)
			for i := range m.ToolCalls {
				m.ToolCalls[i].ID = fmt.Sprintf("call_new_%d", i) // BUG
			}
			a.ask(append(append(h, m.ToParam()), answers...))
		},
		fails: 1,
		want: []want{
			{rule: "unknown_tool_call_id", root: "id_rewritten", confidence: "high"},
			{rule: "missing_tool_reply", root: "id_rewritten", confidence: "high"},
		},
	},
	{
		name: "answers with an id that is written in the code", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(run(m.ToolCalls[0]), "call_1"))) // BUG
		},
		fails: 1,
		want: []want{
			{rule: "unknown_tool_call_id", root: "id_rewritten", confidence: "high"},
			{rule: "missing_tool_reply", root: "id_rewritten", confidence: "high"},
		},
	},
	{
		name: "answers with the tool's name as id", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(run(m.ToolCalls[0]), m.ToolCalls[0].Function.Name))) // BUG
		},
		fails: 1,
		want: []want{
			{rule: "unknown_tool_call_id", root: "id_rewritten", confidence: "high"},
			{rule: "missing_tool_reply", root: "id_rewritten", confidence: "high"},
		},
	},
	{
		name: "mixes up result and id", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := a.ask(h)
			a.ask(append(h, m.ToParam(), openai.ToolMessage(m.ToolCalls[0].ID, "PORT=80"))) // BUG: the arguments are in the wrong order
		},
		fails: 1,
		want: []want{
			{rule: "unknown_tool_call_id", root: "id_rewritten", confidence: "high"},
			{rule: "missing_tool_reply", root: "id_rewritten", confidence: "high"},
		},
	},
	{
		name: "healthy: makes new ids for calls and replies alike", model: gpt, says: times(2, calls("read_file", "search")),
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
		name: "the model gives two calls of an answer one id", model: deepSeek, says: []provider.Answer{same("call_0", "read_file", "search")},
		loop: sound, fails: 1,
		want: []want{{rule: "duplicate_call_id_in_message", root: "duplicate_id_from_model", confidence: "high"}},
	},
	{
		name: "the model numbers its calls anew in each answer", model: deepSeek,
		says: []provider.Answer{same("call_0", "read_file"), same("call_0", "search")}, loop: sound,
		want: []want{{rule: "duplicate_call_id_in_history", root: "duplicate_id_from_model", confidence: "high"}},
	},
	{
		name: "look-alike: the agent numbers calls anew in each turn, on both sides", model: deepSeek, needsID: true, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read two files.")
			for {
				m := a.ask(h)
				if len(m.ToolCalls) == 0 {
					return
				}
				for i := range m.ToolCalls {
					m.ToolCalls[i].ID = fmt.Sprintf("call_%d", i) // BUG: the same ids in every turn
				}
				h = append(h, turn(m)...)
			}
		},
		want: []want{{rule: "duplicate_call_id_in_history", root: "id_rewritten", confidence: "medium"}},
	},
}
