package rules

import "github.com/llmtap/llmtap/analyzer"

// All holds every rule, sorted by id.
var All = []*analyzer.Rule{
	ArgumentsInvalidJSON,
	ArgumentsNotString,
	DuplicateToolReply,
	LateToolReply,
	MissingToolCallID,
	MissingToolReply,
	OrphanToolReply,
	ToolContentNotString,
	ToolReplyBeforeCall,
	UnknownToolCallID,
}

// InOrder holds the rules of All in the order in which they are evaluated: pairing, then the shape of tool messages,
// then that of calls. When a provider's text names no cause, the first violation it would reject is the cause.
var InOrder = []*analyzer.Rule{
	OrphanToolReply,
	ToolReplyBeforeCall,
	LateToolReply,
	UnknownToolCallID,
	MissingToolReply,
	DuplicateToolReply,
	MissingToolCallID,
	ToolContentNotString,
	ArgumentsNotString,
	ArgumentsInvalidJSON,
}

// ByID returns the rule with this id, or nil.
func ByID(id string) *analyzer.Rule {
	for _, r := range All {
		if r.ID == id {
			return r
		}
	}
	return nil
}
