package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// isSystem reports whether m is an instruction of the system or the developer.
func isSystem(m *facts.Message) bool {
	return m.Role == facts.RoleSystem || m.Role == facts.RoleDeveloper
}

// firstTurn is the first message that is no instruction; len(messages) when there is none.
func firstTurn(p *check.Pass) int {
	for i := range p.Request.Messages {
		if !isSystem(&p.Request.Messages[i]) {
			return i
		}
	}
	return len(p.Request.Messages)
}

// currentTurn is the first message after the last that the user wrote: what the model did since then, in a loop of
// calls and replies, belongs to one turn. A user message with replies and text starts a turn too.
func currentTurn(p *check.Pass) int {
	for i := len(p.Request.Messages) - 1; i >= 0; i-- {
		m := &p.Request.Messages[i]
		if m.Role == facts.RoleUser && (len(m.Replies) == 0 || m.Parts&facts.PartText != 0) {
			return i + 1
		}
	}
	return 0
}
