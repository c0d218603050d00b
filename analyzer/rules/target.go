package rules

import (
	"maps"
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
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

// Sets of targets whose makers' own APIs have been observed to reject the same defects.
var (
	blockAPIs   = idBlockAPIs.and(wire.Gemini)                // calls and replies are parts
	idBlockAPIs = bedrocks.and(wire.Anthropic, anthropics...) // and have ids
	bedrocks    = by{wire.Bedrock: nil}
	claudes     = bedrocks.and(wire.Anthropic, anthropics...)
	claudeAPIs  = by{wire.Anthropic: anthropics}
	strictAPIs  = by{wire.Anthropic: anthropics, wire.Gemini: nil, wire.Cohere: nil} // know all keys
)

// and returns b with variants of a dialect, or with all of them.
func (b by) and(d wire.Dialect, variants ...wire.Variant) by {
	b = maps.Clone(b)
	b[d] = variants
	return b
}

// A grammar is what rules must know of a dialect whose variants are alike.
type grammar struct {
	alternates bool // user and assistant must alternate
	noUser     bool // user messages are not required
	noMessages bool // messages may be stored with the provider
	errorTexts bool // the reply of a failed tool must have content
	together   bool // all replies of a turn must be in one message

	callID                    func(*facts.Call) (detail, is string) // checks an id; nil if any is accepted
	notInMessages, notInCalls facts.Fields                          // refused fields
}

// grammars has a row per dialect but OpenAIChat, whose variants differ.
var grammars = map[wire.Dialect]grammar{
	wire.OpenAIResponses: {noUser: true, notInMessages: facts.FieldUnknown, notInCalls: facts.FieldUnknown},
	wire.Anthropic: {
		callID:        func(c *facts.Call) (detail, is string) { return idForm(c, 1<<30, "_-", "letters, digits, _ and -") },
		notInMessages: facts.FieldUnknown, notInCalls: facts.FieldUnknown, // the facts contain only keys outside the schema
	},
	wire.Gemini: {alternates: true, notInMessages: facts.FieldUnknown, notInCalls: facts.FieldUnknown},
	wire.Bedrock: {
		alternates: true, noMessages: true, errorTexts: true, together: true,
		callID: func(c *facts.Call) (detail, is string) {
			return idForm(c, 64, "_.:-", "letters, digits, _, ., : and -")
		},
		notInMessages: ofOthers, notInCalls: facts.FieldUnknown,
	},
	wire.Interactions: {noUser: true, notInMessages: facts.FieldUnknown},              // the facts contain only keys that were refused
	wire.Cohere:       {alternates: true, noUser: true, notInCalls: facts.FieldIndex}, // other refusals of fields are unknown
}

// isChat reports whether t uses the chat completions format: calls in tool_calls, replies in separate messages.
func isChat(t wire.Target) bool {
	d := t.Dialect.Descriptor()
	return len(d.Variants) > 0 && d.Pairing == wire.Pairing{}
}

// takesObjects reports whether the arguments of calls are objects in the dialect of t, not strings.
func takesObjects(t wire.Target) bool { return inBlocks(t) || t.Dialect == wire.Interactions }

// inBlocks reports whether calls and replies are parts of messages in the dialect of t.
func inBlocks(t wire.Target) bool { return t.Dialect.Descriptor().Pairing.Blocks }

// hasBlocksWithIDs reports whether calls and replies are parts of messages and have ids in the dialect of t.
func hasBlocksWithIDs(t wire.Target) bool {
	return inBlocks(t) && !t.Dialect.Descriptor().Pairing.Names
}

// rejectedBy returns by{wire.OpenAIChat: variants}.reject.
func rejectedBy(variants ...wire.Variant) func(wire.Target) check.Severity {
	return by{wire.OpenAIChat: variants}.reject
}
