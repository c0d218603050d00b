package scenario

import (
	"github.com/openai/openai-go/v3"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// thought returns an answer with reasoning.
func thought(reasoning string, s provider.Answer) provider.Answer {
	s.Reasoning = &reasoning
	return s
}

// signed returns an answer whose first call has Gemini's signature.
func signed(s provider.Answer) provider.Answer {
	s.Calls[0].Signature = "EpkECpYEAR9hdmUgYSBsb29r"
	return s
}

// whole saves an answer unchanged.
func whole(a *agent) {
	h := start("Read all files.")
	for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
		h = append(append(h, raw(load(m))), replies(m)...)
	}
}

// Agents with models that require their reasoning in the history.
var thinkingAloud = []scenario{
	{
		name: "saves the SDK's type, which has no reasoning_content", model: thinking,
		says: []provider.Answer{thought("The user wants a file.", calls("read_file"))},
		loop: healthyLoop, // BUG: in ToParam
		want: []want{{rule: "reasoning_content_missing", root: "reasoning_stripped", confidence: "high"}},
	},
	{
		name: "the same, streamed", model: thinking, says: []provider.Answer{thought("The user wants a file.", calls("read_file"))},
		loop: func(a *agent) {
			h := start("Read config.py.")
			m := assemble(a.stream(h)) // BUG: the accumulator drops reasoning_content
			a.stream(append(h, turn(m)...))
		},
		want: []want{{rule: "reasoning_content_missing", root: "reasoning_stripped", confidence: "high"}},
	},
	{
		name: "healthy: saves answers with their reasoning", model: thinking,
		says: []provider.Answer{thought("One file.", calls("read_file")), thought("", calls("search")), thought("Now all is known.", text("Done with all of it."))},
		loop: whole,
	},
	{
		name: "omits empty reasoning", model: thinking, says: []provider.Answer{thought("One file.", calls("read_file")), thought("", calls("search"))},
		loop: func(a *agent) {
			h := start("Read all files.")
			for m := a.ask(h); len(m.ToolCalls) > 0; m = a.ask(h) {
				saved := load(m)
				if saved["reasoning_content"] == "" { // BUG: omitempty
					delete(saved, "reasoning_content")
				}
				h = append(append(h, raw(saved)), replies(m)...)
			}
		},
		want: []want{{rule: "reasoning_content_missing", root: "empty_reasoning_omitted", confidence: "high"}},
	},
	{
		name: "saves calls without Gemini's signature", model: gemini3, says: []provider.Answer{signed(calls("search", "read_file"))},
		loop: healthyLoop, // BUG: in ToParam
		want: []want{{rule: "thought_signature_missing", root: "reasoning_stripped", confidence: "high"}},
	},
	{
		name: "healthy: saves calls with Gemini's signature", model: gemini3,
		says: []provider.Answer{signed(calls("search", "read_file")), signed(calls("search"))}, loop: whole,
	},
}

