package session

import (
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A Turn is one request in its conversation. RootCause can be called until the next call of Store.Request; the rest
// stays valid.
type Turn struct {
	Conversation string  // the given id, else that of the conversation that the request was found to belong to
	Root         string  // the conversation's first id: another one when it was resumed under a new id
	Inferred     bool    // no id was given
	Branch       string  // "" on the conversation's first branch
	Changed      []*Call // calls that this request answered, or contains without a reply
	Dropped      []*Call // undecided calls of the answer before, after which this request was written and which it does not contain
	Superseded   []*Call // undecided calls of another process: the conversation continued from a newer answer

	conv     *conversation
	branch   *branch
	source   *source
	exchange string
	seq      uint64
	at       time.Time
	length   int    // of the body
	last     uint64 // hash of its last message
	streamed bool
	fresh    bool
	ended    bool

	forced   uint64  // name of the function that the model must call; 0 when it is free
	resent   []*Call // rejected calls whose reply is sent again
	aligned  alignment
	p        *skeleton // the request before; nil when unknown
	pSource  *source   // of p
	q        *skeleton
	previous string // exchange of p

	facts *facts.Request
	body  []byte

	items  bool         // requests may name the answer that they build on
	names  bool         // replies name functions, not calls
	named  *namedAnswer // that the request names
	before *answer      // to the request before

	overtaken *Overtaker
	repeated  bool // the request before was sent more than once
	was       int  // messages of the body of the request before
	shrunk    bool // the history lost more of them than it gained
}

// continues records that the request continues the branch of t.
func (t *Turn) continues(in *Request, q *skeleton) {
	b, a := t.branch, t.aligned
	same := len(b.tip.messages) == len(q.messages)
	t.before = b.answer
	b.concurrent = b.inFlight > 0 && (b.concurrent || !a.whole || !same)
	t.repeated, b.resent = b.resent, a.whole && same
	if o := b.newest; in.Conversation != "" && o != nil && !o.ended && o.overtaken == nil && !b.resent {
		o.overtaken = &Overtaker{Exchange: in.Exchange, Instance: in.Instance, Sent: in.Sent}
	}
	t.was = len(b.tip.body())
	t.shrunk = a.known && !a.whole && t.before != nil && t.before.exchange == t.previous && t.length < t.was && q.sameLead(&b.tip) &&
		t.pSource.target.Dialect == in.Target.Dialect
}

// Apart reports whether the request shares nothing with its conversation: it is a side call of the agent.
func (t *Turn) Apart() bool { return t.Branch != "" && t.p == nil }

// MinSeq returns the oldest sequence that the conversation was made from.
func (t *Turn) MinSeq() uint64 { return t.conv.minSeq() }

// Kept returns what the caller keeps with the conversation; nil at first. It is forgotten with the conversation.
func (t *Turn) Kept() any { return t.conv.kept }

// Keep keeps v, of about so many bytes, with the conversation.
func (s *Store) Keep(t *Turn, v any, bytes int64) {
	t.conv.kept, t.conv.keptBytes = v, bytes
	s.account(t.conv)
}

// Lead returns the number of leading system and developer messages.
func (t *Turn) Lead() int { return t.q.lead }

// New returns the index of the first message that the request before did not have; 0 when none is known.
func (t *Turn) New() int {
	if !t.aligned.known {
		return 0
	}
	return t.q.lead + t.aligned.prefix
}

// Key identifies the request of t by the length and the end of its history, so that a request that is sent again has the
// same key.
func (t *Turn) Key() string { return strconv.FormatUint(mix(t.last, uint64(t.length)), 16) }

// Identity returns a hash that message i keeps when it is sent again: bytes that move with the history, such as cache
// marks, do not count, nor how an SDK rewrites a message.
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

// Unmarked returns the hash of message i without the cache marks that agents move as a history grows. Without marks it is
// the hash of its bytes.
func (t *Turn) Unmarked(i int) uint64 { return t.q.messages[i].hash }

// ToolName returns the name of the newest call with this id in the conversation, or "".
func (t *Turn) ToolName(callID string) string {
	if c := t.call(hashName(callID)); c != nil {
		return c.Name
	}
	return ""
}

// call returns the call with id that the request means: of the answer before it, else the newest.
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

// A Streak is the defect that each request of a branch has shown since its requests began to be refused.
type Streak struct {
	Defect      [16]byte
	Exchange    string // the first refused request
	Since       time.Time
	Refused     int // requests
	FirstLength int // messages of the first
	Length      int // messages of the newest
	Reported    int // refused requests when it was reported
}

// Streak returns the streak of the branch of t; nil when its newest request was accepted.
func (t *Turn) Streak() *Streak { return t.branch.streak }

// SetStreak sets the streak of the branch of t; nil ends it.
func (t *Turn) SetStreak(s *Streak) { t.branch.streak = s }

// An Overtaker is a request that was sent into a history before the answer to the request before had ended.
type Overtaker struct {
	Exchange, Instance string
	Sent               time.Time // by the clock of its process
}

// Overtaken returns the first other request that was sent into the history of t while t was in flight, or nil. It is nil
// for conversations without a given id.
func (t *Turn) Overtaken() *Overtaker { return t.overtaken }

// Shrunk reports whether the history lost more messages than it gained since the answer before: from and to are its
// lengths without the leading system messages. A request that returns to an earlier point of the history, or removes what
// was refused, does not shrink it.
func (t *Turn) Shrunk() (from, to int, ok bool) { return t.was, t.length, t.shrunk }
