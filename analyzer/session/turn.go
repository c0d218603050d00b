package session

import (
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A Turn is one request in its conversation. RootCause may only be called before the next call of Store.Request; other methods
// and fields stay valid.
type Turn struct {
	Conversation string  // given id, or else the id of the conversation to which the request was assigned
	Root         string  // first id of the conversation; differs from Conversation after a resumption under a new id
	Branch       string  // "" for the first branch of the conversation
	Changed      []*Call // calls that this request answers, or contains without a reply
	Dropped      []*Call // undecided calls of the previous answer that this later request does not contain
	Superseded   []*Call // undecided calls of another process; the conversation continued from a newer answer
	Inferred     bool    // no id was given

	streamed bool
	fresh    bool
	ended    bool
	items    bool  // calls and replies are separate items
	names    bool  // replies name functions instead of calls
	threaded bool  // the answer can be named by a later request (Anthropic's message threads)
	repeated bool  // the previous request was sent more than once
	shrunk   bool  // the history lost more messages than it gained
	was      int32 // number of messages in the body of the previous request

	store    *Store
	conv     *conversation
	branch   *branch
	source   *source
	exchange string
	code     string
	seq      uint64
	at       time.Time
	length   int    // number of messages in the body
	last     uint64 // hash of the last message of the body

	forced   uint64  // hash of the name of the function that the model must call; 0 if none is required
	resent   []*Call // calls in state Rejected whose reply is sent again
	aligned  alignment
	p        *skeleton // previous request; nil if unknown
	pSource  *source   // source of p
	q        *skeleton // this request
	previous string    // exchange of p

	facts *facts.Request
	body  []byte

	named  *namedAnswer // answer identified by previous_response_id or thread.previous_message_id
	before *answer      // answer to the previous request

	overtaken *Overtaker
}

// continues updates t and its branch for a request that continues the branch.
func (t *Turn) continues(in *Request, q *skeleton) {
	b, a := t.branch, t.aligned
	same := len(b.tip.messages) == len(q.messages)
	t.before = b.answer
	b.concurrent = b.inFlight > 0 && (b.concurrent || !a.whole || !same)
	t.repeated, b.resent = b.resent, a.whole && same
	if o := b.newest; in.Conversation != "" && o != nil && !o.ended && o.overtaken == nil && !b.resent {
		o.overtaken = &Overtaker{Exchange: in.Exchange, Instance: in.Instance, Sent: in.Sent}
	}
	t.was = int32(len(b.tip.body()))
	t.shrunk = a.known && !a.whole && t.before != nil && t.before.exchange == t.previous && t.length < int(t.was) && q.sameLead(&b.tip) &&
		t.pSource.target.Dialect == in.Target.Dialect
}

// Apart reports whether the request shares nothing with the rest of its conversation, as side calls of an agent do.
func (t *Turn) Apart() bool { return t.Branch != "" && t.p == nil }

// MinSeq returns the oldest sequence on which the conversation depends.
func (t *Turn) MinSeq() uint64 { return t.conv.minSeq() }

// Kept returns the value that Keep attached to the conversation, or nil. It is forgotten with the conversation.
func (t *Turn) Kept() any { return t.conv.kept }

// Keep attaches v to the conversation, replacing the previous value. bytes is the approximate size of v.
func (s *Store) Keep(t *Turn, v any, bytes int64) {
	t.conv.kept, t.conv.keptBytes = v, bytes
	s.account(t.conv)
}

// Lead returns the number of leading system and developer messages.
func (t *Turn) Lead() int { return t.q.lead }

// New returns the index of the first message that the previous request does not contain; 0 if that request is unknown.
func (t *Turn) New() int {
	if !t.aligned.known {
		return 0
	}
	return t.q.lead + t.aligned.prefix
}

// Key returns a key made of the length and the end of the history of t, so that a repeated request has the same key.
func (t *Turn) Key() string { return strconv.FormatUint(mix(t.last, uint64(t.length)), 16) }

// Identity returns a hash of message i that stays the same when the message is sent again. It does not depend on bytes that
// move with the history, such as cache marks, or on how an SDK reformats an assistant message.
func (t *Turn) Identity(i int) uint64 {
	m := &t.q.messages[i]
	if m.role != facts.RoleAssistant {
		return m.hash
	}
	for _, c := range t.q.callsOf(m) {
		if c.id != 0 {
			return mix(c.id, uint64(m.item))
		}
	}
	if m.text != 0 && !m.noText {
		return m.text
	}
	return m.hash
}

// Unmarked returns the hash of message i without the cache marks that agents move as a history grows. For a message without
// marks, this is the hash of its bytes.
func (t *Turn) Unmarked(i int) uint64 { return t.q.messages[i].hash }

// ToolName returns the name of the newest call with this id in the conversation, or "".
func (t *Turn) ToolName(callID string) string {
	if c := t.call(hashName(callID)); c != nil {
		return c.Name
	}
	return ""
}

// call returns the call to which id refers in the request: the call of the previous answer, or else the newest one.
func (t *Turn) call(id uint64) *Call {
	if id == 0 {
		return nil
	}
	if t.before != nil {
		if c := t.before.call(id); c != nil {
			return c
		}
	}
	return t.conv.calls[id]
}

// A Streak is a run of refused requests of a branch that all have the same defect.
type Streak struct {
	Defect      [16]byte
	Exchange    string // exchange of the first refused request
	Since       time.Time
	Refused     int // number of refused requests
	FirstLength int // number of messages of the first request
	Length      int // number of messages of the newest request
	Reported    int // value of Refused at the last report; 0 if not reported
}

// Streak returns the streak of the branch of t, or nil.
func (t *Turn) Streak() *Streak { return t.branch.streak }

// SetStreak sets the streak of the branch of t; nil ends the streak.
func (t *Turn) SetStreak(s *Streak) { t.branch.streak = s }

// An Overtaker is a request that continues a history before the answer to the previous request has ended.
type Overtaker struct {
	Exchange, Instance string
	Sent               time.Time // send time by the clock of its process
}

// Overtaken returns the first other request that continued the history of t while t was in flight, or nil. It is always nil
// for conversations without a given id.
func (t *Turn) Overtaken() *Overtaker { return t.overtaken }

// Shrunk reports whether the history lost more messages than it gained since the previous answer. from and to are the previous and
// current lengths of the history, without the leading system messages. A request does not count as shrunk if it returns to an earlier point of
// the history or removes messages that were refused.
func (t *Turn) Shrunk() (from, to int, ok bool) { return int(t.was), t.length, t.shrunk }
