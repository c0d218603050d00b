package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// by names targets: variants of a dialect, or all of it where none is named.
type by map[facts.Dialect][]facts.Variant

func (b by) has(t facts.Target) bool {
	variants, ok := b[t.Dialect]
	return ok && (len(variants) == 0 || slices.Contains(variants, t.Variant))
}

// reject is the severity of a defect that only these targets were seen to reject. All others are said to accept it, or
// nobody knows.
func (b by) reject(t facts.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Lenient
}

// rejectOrStyle is the severity of a defect that these targets reject and all others take as it is.
func (b by) rejectOrStyle(t facts.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Style
}

// openAIs and anthropics are the variants that share one implementation. What a proxy or another maker's copy of their
// API does is not known.
var (
	openAIs    = []facts.Variant{facts.OpenAI, facts.Azure}
	anthropics = []facts.Variant{facts.AnthropicAPI, facts.VertexAnthropic}
)

// isChat reports whether t reads chat completions: calls in tool_calls, replies in messages of their own.
func isChat(t facts.Target) bool { return t.Dialect == facts.OpenAIChat || t.Dialect == facts.Cohere }

// inBlocks reports whether t has calls and replies as parts of messages.
func inBlocks(t facts.Target) bool {
	return t.Dialect == facts.Anthropic || t.Dialect == facts.Bedrock || t.Dialect == facts.Gemini
}

// rejectedBy is by{facts.OpenAIChat: variants}.reject.
func rejectedBy(variants ...facts.Variant) func(facts.Target) check.Severity {
	return by{facts.OpenAIChat: variants}.reject
}
