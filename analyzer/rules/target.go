package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/wire"
)

// by names targets: variants of a dialect, or all of it where none is named.
type by map[wire.Dialect][]wire.Variant

func (b by) has(t wire.Target) bool {
	variants, ok := b[t.Dialect]
	return ok && (len(variants) == 0 || slices.Contains(variants, t.Variant))
}

// reject is the severity of a defect that only these targets were seen to reject. All others are said to accept it, or
// nobody knows.
func (b by) reject(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Lenient
}

// rejectOrStyle is the severity of a defect that these targets reject and all others take as it is.
func (b by) rejectOrStyle(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Style
}

// openAIs and anthropics are the variants that share one implementation. What a proxy or another maker's copy of their
// API does is not known.
var (
	openAIs    = []wire.Variant{wire.OpenAI, wire.Azure}
	anthropics = []wire.Variant{wire.AnthropicAPI, wire.VertexAnthropic}
)

// isChat reports whether t reads chat completions: calls in tool_calls, replies in messages of their own.
func isChat(t wire.Target) bool { return t.Dialect == wire.OpenAIChat || t.Dialect == wire.Cohere }

// inBlocks reports whether t has calls and replies as parts of messages.
func inBlocks(t wire.Target) bool {
	return t.Dialect == wire.Anthropic || t.Dialect == wire.Bedrock || t.Dialect == wire.Gemini
}

// rejectedBy is by{wire.OpenAIChat: variants}.reject.
func rejectedBy(variants ...wire.Variant) func(wire.Target) check.Severity {
	return by{wire.OpenAIChat: variants}.reject
}
