package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/wire"
)

// by is a set of targets: some variants of a dialect, or all of them if none is listed.
type by map[wire.Dialect][]wire.Variant

func (b by) has(t wire.Target) bool {
	variants, ok := b[t.Dialect]
	return ok && (len(variants) == 0 || slices.Contains(variants, t.Variant))
}

// reject returns the severity of a defect that only these targets were seen to reject. All others accept it, or are
// unknown.
func (b by) reject(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Lenient
}

// rejectOrStyle returns the severity of a defect that these targets reject and all others accept.
func (b by) rejectOrStyle(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Style
}

// openAIs and anthropics are the variants that share one implementation. The behaviour of a proxy or of another
// maker's copy of their API is unknown.
var (
	openAIs    = []wire.Variant{wire.OpenAI, wire.Azure}
	anthropics = []wire.Variant{wire.AnthropicAPI, wire.VertexAnthropic}
)

// isChat reports whether t reads chat completions: calls in tool_calls, replies in messages of their own.
func isChat(t wire.Target) bool {
	d := t.Dialect.Descriptor()
	return len(d.Variants) > 0 && d.Pairing == wire.Pairing{}
}

// inBlocks reports whether t has calls and replies as parts of messages.
func inBlocks(t wire.Target) bool { return t.Dialect.Descriptor().Pairing.Blocks }

// rejectedBy is by{wire.OpenAIChat: variants}.reject.
func rejectedBy(variants ...wire.Variant) func(wire.Target) check.Severity {
	return by{wire.OpenAIChat: variants}.reject
}
