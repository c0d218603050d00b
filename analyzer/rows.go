package analyzer

import (
	"strconv"
	"time"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A Position is the place of an event in the stream.
type Position struct {
	Seq   uint64    // stream sequence; events of one frame share it, and are processed one after the other
	Index int       // in the frame
	Time  time.Time // timestamp in the stream, which windows and timeouts use
}

// order returns a number that is greater than that of any event before.
func (p Position) order() uint64 { return p.Seq*event.MaxFrameEvents + uint64(p.Index) }

// An Exchange is one completed LLM call: a request and its answer, or one of the two if the other never arrived.
type Exchange struct {
	ID     string // the Llmtap-Exchange header
	Seq    uint64 // stream sequence of the event that completed the exchange, used as the row's version
	Labels event.Labels
	Attrs  map[string]string // attributes of the event, with credentials and personal data masked; immutable
	SDK    string            // hook and its version, for example python/0.1.0
	Code   string            // where in the agent's code the call was made, see event.Code; "" if unknown

	StartedAt time.Time // when the request was sent, by the hook's clock
	StoredAt  time.Time // stream time of the completing event

	Conversation  string // the given id, or else an inferred one
	Inferred      bool   // Conversation was inferred from answers
	Operation     string // "chat", or "" if the request was not scanned
	Provider      string // provider name as in gen_ai.provider.name
	Server        string // host of the URL
	Path          string
	Dialect       string
	Variant       string
	Model         string // requested model
	ResponseModel string

	Status       int
	Failed       bool   // status >= 400, an error inside a 200, or no answer, unless the agent cancelled the call or the answer may be lost
	ErrorType    string // the provider's error type or code, or one of the constants below; "" on success
	Cause        string // id in spec/causes.json; "" on success
	CauseKnown   string // how the cause is known: stated, guessed, inferred, both, conflict or none; "" on success
	CauseClass   string
	RootCause    string // root cause of the findings; "" if none
	ErrorText    string // redacted error text, at most 4 KiB
	ErrorCluster string // key that groups error texts without a known pattern

	InputTokens, OutputTokens, CachedTokens int64 // all 0 if the answer reports no usage; see UnknownTokens
	CacheWritten, CacheHour                 int64 // see facts.Response
	CacheReported                           bool
	Cache                                   promptcache.Verdict
	Duration, FirstByte                     time.Duration
	FinishReason                            string
	Ended                                   string // how the answer of a call that did not fail ended, as EndedLimit; "" for others
	Stream                                  bool
	TextsDropped                            content.Drop // why the texts of the call were not stored with it; a later call of the conversation may have stored them
	TextsLeftOut                            float32      // share of the conversations whose texts are not stored, see content.Sampling
	RequestBytes, ResponseBytes             int
	Messages                                int // messages in the request
	ToolCalls                               int // calls in the answer
	Findings                                int // violations in the request, including violations reported before
	Rejects                                 int // violations predicted to be rejected

	Retry             int
	Instance          string
	InstanceSeq       uint64
	Origin            string
	Capture           string
	Degraded          bool
	ProviderRequestID string
	ResponseID        string
	Trace, Span       string // W3C trace context in which the call was made: 32 and 16 hex digits; "" if unknown

	// What the request contains besides its messages. In shape mode the hashes depend on the lengths of texts, not on the
	// texts. All are empty for a degraded or unreadable request.
	PromptHash uint64            // hash of the system prompt; 0 if there is none
	ToolsHash  uint64            // hash of the declarations of the tools; 0 if there are none
	Tools      []string          // names of the declared tools, at most 256; immutable
	Settings   map[string]string // parameters such as temperature: JSON of at most 80 bytes, or # and a hash; immutable

	// Where the request and its answer are stored; all empty if they are not. See Content and HistoryEntry.
	Branch     string            // branch of the conversation's history: the exchange that began it
	Lead       []string          // content ids of the leading system and developer messages, or of all messages if Branch is ""
	Marked     map[uint32]string // content ids of the messages with cache marks, by position
	Parameters string            // content id of the body without its messages
	MessagesAt int               // byte offset of the messages in the stored Parameters
	Answer     string            // content id of the answer's body
}

// UnknownTokens is Exchange.OutputTokens of an answer that ended before the final count of its tokens.
const UnknownTokens = -1

// Values of Exchange.ErrorType that do not come from the provider.
const (
	ErrorCancelled  = "cancelled"   // cancelled by the agent; not Failed unless the provider had reported an error
	ErrorCutShort   = "cut_short"   // the agent did not read the answer to the end; not Failed
	ErrorNoResponse = "no_response" // no answer arrived
	ErrorLost       = "lost"        // events of the process are missing, perhaps including the answer; not Failed
)

// A Finding is one violation. ID identifies the instance, which is stored once although each turn sends the whole
// history again. Fingerprint identifies the defect across conversations.
type Finding struct {
	ID          string // 32 hex digits
	Fingerprint string // 16 hex digits
	Seq         uint64 // stream sequence, used as the row's version
	FirstSeen   time.Time
	StoredAt    time.Time // stream time of this version

	Exchange         string // first exchange with the violation
	ExchangeVersion  string // service version of Exchange, which may be older than the version in Labels
	ExchangeInstance string // process that sent the request of Exchange; "" if unknown
	ExchangeMessages int    // messages in the request of Exchange
	Code             string // where in the agent's code Exchange was made, see event.Code; "" if unknown
	AnswerCode       string // the same of the call whose answer was not kept as it was; "" if there is none, or it is unknown

	// The first service version with the defect in any conversation, according to the ledger, and the newest other
	// version with calls before that, with a lower bound of those without a failure. Empty for imports and degraded calls.
	FirstVersion string
	LastClean    string
	CleanCalls   uint64

	Labels       event.Labels
	Attrs        map[string]string // attributes of the exchange
	Conversation string
	Provider     string
	Model        string
	Dialect      string
	Variant      string

	Rule       string
	Detail     string
	Predicted  check.Severity
	Severity   check.Severity // actual severity: Lenient if a predicted reject was accepted
	Status     int            // status of the exchange
	Message    int            // 0-based index in messages as sent
	ToolCallID string
	ToolName   string
	Summary    string

	RejectedBy []string // targets (dialect/variant) that would reject a LatentViolation, sorted

	RootCause  string // "" if the history explains nothing yet
	Confidence string // high, medium or low
	Evidence   string // derived from answer N and request N+1
	Fix        string
}

// A Content is a part of a body, stored once even if it is sent often: messages and answers once per conversation,
// leading system messages and parameters once for all conversations. Ids sort by the start of the conversation; see
// package content.
type Content struct {
	ID     string    // 40 hex digits: 12 for the Unix time in milliseconds at which the first known request of the conversation was sent (0 for shared contents), then the beginning of the SHA-256 of the captured bytes
	Kind   string    // one of the kinds in package content
	SeenAt time.Time // stream time
	Bytes  int       // size as captured
	Body   string    // redacted content; valid until Output.Reset
}

// A HistoryEntry is a message in a branch of a conversation's history. Position is its index after the leading system
// messages, in every request of the branch. A branch shares its first Shared positions with its parent.
type HistoryEntry struct {
	Seq          uint64 // stream sequence, used as the row's version
	SeenAt       time.Time
	Service      string
	Conversation string
	Branch       string // exchange that began the branch
	Position     int
	Content      string // content id; "" if the content was too large
	Role         string // role as sent
	Parent       string // parent branch; "" if none
	Shared       int
	Exchange     string // first exchange with the message at this position
}

// ID returns the branch and the position, separated by a dot.
func (h *HistoryEntry) ID() string { return h.Branch + "." + strconv.Itoa(h.Position) }

// A ToolCall is a tool call of a model and its outcome.
type ToolCall struct {
	ID           string // 32 hex digits: hash(exchange, position in the answer, call id)
	Seq          uint64 // stream sequence, used as the row's version
	Labels       event.Labels
	Attrs        map[string]string // attributes of the exchange
	Conversation string
	Exchange     string // exchange whose answer made the call
	CallID       string
	Name         string
	State        string    // one of the states of session.Call
	StoredAt     time.Time // stream time of this version
	AskedAt      time.Time
	AnsweredAt   time.Time // when the reply was first seen; zero before
	AnsweredBy   string    // exchange whose request contained the reply
	StartedAt    time.Time // when the tool started, by the hook's clock; zero if no tool event arrived
	EndedAt      time.Time // when the tool ended, by the hook's clock; zero if no tool event arrived
	ToolStatus   string    // status of the newest tool event: started, ok, error or cancelled; "" if none arrived
	ReplyError   string    // how certain it is that the reply reports an error, see package toolreply; "" if it does not
}

// A Run is a run of an agent that sends run events.
type Run struct {
	ID     string // 32 hex digits: hash(service, run)
	Seq    uint64 // stream sequence, used as the row's version
	Labels event.Labels
	Status string    // status of the newest run event: started, ok, error or cancelled
	SeenAt time.Time // stream time of this version
	// StartedAt and EndedAt are by the hook's clock. They are zero if the event did not arrive, or if the run was
	// dropped after it was silent for Config.SessionLookback.
	StartedAt, EndedAt time.Time
	Calls              int    // completed exchanges, except an SDK's retries
	Failed             int    // failed exchanges among Calls
	LastExchange       string // newest completed exchange
	LastStatus         int
	LastCause          string // "" if LastExchange did not fail
}

// Output collects the rows of processed events. The caller owns and resets it.
type Output struct {
	Exchanges []Exchange
	Findings  []Finding
	ToolCalls []ToolCall
	Runs      []Run
	Tallies   []Tally // tallies of closed seconds, oldest first
	Contents  []Content
	History   []HistoryEntry
	Dead      []DeadLetter

	texts []byte // bodies of Contents
}

// maxTexts is the maximum size of the memory for bodies that Reset retains.
const maxTexts = 16 << 20

// text copies b into memory that Reset reuses.
func (o *Output) text(b []byte) string {
	n := len(o.texts)
	o.texts = append(o.texts, b...)
	return unsafe.String(unsafe.SliceData(o.texts[n:]), len(b))
}

// Reset empties o but retains its memory.
func (o *Output) Reset() {
	o.Exchanges, o.Findings, o.ToolCalls, o.Tallies = o.Exchanges[:0], o.Findings[:0], o.ToolCalls[:0], o.Tallies[:0]
	o.Runs, o.History = o.Runs[:0], o.History[:0]
	clear(o.Contents)
	o.Contents = o.Contents[:0]
	if o.texts = o.texts[:0]; cap(o.texts) > maxTexts {
		o.texts = nil
	}
	clear(o.Dead) // the events contain bodies
	o.Dead = o.Dead[:0]
}

// A DeadLetter is an event whose content could not be used. It is stored for investigation, in addition to the
// exchange's row.
type DeadLetter struct {
	Reason string // reason label of llmtap_analyzer_events_dropped_total
	Error  string // never quotes content
	Seq    uint64 // stream sequence of the event or, for a body in parts, of the newest part
	Index  int    // of that event in its frame
	Event  event.Event
}

// maxDeadBody limits the body in a dead letter, in bytes; the stream has the whole body.
const maxDeadBody = 64 << 10

// Rows returns the number of rows in o, not counting tallies and dead letters.
func (o *Output) Rows() int {
	return len(o.Exchanges) + len(o.Findings) + len(o.ToolCalls) + len(o.Runs) + len(o.Contents) + len(o.History)
}
