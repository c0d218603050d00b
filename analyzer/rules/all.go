package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
)

// All contains all rules, sorted by id.
var All = []*check.Rule{
	ArgumentsInvalidJSON,
	ArgumentsNotObject,
	ArgumentsNotString,
	AssistantContentMissing,
	AudioInputUnsupported,
	BuiltinToolsNotEnabled,
	ContainerMissing,
	DocumentWithoutText,
	DuplicateCallIDInHistory,
	DuplicateCallIDInMessage,
	DuplicateItemID,
	DuplicateToolReply,
	EmptyContent,
	EmptyToolCallsArray,
	FirstMessageRole,
	ForcedToolChoice,
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
	ReasoningOptionUnsupported,
	ReasoningSignatureInvalid,
	RoleAlternationBroken,
	SystemNotFirst,
	TextBesideOpenTool,
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

// InOrder contains the rules of All in evaluation order, by Rule.Order: pairing; the shape of tool replies, calls and answers;
// limits; order; fields; reasoning; the request. If a provider's text does not name a cause, the cause is that of the first
// violation for which a rejection is predicted.
var InOrder = slices.SortedFunc(slices.Values(All), func(a, b *check.Rule) int { return a.Order - b.Order })

var byID = func() map[string]*check.Rule {
	m := make(map[string]*check.Rule, len(All))
	for _, r := range All {
		m[r.ID] = r
	}
	return m
}()

// ByID returns the rule with this id, or nil if there is none.
func ByID(id string) *check.Rule { return byID[id] }
