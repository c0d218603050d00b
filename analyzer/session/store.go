package session

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// Config bounds the memory.
type Config struct {
	Lookback time.Duration // a conversation that is idle for longer is forgotten
	Bytes    int64         // of all conversations, estimated; the one that is idle longest is evicted first
}

// Bounds of one conversation. Beyond them, the oldest is forgotten, or nothing more is remembered.
const (
	maxBranches  = 8
	maxCalls     = 4096
	maxAnswer    = 128 // calls of one answer by which its copy is recognized
	maxInstances = 4096
	maxKeys      = 1024 // answers by which an inferred conversation is found
	maxGivenKeys = 64   // the same for one with a given id, which needs them only to continue under another id
	maxResumed   = 16   // given ids of one conversation
	maxHolders   = 16   // conversations remembered for one answer
	maxProbes    = 256  // messages of a request that are looked up, newest first
)

// A Store remembers conversations. It is not safe for concurrent use.
type Store struct {
	cfg   Config
	convs map[key]*conversation

	byAnswer  map[uint64]*conversation   // by the keys of their answers; in ambiguous too if several gave the same answer
	ambiguous map[uint64][]*conversation // the other conversations with the answer
	named     map[uint64]*namedAnswer    // by service and response id, for dialects whose requests name an answer

	byUse   *expiry.Queue[*conversation, struct{}] // by last use
	byAge   *expiry.Queue[*conversation, struct{}] // by first request; never renewed
	bytes   int64
	evicted int

	scratch skeleton // of the request that Request reads, then of the request before it
	escaped []byte   // of hashSent
}

// New returns an empty Store.
func New(cfg Config) *Store {
	return &Store{
		cfg: cfg, convs: make(map[key]*conversation), byAnswer: make(map[uint64]*conversation), ambiguous: make(map[uint64][]*conversation),
		named: make(map[uint64]*namedAnswer),
		byUse: expiry.NewQueue[*conversation, struct{}](cfg.Lookback), byAge: expiry.NewQueue[*conversation, struct{}](0),
	}
}

// A Request is a request to remember.
type Request struct {
	Seq          uint64
	MinSeq       uint64    // oldest sequence that the request was made from; Seq, unless its body arrived in parts
	Time         time.Time // of the stream
	Seen         time.Time // for Call.AnsweredAt and Instance.Since: Time, or the recording time of recorded traffic
	Sent         time.Time // by the clock of the process that sent it
	Service      string
	Conversation string // given id, or ""
	Exchange     string
	Instance     string // the process that made the request; "" when unknown
	Run          string // given id of the agent's run, or ""
	Fresh        bool   // it is the first request of its process
	Shaped       bool   // the body is a shape; texts of two processes may have different hashes in it
	Target       wire.Target
	Facts        *facts.Request
	Body         []byte // that Facts were read from; needed until the next call of Store.Request, may be nil
}

// Request adds a request to its conversation and returns its turn.
func (s *Store) Request(in Request) *Turn {
	q := &s.scratch
	q.read(&in)
	named := s.namedBy(&in)
	c := s.conversation(&in, q, named)
	if in.Target.Dialect == wire.Gemini {
		q.byName(in.Facts, func(id uint64) bool { return c.calls[id] != nil })
	}
	src := c.sent(&in)
	b, a, continues := c.predecessor(q, src)
	if named != nil && named.conv == c && c.has(named.branch) {
		b, continues = named.branch, true
	}
	if in.Facts.Stored { // it does not contain its whole history, so nothing is missing from it
		a = alignment{tailEnd: -1}
	}
	t := &Turn{
		items: in.Target.Dialect == wire.OpenAIResponses, names: in.Target.Dialect == wire.Gemini, named: named,
		Conversation: c.key.id, Root: c.key.id, Inferred: in.Conversation == "", conv: c, source: src, exchange: in.Exchange, seq: in.Seq, at: in.Seen,
		length: len(q.body()), aligned: a, last: q.hashBefore(len(q.messages)), streamed: in.Facts.Stream, fresh: in.Fresh, forced: hashOrZero(in.Facts.Forced),
		facts: in.Facts, body: in.Body,
	}
	if in.Conversation != "" {
		t.Conversation = in.Conversation
	}
	if b != nil {
		t.previous, t.pSource = b.exchange, b.source
	}
	switch {
	case b == nil: // a new history that shares nothing with another
		b = c.newBranch(q, 0)
	case !continues:
		t.p = &b.tip
		b = c.newBranch(q, a.prefix+1)
	default:
		t.p = &s.scratch // after the swap below
		c.use(b)
	}
	t.branch, t.Branch = b, b.name
	if continues {
		t.continues(&in, q)
	}
	if c.open > 0 {
		c.answerCalls(t, q, named != nil && continues && b == named.branch)
	}
	b.tip, s.scratch = s.scratch, b.tip
	t.q = &b.tip
	b.exchange, b.source, b.newest = in.Exchange, src, t
	b.inFlight++
	s.account(c)
	s.use(c, in.Time)
	return t
}

// End records that the exchange of t is completed, answered or not.
func (s *Store) End(t *Turn) {
	if !t.ended {
		t.ended = true
		if t.branch.inFlight--; t.branch.newest == t {
			t.branch.newest = nil
		}
	}
}

// Expire forgets the conversations that have been idle for longer than the look-back.
func (s *Store) Expire(now time.Time) {
	for {
		if deadline, due := s.byUse.Due(now); !due || deadline.Equal(now) {
			return
		}
		s.forget(s.byUse.First().Key)
	}
}

// MinSeq returns the oldest sequence that the memory was made from, or 0.
func (s *Store) MinSeq() uint64 { return s.byAge.MinSeq() }

// Len returns the number of ids of conversations.
func (s *Store) Len() int { return len(s.convs) }

// Bytes returns the estimated size of the conversations.
func (s *Store) Bytes() int64 { return s.bytes }

// TakeEvicted returns the number of conversations evicted since the last call to stay within the bound.
func (s *Store) TakeEvicted() int {
	n := s.evicted
	s.evicted = 0
	return n
}

// callBytes is the approximate size of a call, with its answer, its caller's context and its entries in maps.
const callBytes = 1024

// account updates the estimated size of c.
func (s *Store) account(c *conversation) {
	if c.forgotten {
		return
	}
	n := c.keptBytes + int64(640+len(c.calls)*callBytes+c.text+len(c.instances)*512+len(c.keys)*40+len(c.named)*256+len(c.resumed)*96+len(c.early)*256)
	for _, b := range c.branches {
		n += 256 + int64(cap(b.tip.messages))*messageBytes + int64(cap(b.tip.calls))*callMarkBytes + int64(cap(b.tip.replies))*8
	}
	s.bytes += n - c.bytes
	c.bytes = n
}

// use records that c was used now, and evicts the longest idle conversations beyond the bound.
func (s *Store) use(c *conversation, now time.Time) {
	if c.forgotten {
		return
	}
	s.byUse.Renew(c.used, now)
	for s.bytes > s.cfg.Bytes && s.byUse.First() != c.used {
		s.forget(s.byUse.First().Key)
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
	s.byUse.Take(c)
	s.byAge.Take(c)
	s.bytes -= c.bytes
}