// Agents that switch the provider or model.
var switching = []scenario{
	{
		name: "switches to a thinking model from one without reasoning", model: deepSeek, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			h := start("Read all files.")
			h = append(h, turn(a.ask(h))...)
			a.with(thinking).ask(h) // BUG: requires reasoning_content, which does not exist
		},
		want: []want{{rule: "reasoning_content_missing", root: "provider_switched", confidence: "high"}},
	},
	{
		name: "strips the reasoning of one answer, and has none from another model", model: thinking,
		says: []provider.Answer{thought("One file.", calls("read_file")), calls("search")},
		loop: func(a *agent) {
			h := start("Read all files.")
			h = append(h, turn(a.ask(h))...) // BUG: in ToParam
			h = append(h, turn(a.with(deepSeek).ask(h))...)
			a.ask(h) // BUG: the second answer has no reasoning
		},
		want: []want{
			{rule: "reasoning_content_missing", root: "reasoning_stripped", confidence: "high"},
			{rule: "reasoning_content_missing", root: "provider_switched", confidence: "high"},
		},
	},
	{
		name: "switches from OpenAI to Gemini", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read all files.")
			h = append(h, turn(a.ask(h))...)
			a.with(gemini3).ask(h) // BUG
		},
		want: []want{{rule: "thought_signature_missing", root: "provider_switched", confidence: "high"}},
	},
	{
		name: "switches from OpenAI to Mistral", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read all files.")
			h = append(h, turn(a.ask(h))...)
			a.with(mistral).ask(h) // BUG: ids are not mapped
		},
		want: []want{{rule: "tool_call_id_format", root: "provider_switched", confidence: "high"}},
	},
	{
		name: "healthy: switches to Mistral and maps the ids", model: gpt, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := start("Read all files.")
			m := a.ask(h)
			a.ask(append(h, turn(m)...))
			m.ToolCalls[0].ID = "a1b2c3d4e"
			a.with(mistral).ask(append(h, turn(m)...))
		},
	},
	{
		name: "switches to Groq from a thinking model", model: thinking, says: []provider.Answer{thought("One file.", calls("read_file"))},
		loop: func(a *agent) {
			h := start("Read all files.")
			m := a.ask(h)
			h = append(append(h, raw(load(m))), replies(m)...)
			a.ask(h)
			a.with(llama).ask(h) // BUG: sends reasoning_content
		},
		want: []want{{rule: "reasoning_content_forbidden", root: "provider_switched", confidence: "high"}},
	},
	{
		name: "healthy: switches to Groq without the reasoning", model: thinking, says: []provider.Answer{thought("One file.", calls("read_file"))},
		loop: func(a *agent) {
			h := start("Read all files.")
			m := a.ask(h)
			a.with(llama).ask(append(h, turn(m)...))
		},
	},
	{
		name: "look-alike: only the next provider rejects a framework's field", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) {
			h := []msg{raw(row{"role": "user", "content": "Read config.py.", "timestamp": 1763726400})} // BUG
			h = append(h, turn(a.ask(h))...)
			a.with(llama).ask(h)
		},
		want: []want{{rule: "unexpected_message_field", root: "sdk_field_leak", confidence: "medium"}},
	},
	{
		name: "look-alike: stays with Mistral and makes its own ids", model: mistral, needsID: true,
		says: []provider.Answer{same("Xk3mP9qRt", "read_file")},
		loop: func(a *agent) {
			h := start("Read all files.")
			m := a.ask(h)
			m.ToolCalls[0].ID = "call_1" // BUG: consistent, but not in Mistral's format
			a.ask(append(h, turn(m)...))
		},
		want: []want{{rule: "tool_call_id_format", root: "|id_rewritten"}},
	},
	{
		name: "a gateway makes ids that its provider rejects", model: mistral, says: []provider.Answer{same("call_gw_77", "read_file")},
		loop: healthyLoop, // BUG: in the gateway
		want: []want{{rule: "tool_call_id_format", root: "id_regenerated_by_gateway", confidence: "low"}},
	},
}

// Agents without conversation ids, or with a new one.
var unlabelled = []scenario{
	{
		name: "incident 0 without a conversation id", model: deepSeek, says: []provider.Answer{calls("read_file")},
		loop: func(a *agent) { dropsCalls(a.in("")) },
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "incident 2 without a conversation id", model: deepSeek, says: times(8, calls("read_file")),
		loop: func(a *agent) { shortened(func(h []msg) []msg { return keepLast(h, 8) })(a.in("")) },
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "healthy: four interleaved tasks with the same prompt, without ids", model: deepSeek, says: times(12, calls("read_file")),
		loop: func(a *agent) {
			a = a.in("")
			tasks := [4][]msg{}
			for round := range 4 {
				for i := range tasks {
					if round == 0 {
						tasks[i] = start("Read config.py.")
					}
					if m := a.ask(tasks[i]); len(m.ToolCalls) > 0 {
						tasks[i] = append(tasks[i], turn(m)...)
					}
				}
			}
		},
	},
	{
		name: "four interleaved tasks with the same prompt, without ids; one of them saves no tool_calls", model: deepSeek, says: times(12, calls("read_file")),
		loop: func(a *agent) {
			a = a.in("")
			tasks := [4][]msg{}
			for round := range 3 {
				for i := range tasks {
					if round == 0 {
						tasks[i] = start("Read config.py.")
					}
					m := a.ask(tasks[i])
					if i == 2 && round == 1 {
						tasks[i] = append(tasks[i], openai.AssistantMessage(m.Content)) // BUG
					} else {
						tasks[i] = append(tasks[i], m.ToParam())
					}
					tasks[i] = append(tasks[i], replies(m)...)
				}
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "medium"}},
	},
	{
		name: "crashes between call and reply, and resumes under a new id", model: deepSeek, says: []provider.Answer{calls("write_file")},
		loop: func(a *agent) {
			h := start("Write notes.md.")
			h = append(h, a.ask(h).ToParam())
			a = a.restart().in("conversation-2")
			a.ask(append(h, user("Go on."))) // BUG
		},
		want: []want{{rule: "missing_tool_reply", root: "crash_between_call_and_reply", confidence: "medium"}},
	},
	{
		name: "healthy: the user's second conversation begins with the same text", model: deepSeek, says: times(2, calls("read_file")),
		loop: func(a *agent) {
			healthyLoop(a)
			healthyLoop(a.in("conversation-2"))
		},
	},
}
