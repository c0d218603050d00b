package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// by is a set of targets. It maps each dialect to some of its variants, or to nil for all variants.
type by map[wire.Dialect][]wire.Variant

func (b by) has(t wire.Target) bool {
	variants, ok := b[t.Dialect]
	return ok && (len(variants) == 0 || slices.Contains(variants, t.Variant))
}

// reject returns the severity of a defect that only the targets in b have been observed to reject. All other targets accept it
// or are unknown.
func (b by) reject(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Lenient
}

// rejectOrStyle returns the severity of a defect that the targets in b reject and all others accept.
func (b by) rejectOrStyle(t wire.Target) check.Severity {
	if b.has(t) {
		return check.Reject
	}
	return check.Style
}

// openAIs and anthropics contain the variants that share one implementation. The behaviour of proxies, and of other makers'
// copies of these APIs, is unknown.
var (
	openAIs    = []wire.Variant{wire.OpenAI, wire.Azure}
	anthropics = []wire.Variant{wire.AnthropicAPI, wire.VertexAnthropic}
)

// isChat reports whether t uses the chat completions format: calls in tool_calls, replies in separate messages.
func isChat(t wire.Target) bool {
	d := t.Dialect.Descriptor()
	return len(d.Variants) > 0 && d.Pairing == wire.Pairing{}
}

// inBlocks reports whether calls and replies are parts of messages in the dialect of t.
func inBlocks(t wire.Target) bool { return t.Dialect.Descriptor().Pairing.Blocks }

// rejectedBy returns by{wire.OpenAIChat: variants}.reject.
func rejectedBy(variants ...wire.Variant) func(wire.Target) check.Severity {
	return by{wire.OpenAIChat: variants}.reject
}
