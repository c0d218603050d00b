package session

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Config contains the limits of a Store.
type Config struct {
	Lookback time.Duration // maximum idle time of a conversation
	Bytes    int64         // maximum estimated size of all conversations; the longest idle one is evicted first
}

// Limits of one conversation. Beyond a limit, the oldest entry is forgotten or new entries are not remembered.
const (
	maxBranches  = 8
	maxCalls     = 4096
	maxAnswer    = 128 // calls of one answer that identify its copy
	maxInstances = 4096
	maxKeys      = 1024 // keys by which an inferred conversation is found
	maxGivenKeys = 64   // keys of a conversation with a given id, needed only if it continues under another id
	maxResumed   = 16   // further given ids of one conversation
	maxHolders   = 16   // conversations remembered for one answer
	maxProbes    = 256  // messages of a request that are looked up in byAnswer, newest first
)

// A Store remembers conversations. It is not safe for concurrent use.
type Store struct {
	cfg   Config
	convs map[key]*conversation

	byAnswer  map[uint64]*conversation   // by key of an answer; see ambiguous if several conversations share the answer
	ambiguous map[uint64][]*conversation // the other conversations with the same key
	named     map[uint64]*namedAnswer    // by service and response id, for dialects whose requests can name an answer

	byUse   expiry.List[conversation] // ordered by last use
	byAge   expiry.List[conversation] // ordered by first request; never renewed
	bytes   int64
	evicted int

	pending map[uint64]*pendingAnswers // by service and process

	earlier promptcache.Earlier // of the newest request
	scratch skeleton            // skeleton of the request that Request reads, then of the previous request
	escaped []byte              // buffer of hashSent
	naming  naming

	byParallel map[string][]*conversation // by service: the newest conversations with replies to parallel calls, oldest first
}

// New returns an empty Store.
func New(cfg Config) *Store {
	return &Store{
		cfg: cfg, convs: make(map[key]*conversation), byAnswer: make(map[uint64]*conversation), ambiguous: make(map[uint64][]*conversation),
		named: make(map[uint64]*namedAnswer), pending: make(map[uint64]*pendingAnswers), byParallel: make(map[string][]*conversation),
		byUse: expiry.NewList[conversation](cfg.Lookback), byAge: expiry.NewList[conversation](0),
	}
}

// A Request is a request to remember.
type Request struct {
	Order        uint64    // number of the event, greater than that of any event before
	MinSeq       uint64    // oldest sequence in the stream of the events of the request
	Time         time.Time // stream time
	Seen         time.Time // time for Call.AnsweredAt and Instance.Since: Time, or the recording time of recorded traffic
	Sent         time.Time // send time by the clock of the sending process
	Service      string
	Conversation string // given id, or ""
	Exchange     string
	Code         string // where in the agent's code the call is made; "" if unknown
	Instance     string // process that sent the request; "" if unknown
	Run          string // given id of the agent's run, or ""
	Fresh        bool   // first request of its process
	Retry        bool   // the SDK sends the request again
	Shaped       bool   // the body is a shape, in which equal texts of two processes may have different hashes
	Target       wire.Target
	Facts        *facts.Request
	Body         []byte // source of Facts; may be nil, must stay valid until the next call of Store.Request
}

// Request adds a request to its conversation and returns its turn.
func (s *Store) Request(in Request) *Turn {
	q := &s.scratch
	q.read(&in)
	named := s.namedBy(&in)
	c := s.conversation(&in, q, named)
	if q.names {
		q.byName(in.Facts, func(id uint64) bool { return c.calls[id] != nil })
	}
	src := c.sent(&in)
	b, a, continues := c.predecessor(q, src)
	if named != nil && named.conv == c && c.has(named.branch) {
		b, continues = named.branch, true
	}
	if q.names {
		s.naming.name(&in, q, c, b, a, continues)
	}
	if in.Facts.Stored { // the provider stores a part of the history, so a shorter history is not a loss
		a = alignment{tailEnd: -1}
	}
	t := &Turn{
		store: s,
		items: in.Target.Dialect.Descriptor().Pairing.Items, names: q.names, threaded: in.Facts.Threaded, named: named,
		Conversation: c.key.id, Root: c.key.id, Inferred: in.Conversation == "", conv: c, source: src, exchange: in.Exchange, code: in.Code, seq: in.Order, at: in.Seen,
		length: len(q.body()), aligned: a, last: q.hashBefore(len(q.messages)), streamed: in.Facts.Stream, fresh: in.Fresh, forced: hashOrZero(in.Facts.Forced),
		facts: in.Facts, body: in.Body,
	}
	if in.Conversation != "" {
		t.Conversation = in.Conversation
	}
	s.earlier = promptcache.Earlier{}
	if b == nil && in.Conversation != "" {
		s.earlier = c.replaced(q)
	}
	if b != nil {
		t.previous, t.pSource = b.exchange, b.source
		s.earlier = b.prompt(&in, q, a, continues, loose(b.source, src))
	}
	switch {
	case b == nil: // a new history that shares nothing with the other branches
		b = c.newBranch(q, 0)
	case !continues:
		t.p = &b.tip
		b = c.newBranch(q, a.prefix+1)
	default:
		t.p = &s.scratch // valid after the swap below
		c.use(b)
	}
	t.branch, t.Branch = b, b.name
	if continues {
		t.continues(&in, q)
	}
	if c.open > 0 {
		c.answerCalls(t, q, named != nil && continues && b == named.branch)
		if n := t.before.repliedBy(t.seq); n > 1 || n == 1 && len(t.before.calls) > 1 {
			s.parallel(c, n)
		}
	}
	if c.open > 0 && t.p != nil && len(c.branches) > 1 {
		c.answerQuoted(t, q, &in)
	}
	b.tip, s.scratch = s.scratch, b.tip
	t.q = &b.tip
	b.exchange, b.source, b.newest, b.active = in.Exchange, src, t, in.Seen
	b.inFlight++
	if c.inferred {
		s.index(c, historyKey(in.Service, t.q.history()))
	}
	s.account(c)
	s.use(c, in.Time)
	return t
}

