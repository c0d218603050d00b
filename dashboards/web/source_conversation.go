package web

import (
	"context"

	"github.com/llmtap/llmtap/dashboards/stored"
)

// Conversations are the stored conversations.
type Conversations interface {
	// Find returns the exchange or else the conversation with an id, or with a unique prefix of one. Of an exchange, it may also
	// return the conversation, so that both can be read at once.
	Find(ctx context.Context, id string) (exchange, conversation string, err error)
	// Requests returns about n requests of a conversation around an exchange. If exchange is "", these are the requests around
	// the one that broke, or else the newest ones.
	Requests(ctx context.Context, conversation, exchange string, n int) (*Requests, error)
	// Exchange returns an exchange with its messages and its answer.
	Exchange(ctx context.Context, id string) (*Exchange, error)
	// Raw returns a part of an exchange as it was captured: "request", "answer", or the index of a message.
	Raw(ctx context.Context, id, part string) ([]byte, error)
}

// Requests are requests of a conversation in order.
type Requests struct {
	Conversation string
	Count        int  // of the conversation
	More         bool // the conversation has more than Count
	List         []Request
	At           int // index of the chosen request in List; -1 if it is not in the conversation
}

// A Request is a request of a conversation, without its messages.
type Request struct {
	stored.Exchange
	Number   int // 1-based position in the conversation
	Messages int
	Added    int      // messages that the request before did not have
	Repeats  bool     // it has the same messages as the request before
	Rules    []string // of its findings
}

// An Exchange is a request with its answer.
type Exchange struct {
	stored.Exchange
	Shapes     string   // if only the shapes of texts are stored: what that means
	NotStored  []string // parts that are not stored, and why
	Complete   bool     // the whole request is stored
	Parameters string   // JSON without the messages; empty if not stored
	Messages   []Message
	Answer     []Message
	Findings   []Finding // first the most severe
}

// A Message is a message of a request or of an answer.
type Message struct {
	Index  int
	Role   string
	Stored bool
	Parts  []Content
	Size   int // bytes of its JSON
}

// A Content is a part of a message.
type Content struct {
	Kind    string // text, reasoning, call, reply, other
	Title   string // such as "calls read_cart (call_9)"; empty for a text
	Name    string // of the function
	CallID  string
	Text    string
	Shaped  bool   // Text describes a shape
	Partner int    // index of the message with the reply or the call; -1 if there is none
	Again   bool   // a reply to a call that already has one
	Timing  string // of a call, in words
}

// A Finding is a violation or a signal of an exchange.
type Finding struct {
	stored.Finding
	Since string // id of the earlier exchange that showed it first; empty if it is this one
	Diff  []DiffLine
	Pairs []DiffLine // calls and replies
}

// A DiffLine is a line of what the model said (-), of what the request contains instead (+), or of both.
type DiffLine struct {
	Mark string // "-", "+" or empty
	Path string // of a field; empty for a sentence
	Text string
}
