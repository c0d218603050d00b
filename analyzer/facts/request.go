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

// The part types of a content array.
const (
	PartText Parts = 1 << iota
	PartImage
	PartAudio
	PartFile
	PartRefusal
	PartOther // an object whose type we do not know
	PartBad   // an element that is no content part: not an object, or without a string type
)

// A Call is one tool call of an assistant message. ID and Name are decoded and valid only as long as the body and
// the Request they came from.
type Call struct {
	Kind        Kind // of the element itself; of anything but an Object only Start and End are known
	ID, Name    []byte
	IDKind      Kind
	NameKind    Kind
	TypeKind    Kind
	FuncKind    Kind // of "function"
	ArgsKind    Kind
	Args        Args
	ArgsHash    uint64 // xxh3 of the raw arguments between the quotes, or of the raw value
	ArgsBytes   int    // raw length
	Start, End  int    // the call's bytes in the body
	HasMoreKeys bool   // keys other than id, type, function, index
}

// A Message is one element of messages.
type Message struct {
	Kind     Kind // of the element itself; of anything but an Object only Start, End and Hash are known
	Role     Role
	RoleKind Kind

	Content      Kind
	ContentBytes int    // raw length between the quotes, or of the raw value
	ContentHash  uint64 // xxh3 of the decoded text; assistant messages with a string content only, else 0
	Parts        Parts  // of an array content
	PartCount    int

	ToolCalls  Kind // of the tool_calls value
	Calls      []Call
	ToolCallID []byte // decoded; valid like Call.ID
	ReplyKind  Kind   // of the tool_call_id value
	Reasoning  Kind   // of the first of reasoning_content, reasoning, reasoning_details that is not null

	Start, End int    // the message's bytes in the body
	Hash       uint64 // xxh3 of these bytes
}

// A Request is what the analyzer knows of a request body. Reuse one for many bodies: Scan keeps its memory.
type Request struct {
	Model     []byte // decoded; valid like Call.ID
	Stream    bool
	HasTools  bool
	ToolCount int
	Forced    []byte // name of the function that tool_choice forces, if any
	MaxTokens int64  // max_completion_tokens, else max_tokens; 0 when absent or not a whole number

	MessagesKind Kind
	Messages     []Message
	UnknownKeys  int // message keys outside the dialect's schema
	Dropped      int // messages and calls beyond the 65,536 of each that are kept

	calls   []Call // backing of every Message.Calls
	scratch []byte // decoded strings
}
