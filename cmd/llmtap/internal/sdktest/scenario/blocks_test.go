package scenario

import (
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// use returns an answer with text and calls, with ids in Claude's format.
func use(words string, ids ...string) provider.Answer {
	s := provider.Answer{Text: words}
	for _, id := range ids {
		s.Calls = append(s.Calls, provider.Call{ID: "toolu_01" + id, Name: "read_file", Arguments: `{"path":"` + id + `.go"}`})
	}
	return s
}

// Agents that use Anthropic's format: replies are blocks of a user message.
var blocks = []scenario{
	{
		name: "Claude, incident 0: saves the text of an answer without its tool_use", model: claude, says: []provider.Answer{use("I read it.", "A")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			m := c.ask(h)
			h = append(h, anthropic.NewAssistantMessage(textOf(m)...)) // BUG: only blocks of text
			c.ask(append(h, anthropic.NewUserMessage(results(m)...)))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high"}},
	},
	{
		name: "Claude, incident 0, streamed, after a valid turn", model: claude,
		says: []provider.Answer{use("I read the first.", "A"), use("And the two others.", "B", "C")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read three files.")}
			m := c.stream(h)
			h = append(h, m.ToParam(), anthropic.NewUserMessage(results(m)...))
			m = c.stream(h)
			h = append(h, anthropic.NewAssistantMessage(textOf(m)...)) // BUG
			c.stream(append(h, anthropic.NewUserMessage(results(m)...)))
		},
		want: []want{{rule: "orphan_tool_reply", root: "tool_calls_dropped_on_save", confidence: "high", n: 2}},
	},
	{
		name: "Claude, healthy: saves all blocks, streamed", model: claude,
		says: []provider.Answer{thought("Three files.", use("I read the first.", "A")), use("", "B", "C")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read three files.")}
			for {
				m := c.stream(h)
				h = append(h, m.ToParam())
				list := results(m)
				if len(list) == 0 {
					return
				}
				h = append(h, anthropic.NewUserMessage(list...))
			}
		},
	},
	{
		name: "Claude: a call that needs approval is never run", model: claude, says: []provider.Answer{use("I do it all.", "A", "B", "C")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read three files.")}
			m := c.ask(h)
			list := results(m)
			h = append(h, m.ToParam(), anthropic.NewUserMessage(list[0], list[2])) // BUG: the second is not run
			c.ask(h)
		},
		want: []want{{rule: "missing_tool_reply", root: "tool_skipped", confidence: "medium"}},
	},
	{
		name: "Claude: the user writes while a tool runs, and its result comes later", model: claude, says: []provider.Answer{use("I read it.", "A")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			m := c.ask(h)
			h = append(h, m.ToParam(), asks("Never mind."), anthropic.NewAssistantMessage(anthropic.NewTextBlock("As you wish."))) // BUG
			c.ask(append(h, anthropic.NewUserMessage(results(m)...)))
		},
		want: wants("user_interrupt", "medium", "missing_tool_reply", "late_tool_reply"),
	},
	{
		name: "Claude: keeps the last messages, the first of them a result", model: claude,
		says: []provider.Answer{use("One.", "A"), use("Two.", "B"), use("Three.", "C")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read three files.")}
			for {
				if len(h) > 6 {
					h = h[len(h)-5:] // BUG: begins with a tool_result
				}
				m := c.ask(h)
				list := results(m)
				if len(list) == 0 {
					return
				}
				h = append(h, m.ToParam(), anthropic.NewUserMessage(list...))
			}
		},
		want: []want{{rule: "orphan_tool_reply", root: "history_truncated_mid_pair", confidence: "high"}},
	},
	{
		name: "Claude: a result is sent twice by one process", model: claude, says: []provider.Answer{use("I read it.", "A")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			m := c.ask(h)
			list := append(results(m), anthropic.NewToolResultBlock("toolu_01A", "read again", false)) // BUG
			c.ask(append(h, m.ToParam(), anthropic.NewUserMessage(list...)))
		},
		want: []want{{rule: "duplicate_tool_reply", root: "duplicate_reply", confidence: "medium"}},
	},
	{
		name: "Claude: saves text and tool_use without the thinking before them", model: claude, accepted: true,
		says: []provider.Answer{thought("One file is enough.", use("I read it.", "A"))},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			c.params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
			m := c.ask(h)
			saved := m.ToParam()
			saved.Content = saved.Content[1:] // BUG: drops thinking
			c.ask(append(h, saved, anthropic.NewUserMessage(results(m)...)))
		},
		want: []want{{rule: "thinking_block_missing", root: "reasoning_stripped", confidence: "high"}},
	},
	{
		name: "Claude: saves thinking without its signature", model: claude, accepted: true,
		says: []provider.Answer{thought("One file is enough.", use("I read it.", "A"))},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			c.params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
			m := c.ask(h)
			saved := m.ToParam()
			unsigned := param.Override[anthropic.ThinkingBlockParam](map[string]any{"type": "thinking", "thinking": "One file is enough."}) // BUG
			saved.Content[0].OfThinking = &unsigned
			c.ask(append(h, saved, anthropic.NewUserMessage(results(m)...)))
		},
		want: []want{{rule: "reasoning_signature_invalid", root: "field_lost_on_save", confidence: "high"}},
	},
	{
		name: "Claude: cleans the text of signed thinking", model: claude, accepted: true,
		says: []provider.Answer{thought("One file is enough.", use("I read it.", "A"))},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			c.params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
			m := c.ask(h)
			saved := m.ToParam()
			saved.Content[0].OfThinking.Thinking = "One file" // BUG
			c.ask(append(h, saved, anthropic.NewUserMessage(results(m)...)))
		},
		want: []want{{rule: "reasoning_signature_invalid", root: "reasoning_edited", confidence: "high"}},
	},
	{
		name: "Claude, healthy: the question follows the results in one message", model: claude, says: []provider.Answer{use("I read it.", "A")},
		loop: func(a *agent) {
			c, h := a.claude(), []turnOf{asks("Read config.py.")}
			m := c.ask(h)
			list := append(results(m), anthropic.NewTextBlock("And tell me what it says."))
			c.ask(append(h, m.ToParam(), anthropic.NewUserMessage(list...)))
		},
	},
}