// End records that the exchange of t is completed, with or without an answer.
func (s *Store) End(t *Turn) {
	if !t.ended {
		t.ended = true
		if t.branch.inFlight--; t.branch.newest == t {
			t.branch.newest = nil
		}
	}
}

// Expire forgets the conversations that have been idle for longer than Config.Lookback.
func (s *Store) Expire(now time.Time) {
	for {
		if deadline, due := s.byUse.Due(now); !due || deadline.Equal(now) {
			return
		}
		s.forget(s.byUse.First())
	}
}

// MinSeq returns the oldest sequence on which the store depends, or 0 if it is empty.
func (s *Store) MinSeq() uint64 { return s.byAge.MinSeq() }

// Len returns the number of conversation ids.
func (s *Store) Len() int { return len(s.convs) }

// Bytes returns the estimated size of all conversations.
func (s *Store) Bytes() int64 { return s.bytes }

// HalfFull reports whether the conversations use half of Config.Bytes, so that memory is to be left to them.
func (s *Store) HalfFull() bool { return s.bytes >= s.cfg.Bytes/2 }

// TakeEvicted returns the number of conversations evicted since the previous call because of Config.Bytes.
func (s *Store) TakeEvicted() int {
	n := s.evicted
	s.evicted = 0
	return n
}

// callBytes is the approximate size of a call with its answer, the context of the caller and its map entries.
const callBytes = 1024

// keyBytes is the approximate size of a key with its entries in Store.byAnswer and Store.ambiguous, and processBytes that of
// a process with its entry in Store.pending.
const (
	keyBytes     = 64
	processBytes = 128
	codeBytes    = 16 // a place in the agent's code, whose text all conversations share
)

// account updates the estimated size of c.
func (s *Store) account(c *conversation) {
	if c.forgotten {
		return
	}
	n := c.keptBytes + int64(640+len(c.calls)*callBytes+c.text+len(c.instances)*(512+2*codeBytes)+len(c.keys)*keyBytes+len(c.named)*256+len(c.resumed)*96+len(c.early)*256+len(c.processes)*processBytes+c.pending+len(c.shortfalls)*32)
	for _, b := range c.branches {
		n += 256 + promptcache.PromptBytes + 2*codeBytes + int64(cap(b.tip.messages))*messageBytes + int64(cap(b.tip.calls))*callMarkBytes + int64(cap(b.tip.replies))*8
		if b.steps != nil {
			n += loopBytes
		}
	}
	s.bytes += n - c.bytes
	c.bytes = n
}

// use records that c was used at now, and evicts the longest idle conversations while the store exceeds Config.Bytes.
func (s *Store) use(c *conversation, now time.Time) {
	if c.forgotten {
		return
	}
	s.byUse.Renew(&c.used, now)
	for s.bytes > s.cfg.Bytes && s.byUse.First() != c {
		s.forget(s.byUse.First())
		s.evicted++
	}
}

func (s *Store) forget(c *conversation) {
	c.forgotten = true
	delete(s.convs, c.key)
	for _, id := range c.resumed {
		delete(s.convs, key{c.key.service, id})
	}
	for _, k := range c.keys {
		s.unindex(c, k)
	}
	for _, k := range c.named {
		delete(s.named, k)
	}
	s.unawait(c)
	s.forgetParallel(c)
	s.byUse.Remove(&c.used)
	s.byAge.Remove(&c.made)
	s.bytes -= c.bytes
}
