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

// Role identifies the author of a message.
type Role uint8

// The roles of all dialects. RoleOther is a string that is not a known role; RoleNone is a value that is not a string.
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

// Instructs reports whether r is the role of system prompts.
func (r Role) Instructs() bool { return r == RoleSystem || r == RoleDeveloper }

// roleWords maps each role to the usual word for it; nil if there is none.
var roleWords = [...][]byte{
	RoleNone: nil, RoleSystem: []byte("system"), RoleDeveloper: []byte("developer"), RoleUser: []byte("user"),
	RoleAssistant: []byte("assistant"), RoleTool: []byte("tool"), RoleFunction: []byte("function"), RoleOther: nil,
}

// Word returns the usual word for r; "" for RoleNone and RoleOther.
func (r Role) Word() string { return string(roleWords[r]) }

// Args is the verdict on the text of a call's arguments.
type Args uint8

// The verdicts.
const (
	ArgsUnknown   Args = iota // not a string, not checked, or nested too deep
	ArgsObject                // a JSON object
	ArgsEmpty                 // empty or white space; most servers accept it as "no arguments"
	ArgsNotObject             // valid JSON of another type
	ArgsTruncated             // the text ends inside its JSON value
	ArgsMultiple              // two or more complete JSON values
	ArgsBad                   // invalid JSON for another reason
)

// Parts is a set of content part types, with the same names for all dialects.
type Parts uint16

// The part types.
const (
	PartText Parts = 1 << iota
	PartImage
	PartAudio
	PartFile      // a file or document
	PartRefusal   // a refusal by the model
	PartReasoning // a thinking block, redacted or not
	PartCall      // a call of one of the agent's tools
	PartReply     // the reply to a call of one of the agent's tools
	PartBlank     // an empty text part; PartText is set, too
	PartOther     // an object of another type: a call or result of a tool that the provider runs, a cache point, an unknown type
	PartBad       // not an object, or an object without a type
)

// Fields is a set of keys of messages and calls that some targets reject.
type Fields uint32

// The keys. Keys that a dialect requires have no bit.
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

	// No keys, but blocks of tools that the provider runs.
	FieldServerUse    // a call of such a tool
	FieldServerOrphan // the result of a call that is not before it in the message
	FieldServerOpen   // a call of such a tool that the model made itself, without its result in the message

	FieldSandboxCall // a call of one of the agent's tools, made by code that the model runs in a container
	FieldUnsigned    // thinking without a signature
	FieldNamespace   // a call names the namespace of its function
)

// Item is the type of an input element in the Responses API.
type Item uint8

// The item types. Messages in all other dialects have NoItem.
const (
	NoItem Item = iota
	ItemMessage
	ItemCall      // function_call, custom_tool_call, or a call of another tool that the agent runs, such as shell_call
	ItemReply     // function_call_output, custom_tool_call_output, or the output of such a tool
	ItemReasoning // reasoning
	ItemReference // item_reference, which refers to an item stored by the provider
	ItemOther     // any other type, such as a call of a tool that the provider runs
)

// CallType is the type of a call.
type CallType uint8

// The types of calls. Calls in dialects without such types have TypeNone.
const (
	TypeNone CallType = iota
	TypeFunction
	TypeCustom // arguments are free text, not JSON
	TypeOther
	TypeEither // like TypeOther, but the provider may have run the call
)

// A Call is one tool call of an assistant message. ID and Name are decoded; they are valid as long as both the body and the
// Request are.
type Call struct {
	Kind       Kind   // kind of the element; unless it is Object, only Start and End are set
	ID, Name   []byte // Gemini calls may have no ID; the name in a shell_call is shell, with NameKind Absent
	IDKind     Kind
	NameKind   Kind
	TypeKind   Kind // Absent in dialects whose calls have no type
	Type       CallType
	FuncKind   Kind   // kind of "function" in chat completions, else of the call itself
	ArgsKind   Kind   // kind of function.arguments, input or args
	Args       Args   // verdict on a String; ArgsObject for an Object
	ArgsHash   uint64 // xxh3 of the raw text of a string without its quotes, or of any other raw value
	ArgsBytes  int    // length of the hashed bytes
	Signature  Kind   // kind of Gemini's thought signature, which may be in extra_content.google
	Fields     Fields // keys of the call and its function
	Start, End int    // the call is body[Start:End]
}

// A Reply is the result of a tool call, in a tool message or in a part of a user message. ID and Name are valid as long as
// Call.ID.
type Reply struct {
	ID, Name     []byte // Name is the function name in Gemini, else the name of the tool message; see Call.Name for other tools
	IDKind       Kind
	NameKind     Kind
	Content      Kind
	ContentBytes int // counted like Message.ContentBytes
	Parts        Parts
	PartCount    int
	IsError      bool
	After        Parts // parts that precede the reply in its message
	Start, End   int   // the reply is body[Start:End]
}

