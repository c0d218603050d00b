package facts

// Kind is the JSON type of a value, or Absent when its key is not there.
type Kind uint8

// The kinds of a JSON value.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
	Invalid // not JSON
)

// Role is the author of a message.
type Role uint8

// The roles of the dialects; RoleOther is a string we do not know, RoleNone no string at all.
const (
	RoleNone Role = iota
	RoleSystem
	RoleDeveloper
	RoleUser
	RoleAssistant
	RoleTool
	RoleFunction
	RoleOther
)

// Args says what a call's arguments are, beyond their Kind.
type Args uint8

// Verdicts on an arguments string.
const (
	ArgsUnknown   Args = iota // not a string, not checked, or nested too deep to say
	ArgsObject                // a JSON object
	ArgsEmpty                 // the empty string or white space: "no arguments" to most servers
	ArgsNotObject             // valid JSON of another type
	ArgsTruncated             // ends before its JSON value does
	ArgsMultiple              // two or more complete JSON values
	ArgsBad                   // not JSON in another way
)

// Parts is a set of content part types.
type Parts uint16

// The part types of a content array, whatever a dialect calls them.
const (
	PartText Parts = 1 << iota
	PartImage
	PartAudio
	PartFile      // documents too
	PartRefusal   // of the model
	PartReasoning // a thinking block, redacted or not
	PartCall      // a call of a tool that the agent runs
	PartReply     // the reply to such a call
	PartBlank     // a text part that is empty; PartText is set too
	PartOther     // an object whose type we do not know, or of no concern: a tool that the provider runs, a cache point
	PartBad       // an element that is no content part: not an object, or without a type
)

// Fields is a set of keys that messages and calls carry and that some targets refuse.
type Fields uint32

// The keys. Those that a dialect's own messages cannot do without have no bit.
const (
	FieldName Fields = 1 << iota
	FieldRefusal
	FieldAudio
	FieldFunctionCall
	FieldPrefix // prefix, partial
	FieldReasoningContent
	FieldReasoning
	FieldReasoningDetails
	FieldExtraContent
	FieldIndex
	FieldFinishReason
	FieldLogprobs
	FieldAnnotations
	FieldTimestamp
	FieldMetadata
	FieldToolName
	FieldCacheControl
	FieldID
	FieldToolPlan
	FieldUnknown // any other that the dialect's schema does not have
)

// Item is what an element of a Responses input is.
type Item uint8

// The items of an input; NoItem in all other dialects.
const (
	NoItem Item = iota
	ItemMessage
	ItemCall      // function_call, custom_tool_call
	ItemReply     // function_call_output, custom_tool_call_output
	ItemReasoning // reasoning
	ItemReference // item_reference: stands for an item that the provider stored
	ItemOther     // any other, such as the calls of tools that the provider runs
)

// CallType is the type of a call.
type CallType uint8

// The types. Dialects whose calls have no type leave TypeNone.
const (
	TypeNone CallType = iota
	TypeFunction
	TypeCustom // arguments are free text, not JSON
	TypeOther
)

// A Call is one tool call of an assistant message. ID and Name are decoded and valid only as long as the body and
// the Request they came from.
type Call struct {
	Kind       Kind   // of the element itself; of anything but an Object only Start and End are known
	ID, Name   []byte // ID is empty where a dialect has none (Gemini)
	IDKind     Kind
	NameKind   Kind
	TypeKind   Kind // Absent in dialects whose calls have no type
	Type       CallType
	FuncKind   Kind   // of "function" in chat completions, else of the call itself
	ArgsKind   Kind   // of function.arguments, input or args
	Args       Args   // of a String; ArgsObject of an Object
	ArgsHash   uint64 // xxh3 of the raw arguments between the quotes, or of the raw value
	ArgsBytes  int    // raw length
	Signature  Kind   // Gemini's thought signature, also in extra_content.google
	Fields     Fields // of the call and its function
	Start, End int    // the call's bytes in the body
}

