package rules

import "github.com/llmtap/llmtap/analyzer/check"

// All holds every rule, sorted by id.
var All = []*check.Rule{
	ArgumentsInvalidJSON,
	ArgumentsNotObject,
	ArgumentsNotString,
	AssistantContentMissing,
	DuplicateCallIDInHistory,
	DuplicateCallIDInMessage,
	DuplicateItemID,
	DuplicateToolReply,
	EmptyContent,
	EmptyToolCallsArray,
	FirstMessageRole,
	FunctionNameFormat,
	LastMessageRole,
	LateToolReply,
	LegacyFunctionRole,
	MalformedToolCall,
	MessageNameFormat,
	MissingToolCallID,
	MissingToolReply,
	NoUserMessage,
	NullContentWithCalls,
	OrphanToolReply,
	PreviousResponseUnresolved,
	ReasoningContentForbidden,
	ReasoningContentMissing,
	ReasoningItemUnpaired,
	ReasoningSignatureInvalid,
	RoleAlternationBroken,
	SystemNotFirst,
	ThinkingBlockMissing,
	ThoughtSignatureMissing,
	ToolCallIDFormat,
	ToolChoiceWithoutTools,
	ToolContentMissing,
	ToolContentNotString,
	ToolContentPartUnsupported,
	ToolNotDeclared,
	ToolReplyBeforeCall,
	ToolResultNotFirst,
	ToolsLimitExceeded,
	ToolsMissingWithToolHistory,
	UnexpectedMessageField,
	UnknownToolCallID,
	UnsupportedRole,
	UserAfterTool,
}

// InOrder holds the rules of All in the order in which they are evaluated: pairing, the shape of tool replies, that of
// calls and answers, limits, order, fields, reasoning, the request. When a provider's text names no cause, the first
// violation it would reject is the cause.
var InOrder = []*check.Rule{
	OrphanToolReply,
	ToolReplyBeforeCall,
	LateToolReply,
	UnknownToolCallID,
	MissingToolReply,
	DuplicateToolReply,
	DuplicateCallIDInMessage,
	DuplicateCallIDInHistory,
	MissingToolCallID,
	ToolContentNotString,
	ToolContentMissing,
	ToolContentPartUnsupported,
	EmptyContent,
	ArgumentsNotString,
	ArgumentsNotObject,
	ArgumentsInvalidJSON,
	EmptyToolCallsArray,
	MalformedToolCall,
	AssistantContentMissing,
	NullContentWithCalls,
	ToolCallIDFormat,
	FunctionNameFormat,
	MessageNameFormat,
	ToolsLimitExceeded,
	UnsupportedRole,
	RoleAlternationBroken,
	LastMessageRole,
	FirstMessageRole,
	UserAfterTool,
	NoUserMessage,
	SystemNotFirst,
	LegacyFunctionRole,
	ToolResultNotFirst,
	UnexpectedMessageField,
	ReasoningContentMissing,
	ReasoningContentForbidden,
	ThoughtSignatureMissing,
	ReasoningSignatureInvalid,
	ThinkingBlockMissing,
	ReasoningItemUnpaired,
	ToolsMissingWithToolHistory,
	ToolChoiceWithoutTools,
	ToolNotDeclared,
	PreviousResponseUnresolved,
	DuplicateItemID,
}

// ByID returns the rule with this id, or nil.
func ByID(id string) *check.Rule {
	for _, r := range All {
		if r.ID == id {
			return r
		}
	}
	return nil
}
