package facts

// Kind is the JSON type of a value, or Absent if its key is missing.
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

// The roles of the dialects. RoleOther is an unknown string, RoleNone a value that is not a string.
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

// Args is the verdict on the text of a call's arguments.
type Args uint8

// The verdicts.
const (
	ArgsUnknown   Args = iota // not a string, not checked, or nested too deep
	ArgsObject                // a JSON object
	ArgsEmpty                 // empty or white space: "no arguments" to most servers
	ArgsNotObject             // valid JSON of another type
	ArgsTruncated             // ends before its JSON value does
	ArgsMultiple              // two or more complete JSON values
	ArgsBad                   // not JSON for another reason
)

// Parts is a set of content part types, under one name for all dialects.
type Parts uint16

// The part types.
const (
	PartText Parts = 1 << iota
	PartImage
	PartAudio
	PartFile      // and documents
	PartRefusal   // by the model
	PartReasoning // a thinking block, redacted or not
	PartCall      // a call of one of the agent's tools
	PartReply     // the reply to such a call
	PartBlank     // an empty text part; PartText is set, too
	PartOther     // an object of another type: a tool that the provider runs, a cache point, an unknown type
	PartBad       // not a content part: not an object, or without a type
)

// Fields is a set of keys of messages and calls that some targets reject.
type Fields uint32

// The keys. The required keys of a dialect's messages have no bit.
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
	FieldUnknown // any other key outside the dialect's schema
)

// Item is the type of an element of a Responses input.
type Item uint8

// The items. Messages of all other dialects have NoItem.
const (
	NoItem Item = iota
	ItemMessage
	ItemCall      // function_call, custom_tool_call
	ItemReply     // function_call_output, custom_tool_call_output
	ItemReasoning // reasoning
	ItemReference // item_reference: refers to an item that the provider stored
	ItemOther     // any other, such as calls of tools that the provider runs
)

// CallType is the type of a call.
type CallType uint8

// The types. Calls of dialects without types have TypeNone.
const (
	TypeNone CallType = iota
	TypeFunction
	TypeCustom // arguments are free text, not JSON
	TypeOther
)

// A Call is one tool call of an assistant message. ID and Name are decoded and valid as long as both the body and the
// Request.
type Call struct {
	Kind       Kind   // of the element itself; unless it is Object only Start and End are set
	ID, Name   []byte // Gemini's calls may have no ID
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

// A Reply is the result of a tool call: a tool message, or a part of a user message. ID and Name are valid like Call.ID.
type Reply struct {
	ID, Name     []byte // Name is the function's in Gemini, else the name of a tool message
	IDKind       Kind
	NameKind     Kind
	Content      Kind
	ContentBytes int // as Message.ContentBytes
	Parts        Parts
	PartCount    int
	IsError      bool
	After        Parts // parts of the same message before it
	Start, End   int   // the reply's bytes in the body
}

// A Message is one element of messages, contents or input.
type Message struct {
	Kind     Kind // of the element itself; unless it is Object only Start, End and Hash are set
	Item     Item
	Role     Role
	RoleKind Kind
	RoleName []byte // decoded; valid like Call.ID
	ID       []byte // of a Responses item; valid like Call.ID
	Name     []byte // valid like Call.ID
	NameKind Kind

	// Content is the kind of content, parts or output. Parts, PartCount and FirstPart describe the parts of an array.
	Content      Kind
	ContentBytes int    // raw length between the quotes, or of another raw value; a shaped string states its length
	ContentHash  uint64 // xxh3 of an assistant's decoded text, all text parts joined; 0 without a text
	Parts        Parts
	PartCount    int
	FirstPart    Parts

	ToolCalls Kind    // of the tool_calls value of chat completions
	Calls     []Call  // of an assistant message
	Replies   []Reply // exactly one of a tool message, even without an id; else the reply parts
	Reasoning Kind    // of the first of reasoning_content, reasoning and reasoning_details that is not null, or of thinking

	// Signed is the hash of the signatures of an assistant message or a reasoning item, see Signed; 0 without any.
	Signed uint64

	Fields     Fields // keys of the message and its parts
	NullFields Fields // the subset of Fields whose values are null or false
	OtherField []byte // the first key counted in FieldUnknown; valid like Call.ID

	Start, End int    // the message's bytes in the body
	Hash       uint64 // xxh3 of these bytes
}

// Thinking is the thinking mode that a request asks for.
type Thinking uint8

// The modes.
const (
	ThinkingUnknown Thinking = iota // not specified; the model decides
	ThinkingOn
	ThinkingOff
)

// A Request contains the facts of a request body. Reuse one for many bodies: a scan reuses its memory.
type Request struct {
	Model     []byte // decoded; valid like Call.ID; empty if the URL names the model
	Stream    bool
	Forced    []byte // the function that tool_choice forces, if any
	MaxTokens int64  // max_completion_tokens, max_output_tokens, maxOutputTokens, else max_tokens; 0 if absent or not a whole number
	Thinking  Thinking
	System    Kind // of the system prompt outside the messages: system, systemInstruction, instructions

	HasTools                  bool // there is a tools array, perhaps empty
	ToolCount                 int
	Tools                     [][]byte // names of declared functions, in order; valid like Call.ID
	OpenTools                 bool     // some tools declare functions without naming them: built-in tools, MCP, tool search
	ToolChoice, ParallelCalls Kind     // of tool_choice, parallel_tool_calls
	Functions                 Kind     // of the legacy member functions, else of function_call

	PreviousResponse []byte // previous_response_id; valid like Call.ID
	Unstored         bool   // store is false: the provider stores no item of the answer
	Stored           bool   // the provider has a part of the history: previous_response_id, conversation, item references

	MessagesKind Kind
	Messages     []Message
	Bare         bool // only messages were read, without the request around them: its tools are unknown
	Dropped      int  // messages, calls, replies and tools beyond maxKept of each

	// Backing arrays of every Message.Calls and Message.Replies, and of decoded strings.
	calls   []Call
	replies []Reply
	scratch []byte
	joined  []byte
	recall  recall

	s scanner // of the current body; a field, so that a scan does not allocate it
}
