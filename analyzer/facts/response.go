package facts

// A Response is what the analyzer knows of an answer, unary or assembled from a stream. Of several choices it
// describes the first. Its strings are copies.
type Response struct {
	ID, Model    string
	Content      Kind
	ContentBytes int    // decoded length of a string, raw length of anything else
	ContentHash  uint64 // xxh3 of the decoded text, else 0; equals Message.ContentHash of the same text
	Reasoning    Kind
	Calls        []ResponseCall
	FinishReason string
	InputTokens  int64
	OutputTokens int64
	CachedTokens int64
	Choices      int

	// Error is the raw error object or text of a failed answer, or of an error inside a 200; empty when none. A body
	// without choices and without an error member is its own error text: {"detail": ...}, HTML, plain text. It is
	// valid as long as the body.
	Error []byte
	// Cut reports that the answer may be incomplete: a stream without [DONE], finish_reason or error, or a body that
	// ends inside its JSON.
	Cut bool
	// Malformed reports that the body is neither an answer of the dialect nor an object with an error member.
	Malformed bool
	// BadIndex reports a stream whose tool call fragments could not be told apart by index.
	BadIndex bool
}

// A ResponseCall is a tool call that the model made.
type ResponseCall struct {
	ID, Name  string
	Arguments string // the arguments string as assembled; the raw value when it is no string
	ArgsKind  Kind
	Args      Args
}
