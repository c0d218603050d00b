package facts

// A Response contains the facts of an answer, unary or assembled from a stream. Of several choices it describes the first.
// Its strings are copies. In dialects whose answers are parts, Content is String if there is a text part, Null if there are
// only other parts; tools that the provider runs itself make no Calls.
type Response struct {
	ID, Model    string
	Content      Kind
	ContentBytes int    // decoded length of a string, raw length of any other value
	ContentHash  uint64 // xxh3 of the decoded text, else 0; equals Message.ContentHash of the same text
	Reasoning    Kind
	// BlankReasoning reports that the reasoning of a chat completion is present and empty.
	BlankReasoning bool
	Calls          []ResponseCall
	Signed         []Signed // one per reasoning item of Responses, else at most one
	FinishReason   string   // in the dialect's words; of Responses the status, or the reason why it is incomplete
	InputTokens    int64
	OutputTokens   int64
	CachedTokens   int64
	Choices        int

	// Error is the raw error object or text of a failed answer, or of an error inside a 200; empty without an error. A body
	// with neither an answer nor an error member is its own error text: {"detail": ...}, HTML, plain text. It is valid as
	// long as the body.
	Error []byte
	// Cut reports that the answer may be incomplete: a stream without its last event, finish reason or error, or a body
	// that ends inside its JSON.
	Cut bool
	// Malformed reports that the body is neither an answer of the dialect nor an object with an error member.
	Malformed bool
	// OtherCalls reports calls that the agent may have to answer and that are not in Calls: of a shell, of a computer. A
	// reply may name an id that is not in Calls.
	OtherCalls bool
	// BadIndex reports a stream whose tool call fragments could not be told apart by index.
	BadIndex bool
}

// Signed is a signature over reasoning that the provider requires back unchanged: Anthropic's thinking signatures and
// redacted data, Gemini's thought signatures, the encrypted content of a reasoning item. Hash is the xxh3 of the decoded
// text; of several in one message, in their order, (previous hash rotated left by 1) xor the next. It equals
// Message.Signed of an unchanged copy.
type Signed struct {
	ID   string // of a Responses item, else ""
	Hash uint64
}

// A ResponseCall is a tool call that the model made.
type ResponseCall struct {
	ID, Name  string
	Arguments string // the arguments string as assembled, or the raw value of another kind
	ArgsKind  Kind
	Args      Args
	Signature bool // it has a thought signature
}
