package analyzer

import (
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// Position is where in the stream an event stands.
type Position struct {
	Seq  uint64    // stream sequence
	Time time.Time // the stream's timestamp: the time of windows and time-outs
}

// An Exchange is one LLM call, complete: a request and its answer, or the knowledge that none came.
type Exchange struct {
	ID     string // Llmtap-Exchange
	Seq    uint64 // stream sequence of the event that completed it; the row's version
	Labels event.Labels

	StartedAt time.Time // when the request was sent, by the hook's clock
	StoredAt  time.Time // stream time of the completing event

	Conversation  string // the given id, else the inferred one
	Inferred      bool   // Conversation was inferred from answers
	Operation     string // chat
	Provider      string // gen_ai.provider.name
	Server        string // host of the URL
	Path          string
	Dialect       string
	Variant       string
	Model         string // asked
	ResponseModel string

	Status       int
	Failed       bool   // status >= 400, an error inside a 200, or no answer, unless the agent cancelled or it may be lost
	ErrorType    string // the provider's error type or code; "" on success, or one of the ErrorTypes below
	Cause        string // of spec/causes.json; "" on success
	CauseKnown   string // stated, inferred, both, conflict, none; "" on success
	CauseClass   string
	RootCause    string // of the findings; "" when none
	ErrorText    string // redacted, at most 4 KiB
	ErrorCluster string // key that groups texts that fit no pattern

	InputTokens, OutputTokens, CachedTokens int64
	Duration, FirstByte                     time.Duration
	FinishReason                            string
	Stream                                  bool
	RequestBytes, ResponseBytes             int
	Messages                                int // in the request
	ToolCalls                               int // in the answer
	Findings                                int // violations seen in the request, old ones included
	Rejects                                 int // of them with predicted reject

	Retry             int
	Instance          string
	InstanceSeq       uint64
	Origin            string
	Capture           string
	Degraded          bool
	ProviderRequestID string
	ResponseID        string

	// Where the request and its answer are stored; all empty when they are not. See Content and HistoryEntry.
	Branch     string            // of the conversation's history: the exchange that began it
	Lead       []string          // contents of the leading system and developer messages
	Marked     map[uint32]string // contents of the messages that carry cache marks, by position
	Parameters string            // content of the body without its messages
	MessagesAt int               // where the messages stood in Parameters, in bytes as stored
	Answer     string            // content of the answer's body
}

// Values of Exchange.ErrorType that are not the provider's.
const (
	ErrorCancelled  = "cancelled"   // the agent gave the call up; not Failed unless the provider had said so
	ErrorCutShort   = "cut_short"   // the answer was not read to its end; not Failed
	ErrorNoResponse = "no_response" // no answer came
	ErrorLost       = "lost"        // events of the process are missing, perhaps the answer; not Failed
)

// A Finding is one violation. ID names the instance, so that seeing it again (a caller re-sends the whole history
// each turn) stores it once; Fingerprint names the defect across conversations.
type Finding struct {
	ID          string // 32 hex digits
	Fingerprint string // 16 hex digits
	Seq         uint64 // stream sequence; the row's version
	FirstSeen   time.Time

	Exchange         string // the first exchange that showed it
	ExchangeVersion  string // its service version, which may be older than that of Labels
	ExchangeInstance string // the process that sent it; "" when that is not known
	ExchangeMessages int    // in its request: how far the conversation was

	// Of the defect in all conversations, as far as the ledger goes back: what showed it first, and the newest other
	// version that made calls before. "" of imports and degraded calls.
	FirstVersion string
	LastClean    string

	Labels       event.Labels
	Conversation string
	Provider     string
	Model        string
	Dialect      string
	Variant      string

	Rule       string
	Detail     string
	Predicted  check.Severity
	Severity   check.Severity // actual: a predicted reject that was accepted is Lenient
	Status     int            // of the exchange
	Message    int            // 0-based index in messages as sent
	ToolCallID string
	ToolName   string
	Summary    string

	RejectedBy []string // of a LatentViolation: the targets that would reject it, as dialect/variant, sorted

	RootCause  string // "" when the history says nothing yet
	Confidence string // high, medium, low
	Evidence   string // what answer N said and what request N+1 sent
	Fix        string
}

// Kinds of a Content.
const (
	ContentMessage    = content.KindMessage
	ContentParameters = content.KindParameters
	ContentAnswer     = content.KindAnswer
)

// A Content is a part of a body, stored once however often it is sent: a message and an answer once for their conversation,
// a leading system message and parameters once for all. Ids sort by when the conversation began.
type Content struct {
	ID     string // 40 hex digits: 8 of the second in which the first request seen of the conversation was sent, 0 when all share it; the first half of the SHA-256 of the captured bytes
	Kind   string
	SeenAt time.Time // stream time
	Bytes  int       // as captured
	Body   string    // redacted
}

// A HistoryEntry is a message of a conversation: the one that stands at Position after the leading system messages, in
// each request of the branch that has so many. The first Shared positions of a branch are those of its parent.
type HistoryEntry struct {
	Seq          uint64 // stream sequence; the row's version
	SeenAt       time.Time
	Service      string
	Conversation string
	Branch       string // the exchange that began it
	Position     int
	Content      string // its id; "" when it was too large
	Role         string // as sent
	Parent       string // branch; "" when it shares nothing
	Shared       int
	Exchange     string // the first that sent the message here
}

// ID names the position.
func (h *HistoryEntry) ID() string { return h.Branch + "." + strconv.Itoa(h.Position) }

// A ToolCall is one tool call that a model made, and what became of it.
type ToolCall struct {
	ID           string // 32 hex digits: hash(exchange that asked, position, call id)
	Seq          uint64 // stream sequence; the row's version
	Labels       event.Labels
	Conversation string
	Exchange     string // whose answer asked for it
	CallID       string
	Name         string
	State        string // one of the states below
	AskedAt      time.Time
	AnsweredAt   time.Time // zero while no reply was seen
	AnsweredBy   string    // exchange whose request held the reply
	StartedAt    time.Time // when the tool started, by the hook's clock; zero when no tool event said so
	EndedAt      time.Time // when the tool ended
	ToolStatus   string    // of the newest tool event: started, ok, error, cancelled; "" without one
}

// States of a ToolCall.
const (
	CallOpen      = session.Open
	CallAnswered  = session.Answered
	CallMissing   = session.Missing   // the conversation went on without its reply, or its run or process ended before it came
	CallDuplicate = session.Duplicate // a request held several replies
	CallLate      = session.Late      // the reply came after the conversation had gone on without it
	CallRejected  = session.Rejected  // the provider refused the request that held the reply, so no model read it
	CallAbandoned = session.Abandoned // the conversation just stopped for Config.ToolReplyTimeout
	CallTerminal  = session.Terminal  // unanswered, and the request forced this tool or its calls are hardly ever answered
)

// A Run is one run of an agent that sends run events.
type Run struct {
	ID     string // 32 hex digits: hash(service, run)
	Seq    uint64 // stream sequence; the row's version
	Labels event.Labels
	Status string    // of its newest event: started, ok, error, cancelled
	SeenAt time.Time // stream time of this version
	// StartedAt and EndedAt are by the hook's clock; zero when the event did not come, or came longer ago than
	// Config.SessionLookback without a sign of the run since.
	StartedAt, EndedAt time.Time
	Calls              int    // exchanges that are over, without an SDK's further attempts
	Failed             int    // of them
	LastExchange       string // the newest one that is over
	LastStatus         int
	LastCause          string // "" when it did not fail
}

// Output is what processing events added. The caller owns and resets it.
type Output struct {
	Exchanges []Exchange
	Findings  []Finding
	ToolCalls []ToolCall
	Runs      []Run
	Tallies   []Tally // closed buckets, oldest first
	Contents  []Content
	History   []HistoryEntry
	Dead      []DeadLetter
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	o.Exchanges, o.Findings, o.ToolCalls, o.Tallies = o.Exchanges[:0], o.Findings[:0], o.ToolCalls[:0], o.Tallies[:0]
	o.Runs, o.History = o.Runs[:0], o.History[:0]
	clear(o.Contents)
	o.Contents = o.Contents[:0]
	clear(o.Dead) // the events in it hold bodies
	o.Dead = o.Dead[:0]
}

// A DeadLetter is an event whose content could not be used: it is kept for someone to look at. The exchange has its row,
// as far as it is known.
type DeadLetter struct {
	Reason string // one of llmtap_analyzer_events_dropped_total
	Error  string // what was wrong; quotes no content
	Seq    uint64 // stream sequence of the event; of a body in parts, of the last that came
	Event  event.Event
}

// maxDeadBody bounds the body of a dead letter's event; the stream has the whole.
const maxDeadBody = 64 << 10

// Rows is the number of rows in o.
func (o *Output) Rows() int {
	return len(o.Exchanges) + len(o.Findings) + len(o.ToolCalls) + len(o.Runs) + len(o.Contents) + len(o.History)
}