// A Message is one element of messages, contents or input.
type Message struct {
	Kind     Kind // kind of the element; unless it is Object, only Start, End and Hash are set
	Item     Item
	Role     Role
	RoleKind Kind
	RoleName []byte // decoded; valid as long as Call.ID
	ID       []byte // ID of a Responses item; valid as long as Call.ID
	Name     []byte // valid as long as Call.ID
	NameKind Kind
	Unpaired bool   // an ItemOther that may be a call, of the provider or of an unknown type
	CallID   []byte // call_id of an unpaired item; valid as long as Call.ID

	// Content is the kind of the member content, parts or output. Parts, PartCount and FirstPart describe the parts of an array.
	Content      Kind
	ContentBytes int    // raw length of a string without its quotes (original length if it is shaped), or of any other value
	ContentHash  uint64 // xxh3 of an assistant's decoded text with all text parts joined; 0 if there is no text
	Parts        Parts
	PartCount    int
	FirstPart    Parts

	ToolCalls Kind    // kind of tool_calls in chat completions
	Calls     []Call  // calls in an assistant message
	Replies   []Reply // exactly one for a tool message, even without an ID; otherwise one per reply part
	Reasoning Kind    // kind of the first non-null value of reasoning_content, reasoning, reasoning_details and thinking

	// Signed is the hash of the signatures in an assistant message or a reasoning item (see type Signed), or 0 if there are
	// none.
	Signed uint64
	// Thought is the hash of the thinking texts that Anthropic signed (see type Signed), or 0 if there are none.
	Thought uint64

	Fields     Fields // keys of the message and its parts
	NullFields Fields // the subset of Fields whose values are null or false
	OtherField []byte // the first key that set FieldUnknown; valid as long as Call.ID

	Start, End int    // the message is body[Start:End]
	Hash       uint64 // xxh3 of body[Start:End]
}

// Thinking is the thinking mode that a request selects.
type Thinking uint8

// The modes.
const (
	ThinkingUnknown Thinking = iota // not specified; the model decides
	ThinkingOn
	ThinkingOff
)

// A Request contains the facts of a request body. Reuse a Request for many bodies, because a scan reuses its memory.
type Request struct {
	Model     []byte // decoded; valid as long as Call.ID; empty if the URL names the model
	Stream    bool
	Forced    []byte // name of the function that tool_choice forces, if any
	MaxTokens int64  // max_completion_tokens, max_output_tokens or maxOutputTokens, else max_tokens; 0 if absent or not an integer
	Thinking  Thinking
	Adaptive  bool     // Thinking is on, and the model decides how much
	Effort    Thinking // reasoning_effort of chat completions; off if it is none
	Container Kind     // kind of container, which Anthropic's code execution uses
	System    Kind     // kind of the system prompt outside the messages (system, systemInstruction, instructions)

	HasTools                  bool // the request has a tools array, which may be empty
	ToolCount                 int
	Tools                     [][]byte // names of the declared functions, in order; valid as long as Call.ID
	OpenTools                 bool     // some tools provide functions whose names are not declared (built-in tools, MCP, tool search)
	HasFunctions              bool     // a declared tool is a function
	Builtins                  bool     // Google's search, URL context or code execution is declared
	Combines                  bool     // includeServerSideToolInvocations is true
	Spaced                    [][]byte // names of the functions in namespaces; valid as long as Call.ID
	ToolChoice, ParallelCalls Kind     // kinds of tool_choice and parallel_tool_calls
	Forces                    bool     // tool_choice forces a call, of one function or of any
	Functions                 Kind     // kind of the legacy member functions, else of function_call

	PreviousResponse []byte // previous_response_id or thread.previous_message_id; valid as long as Call.ID
	Unstored         bool   // store is false, so the provider stores no items of the answer
	Stored           bool   // the provider stores or has summarized a part of the history (previous_response_id, conversation, item references, compaction)
	Threaded         bool   // the provider stores the conversation of a Messages request under the id of each answer
	Compacts         bool   // the request asks for a summary of its history instead of an answer

	MessagesKind Kind
	Messages     []Message
	Bare         bool // only an array of messages was read, without its request, so the tools are unknown
	Dropped      int  // number of messages, calls, replies and tools omitted because of maxKept, and of marks of the cache because of maxMarks

	// Backing arrays of Message.Calls, Message.Replies, decoded strings and joined texts.
	calls   []Call
	replies []Reply
	scratch []byte
	joined  []byte
	recall  recall

	// Ids of the calls of the current message to tools that the provider runs. The first served of them have a result.
	serverUses [][]byte
	served     int

	setup       Setup
	cache       Cache
	inParameter bool // the current member is the last Parameter of setup

	s scanner // scanner of the current body; stored here to avoid an allocation per scan
}
