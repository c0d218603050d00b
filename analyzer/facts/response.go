package facts

// A Response contains the facts of an answer, unary or assembled from a stream. If the answer has several choices, the
// facts are those of the first. Strings are copies. In dialects whose answers consist of parts, Content is String if there
// is a text part, and Null if there are only other parts. Tools that the provider runs do not produce Calls.
type Response struct {
	ID, Model    string
	Content      Kind
	ContentBytes int    // decoded length of a string, raw length of any other value
	ContentHash  uint64 // xxh3 of the decoded text, or 0 if there is no text; equals Message.ContentHash of the same text
	Reasoning    Kind
	// BlankReasoning reports that the reasoning of a chat completion is present and empty.
	BlankReasoning bool
	Calls          []ResponseCall
	Signed         []Signed // one per reasoning item in the Responses API, otherwise at most one
	FinishReason   string   // as sent; in the Responses API the reason why the answer is incomplete, else its status
	InputTokens    int64
	OutputTokens   int64 // see Unfinished
	CachedTokens   int64 // of InputTokens, read from the provider's cache
	CacheWritten   int64 // of InputTokens, written to it; 0 where the provider does not say
	CacheHour      int64 // of CacheWritten, held for an hour instead of five minutes
	CacheReported  bool  // the answer says how many tokens were read, which may be 0, but not negative, nor more than the prompt has
	Choices        int

	// Error is the raw error object or text of a failed answer, or of an error inside an answer with status 200; empty if
	// there is no error. If the body has neither an answer nor an error member ({"detail": ...}, HTML, plain text), Error is
	// the body. Error is valid only as long as the body is.
	Error []byte
	// Cut reports that the answer may be incomplete, because a stream has no last event, finish reason or error, or because
	// a body ends inside its JSON.
	Cut bool
	// Malformed reports that the body is neither an answer of the dialect nor an object with an error member.
	Malformed bool
	// OtherCalls reports that the agent may have to answer calls that are not in Calls, such as shell or computer calls.
	// Replies may then have IDs that are not in Calls.
	OtherCalls bool
	// ServerUse reports that the answer calls a tool that the provider runs.
	ServerUse bool
	// Refused reports that the model refuses in a field of its own, as in chat completions and the Responses API.
	Refused bool
	// Media reports that the answer of a chat completion has audio or images.
	Media bool
	// BadIndex reports that the fragments of tool calls in a stream could not be assigned by index.
	BadIndex bool
}

// cached reads how many tokens were read from the cache.
func (r *Response) cached(s *scanner) {
	r.CacheReported = s.kind() == Number || r.CacheReported
	r.CachedTokens = s.number()
}

// Unfinished reports that a stream ended, or failed, before the answer did. OutputTokens is then at most a running total:
// Anthropic counts 1 at the start of a stream, and the whole answer only at its end.
func (r *Response) Unfinished() bool { return r.Cut || len(r.Error) > 0 && r.FinishReason == "" }

// Signed is a signature of reasoning that the client must return unchanged: Anthropic's thinking signatures and redacted
// data, Gemini's thought signatures, and the encrypted content of a reasoning item. Hash is the xxh3 of the decoded text.
// The hashes of several signatures in one message are combined in order: (previous hash rotated left by 1) xor the next
// hash. Hash equals Message.Signed of an unchanged copy.
type Signed struct {
	ID   string // ID of a Responses item, else ""
	Hash uint64
	// Thought is the hash of the thinking texts with Anthropic's signatures, combined in the same way; texts that are empty, as
	// the provider may omit them, do not count. It equals Message.Thought of an unchanged copy.
	Thought uint64
}

// A ResponseCall is a tool call in an answer.
type ResponseCall struct {
	ID, Name  string
	Arguments string // the assembled text, or the raw value if it is not a string
	ArgsKind  Kind
	Args      Args
	Signature bool // the call has a thought signature
}