// A Reply is what a tool call gave: a tool message, or a part of a user message. ID and Name are valid like Call.ID.
type Reply struct {
	ID, Name     []byte // Name is the function's (Gemini) or a tool message's name
	IDKind       Kind
	NameKind     Kind
	Content      Kind
	ContentBytes int // as Message.ContentBytes
	Parts        Parts
	PartCount    int
	IsError      bool
	After        Parts // parts of the same message that stand before it
	Start, End   int   // the reply's bytes in the body
}

// A Message is one element of messages, contents or input.
type Message struct {
	Kind     Kind // of the element itself; of anything but an Object only Start, End and Hash are known
	Item     Item
	Role     Role
	RoleKind Kind
	RoleName []byte // decoded; valid like Call.ID
	ID       []byte // of a Responses item; valid like Call.ID
	Name     []byte // valid like Call.ID
	NameKind Kind

	// Content is of content, parts or output. A message whose content is parts has Parts, PartCount and FirstPart.
	Content      Kind
	ContentBytes int    // raw length between the quotes, or of the raw value; a shaped string says its length itself
	ContentHash  uint64 // xxh3 of an assistant's decoded text, all text parts joined; 0 when it has no text
	Parts        Parts
	PartCount    int
	FirstPart    Parts

	ToolCalls Kind    // of the tool_calls value of chat completions
	Calls     []Call  // of an assistant message
	Replies   []Reply // of a tool message always one, even without an id; of other messages the reply parts
	Reasoning Kind    // of reasoning_content, reasoning or reasoning_details, the first that is not null, or of thinking

	// Signed hashes the signatures of an assistant message or a reasoning item, see Signed; 0 when it has none.
	Signed uint64

	Fields     Fields // keys of the message and its parts
	NullFields Fields // those of Fields that are null or false
	OtherField []byte // the first key behind FieldUnknown; valid like Call.ID

	Start, End int    // the message's bytes in the body
	Hash       uint64 // xxh3 of these bytes
}

// Thinking says whether a request asks for a thinking mode.
type Thinking uint8

// The thinking modes.
const (
	ThinkingUnknown Thinking = iota // the request does not say; the model decides
	ThinkingOn
	ThinkingOff
)

// A Request is what the analyzer knows of a request body. Reuse one for many bodies: Scan keeps its memory.
type Request struct {
	Model     []byte // decoded; valid like Call.ID; empty where the URL names it
	Stream    bool
	Forced    []byte // name of the function that tool_choice forces, if any
	MaxTokens int64  // max_completion_tokens, max_output_tokens, maxOutputTokens, else max_tokens; 0 when absent or not a whole number
	Thinking  Thinking
	System    Kind // of the system prompt outside the messages: system, systemInstruction, instructions

	HasTools                  bool // a tools array is there, perhaps empty
	ToolCount                 int
	Tools                     [][]byte // names of the declared functions, in order; valid like Call.ID
	OpenTools                 bool     // some tools declare functions without naming them: built in, MCP, searched
	ToolChoice, ParallelCalls Kind     // of tool_choice, parallel_tool_calls
	Functions                 Kind     // of the legacy functions and function_call members, the first that is there

	PreviousResponse []byte // previous_response_id; valid like Call.ID
	Unstored         bool   // store is false: the provider keeps no item of the answer
	Stored           bool   // a part of the history lies with the provider: previous_response_id, conversation, item references

	MessagesKind Kind
	Messages     []Message
	Bare         bool // only messages were read, not the request around them: nothing is known of its tools
	Dropped      int  // messages, calls, replies and tools beyond the 65,536 of each that are kept

	// Backing of every Message.Calls and Message.Replies, and of decoded strings.
	calls   []Call
	replies []Reply
	scratch []byte
	joined  []byte
	recall  recall

	s scanner // of the body at hand; it lies here so that a scan need not allocate it
}
