package analyzer

import (
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/event"
)

// A Position is the place of an event in the stream.
type Position struct {
	Seq  uint64    // stream sequence
	Time time.Time // the stream's timestamp: the time of windows and time-outs
}

// An Exchange is one completed LLM call: a request and its answer, or the knowledge that there is none.
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
	Model         string // requested
	ResponseModel string

	Status       int
	Failed       bool   // status >= 400, an error inside a 200, or no answer, unless the agent cancelled it or it may be lost
	ErrorType    string // the provider's error type or code; "" on success, or one of the ErrorTypes below
	Cause        string // of spec/causes.json; "" on success
	CauseKnown   string // stated, inferred, both, conflict, none; "" on success
	CauseClass   string
	RootCause    string // of the findings; "" when none
	ErrorText    string // redacted, at most 4 KiB
	ErrorCluster string // key that groups texts without a known pattern

	InputTokens, OutputTokens, CachedTokens int64
	Duration, FirstByte                     time.Duration
	FinishReason                            string
	Stream                                  bool
	RequestBytes, ResponseBytes             int
	Messages                                int // in the request
	ToolCalls                               int // in the answer
	Findings                                int // violations seen in the request, including old ones
	Rejects                                 int // violations with predicted reject

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
	MessagesAt int               // offset of the messages in Parameters, in bytes as stored
	Answer     string            // content of the answer's body
}

// Values of Exchange.ErrorType that are not the provider's.
const (
	ErrorCancelled  = "cancelled"   // by the agent; not Failed unless the provider had reported an error
	ErrorCutShort   = "cut_short"   // the answer was not read to its end; not Failed
	ErrorNoResponse = "no_response" // no answer arrived
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
	ExchangeMessages int    // in its request

	// The first service version with the defect in any conversation that the ledger knows, and the newest other version
	// with calls before that. "" for imports and degraded calls.
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

	RootCause  string // "" when the history explains nothing yet
	Confidence string // high, medium, low
	Evidence   string // from answer N and request N+1
	Fix        string
}

// A Content is a part of a body, stored once however often it is sent: messages and answers once per conversation, leading
// system messages and parameters once for all conversations. Ids sort by the start of the conversation, see package content.
type Content struct {
	ID     string    // 40 hex digits: 8 for the second in which the first request seen of the conversation was sent, 0 for shared contents; then half of the SHA-256 of the captured bytes
	Kind   string    // one of the kinds of package content
	SeenAt time.Time // stream time
	Bytes  int       // as captured
	Body   string    // redacted
}

// A HistoryEntry is a message of a conversation: the one at Position after the leading system messages, in each request of
// the branch that is long enough. The first Shared positions of a branch are those of its parent.
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
	Exchange     string // the first that sent the message at this position
}

// ID returns the branch and the position.
func (h *HistoryEntry) ID() string { return h.Branch + "." + strconv.Itoa(h.Position) }

// A ToolCall is one tool call of a model, and its outcome.
type ToolCall struct {
	ID           string // 32 hex digits: hash(exchange, position in the answer, call id)
	Seq          uint64 // stream sequence; the row's version
	Labels       event.Labels
	Conversation string
	Exchange     string // whose answer made the call
	CallID       string
	Name         string
	State        string // one of the states of a session.Call
	AskedAt      time.Time
	AnsweredAt   time.Time // zero until a reply is seen
	AnsweredBy   string    // exchange whose request contained the reply
	StartedAt    time.Time // when the tool started, by the hook's clock; zero without a tool event
	EndedAt      time.Time // when the tool ended
	ToolStatus   string    // of the newest tool event: started, ok, error, cancelled; "" without one
}

// A Run is one run of an agent that sends run events.
type Run struct {
	ID     string // 32 hex digits: hash(service, run)
	Seq    uint64 // stream sequence; the row's version
	Labels event.Labels
	Status string    // of its newest event: started, ok, error, cancelled
	SeenAt time.Time // stream time of this version
	// StartedAt and EndedAt are by the hook's clock; zero without the event, or when the run was forgotten since, after it
	// was silent for Config.SessionLookback.
	StartedAt, EndedAt time.Time
	Calls              int    // completed exchanges, without an SDK's retries
	Failed             int    // of Calls
	LastExchange       string // the newest completed one
	LastStatus         int
	LastCause          string // "" when it did not fail
}

// Output collects the rows of processed events. The caller owns and resets it.
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
	clear(o.Dead) // its events contain bodies
	o.Dead = o.Dead[:0]
}

// A DeadLetter is an event whose content could not be used. It is stored for investigation, in addition to the row of the
// exchange.
type DeadLetter struct {
	Reason string // one of llmtap_analyzer_events_dropped_total
	Error  string // quotes no content
	Seq    uint64 // stream sequence of the event; for a body in parts, of the newest part
	Event  event.Event
}

// maxDeadBody bounds the body of a dead letter's event; the stream has the whole body.
const maxDeadBody = 64 << 10

// Rows returns the number of rows in o.
func (o *Output) Rows() int {
	return len(o.Exchanges) + len(o.Findings) + len(o.ToolCalls) + len(o.Runs) + len(o.Contents) + len(o.History)
}
