package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// isSystem reports whether m is a system or developer message.
func isSystem(m *facts.Message) bool {
	return m.Role.Instructs()
}

// firstTurn returns the index of the first message that is not a system message, or len(messages) if there is none.
func firstTurn(p *check.Pass) int {
	for i := range p.Request.Messages {
		if !isSystem(&p.Request.Messages[i]) {
			return i
		}
	}
	return len(p.Request.Messages)
}

// currentTurn returns the index after the last message that the user wrote. The model's loop of calls and replies since then is
// one turn. A user message with both replies and text also starts a turn.
func currentTurn(p *check.Pass) int {
	for i := len(p.Request.Messages) - 1; i >= 0; i-- {
		m := &p.Request.Messages[i]
		if m.Role == facts.RoleUser && (len(m.Replies) == 0 || m.Parts&facts.PartText != 0) {
			return i + 1
		}
	}
	return 0
}
