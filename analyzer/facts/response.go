package facts

// A Response is what the analyzer knows of an answer, unary or assembled from a stream.
type Response struct {
	ID, Model    string
	Content      Kind
	ContentBytes int    // decoded length
	ContentHash  uint64 // xxh3 of the decoded text; equals Message.ContentHash of the same text
	Reasoning    Kind
	Calls        []ResponseCall
	FinishReason string
	InputTokens  int64
	OutputTokens int64
	CachedTokens int64
	Choices      int

	// Error is the raw error object or text of a failed answer, or of an error inside a 200; empty when none.
	Error []byte
	// Cut reports a stream without a terminal event: the answer may be incomplete.
	Cut bool
	// Malformed reports that the body is not what the dialect's answers look like.
	Malformed bool
}

// A ResponseCall is a tool call that the model made.
type ResponseCall struct {
	ID, Name  string
	Arguments string // the arguments string as assembled
	ArgsKind  Kind
	Args      Args
}
