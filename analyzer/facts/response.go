package facts

import "github.com/llmtap/llmtap/ingest/wire"

// ScanResponse reads an answer of dialect d into r: a unary body, an error body of any shape, or a stream (server-sent
// events, JSON lines, AWS event stream), which it assembles. The body decides what it is; contentType only where the body
// does not say. What cannot be read is told by r.Malformed, r.Cut and r.Error; the only error is ErrDialect.
func ScanResponse(d wire.Dialect, contentType string, body []byte, r *Response) error {
	*r = Response{}
	switch d {
	case wire.OpenAIChat:
		scanChatResponse(contentType, body, r)
	case wire.Cohere:
		scanCohereResponse(contentType, body, r)
	case wire.OpenAIResponses:
		scanResponsesResponse(contentType, body, r)
	case wire.Anthropic:
		scanAnthropicResponse(contentType, body, r)
	case wire.Gemini:
		scanGeminiResponse(contentType, body, r)
	case wire.Bedrock:
		scanBedrockResponse(contentType, body, r)
	default:
		return ErrDialect
	}
	return nil
}

// A Response is what the analyzer knows of an answer, unary or assembled from a stream. Of several choices it
// describes the first. Its strings are copies. In dialects whose answers are parts, Content is String when there is a
// text part, Null when there are only others; tools that the provider runs itself make no Calls.
type Response struct {
	ID, Model    string
	Content      Kind
	ContentBytes int    // decoded length of a string, raw length of anything else
	ContentHash  uint64 // xxh3 of the decoded text, else 0; equals Message.ContentHash of the same text
	Reasoning    Kind
	// BlankReasoning reports that the reasoning of a chat completion is there and is an empty string.
	BlankReasoning bool
	Calls          []ResponseCall
	Signed         []Signed // one per reasoning item of Responses, else at most one
	FinishReason   string   // in the dialect's words; of Responses the status, or why it is incomplete
	InputTokens    int64
	OutputTokens   int64
	CachedTokens   int64
	Choices        int

	// Error is the raw error object or text of a failed answer, or of an error inside a 200; empty when none. A body
	// without an answer and without an error member is its own error text: {"detail": ...}, HTML, plain text. It is
	// valid as long as the body.
	Error []byte
	// Cut reports that the answer may be incomplete: a stream without its terminal event, finish reason or error, or a body that
	// ends inside its JSON.
	Cut bool
	// Malformed reports that the body is neither an answer of the dialect nor an object with an error member.
	Malformed bool
	// OtherCalls reports calls that the agent may have to answer and that are no Calls: of a shell, of a computer. A reply may
	// name an id that Calls does not have.
	OtherCalls bool
	// BadIndex reports a stream whose tool call fragments could not be told apart by index.
	BadIndex bool
}

// Signed is what a provider signed of its reasoning and wants back unchanged: Anthropic's thinking signatures and redacted
// data, Gemini's thought signatures, the encrypted content of a reasoning item. Hash is the xxh3 of the decoded text; of
// several in one message, in their order, (previous hash rotated left by 1) xor the next. It equals Message.Signed of an
// unchanged copy.
type Signed struct {
	ID   string // of a Responses item, else ""
	Hash uint64
}

// A ResponseCall is a tool call that the model made.
type ResponseCall struct {
	ID, Name  string
	Arguments string // the arguments string as assembled; the raw value when it is no string
	ArgsKind  Kind
	Args      Args
	Signature bool // it carries a thought signature
}
