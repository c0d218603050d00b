package session

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// Config bounds the memory.
type Config struct {
	Lookback time.Duration // a conversation idle for longer is forgotten
	Bytes    int64         // of all conversations, estimated; the longest idle is forgotten first
}

// Bounds of one conversation. What goes beyond is forgotten oldest first, or not remembered.
const (
	maxLines     = 8
	maxCalls     = 4096
	maxAnswer    = 128 // calls of one answer that its copy is recognised by
	maxInstances = 4096
	maxKeys      = 1024 // answers by which an inferred conversation is found
	maxGivenKeys = 64   // the same of one with a given id, which needs them only when it goes on under another id
	maxResumed   = 16   // given ids of one conversation
	maxHolders   = 16   // conversations remembered for one answer
	maxProbes    = 256  // messages of a request that are looked up, newest first
)

// A Store remembers conversations. It is not safe for concurrent use.
type Store struct {
	cfg   Config
	convs map[key]*conversation
	found map[uint64]*conversation   // conversations by their answers; crowd where several gave the same
	crowd map[uint64][]*conversation // these, once there were two

	endings map[uint64]*ending // answers by service and response id, of dialects whose requests name them

	used, made list // of conversations: by last use, by first request; oldest first
	bytes      int64
	evicted    int

	scratch skeleton // of the request that Request reads; then of the request before it
	escaped []byte   // of hashSent
}

type key struct{ service, id string }

// conversation is one conversation of one service.
type conversation struct {
	key       key
	inferred  bool
	resumed   []string // other given ids under which it went on
	minSeq    uint64   // oldest sequence; never above that of a conversation made later
	lastUsed  time.Time
	lines     []*line // oldest use first
	calls     map[uint64]*Call
	order     []uint64 // of calls, oldest first; an id that was called again stands twice
	open      int      // calls that are not answered
	text      int      // bytes of the ids and names of calls
	instances map[[16]byte]*Instance
	keys      []uint64 // in Store.found, oldest first
	endings   []uint64 // in Store.endings, oldest first
	source    *source  // of its newest request
	tools     bool     // the agent tells when tools start and end
	ahead     []ahead
	moves     int // how often the process that sends its requests changed
	bytes     int64
	gone      bool // forgotten by the store
	kept      any  // by the caller
	keptBytes int64

	inUsed, inMade links
}

// source is who sent a request, and to whom.
type source struct {
	instance, run string
	target        wire.Target
	shaped        bool
}

// line is one history of a conversation: the newest request of it and the newest answer.
type line struct {
	branch   string
	tip      skeleton
	exchange string // of tip
	source   *source
	answer   *answer
	flying   int  // requests that are under way
	raced    bool // two different requests were under way at once
	resent   bool // the newest request was sent more than once, so it may have several answers
	newest   *Turn
	trouble  *Trouble
}

// New returns an empty Store.
func New(cfg Config) *Store {
	s := &Store{
		cfg: cfg, convs: make(map[key]*conversation), found: make(map[uint64]*conversation), crowd: make(map[uint64][]*conversation),
		endings: make(map[uint64]*ending),
	}
	s.used.of, s.made.of = func(c *conversation) *links { return &c.inUsed }, func(c *conversation) *links { return &c.inMade }
	return s
}

// In is a request as the store wants it.
type In struct {
	Seq          uint64
	MinSeq       uint64    // oldest sequence that the request was made from; Seq, if its body did not come in parts
	Time         time.Time // of the stream
	Seen         time.Time // of Call.AnsweredAt and Instance.Since: Time, but of recorded traffic when it was recorded
	Sent         time.Time // by the clock of the process that sent it
	Service      string
	Conversation string // given id, or ""
	Exchange     string
	Instance     string // the process that made the request; "" when that is not known
	Run          string // given id of the agent's run, or ""
	Fresh        bool   // it is the first request that its process made
	Shaped       bool   // the body is a shape; texts of two processes may have other hashes in it
	Target       wire.Target
	Facts        *facts.Request
	Body         []byte // that Facts were read from; needed until the next call of Store.Request, may be nil
}

// A Turn is one request in its conversation. RootCause can be asked until the next call of Store.Request; the rest
// stays valid.
type Turn struct {
	Conversation string  // the given id, else that of the conversation the request was found to belong to
	Root         string  // the conversation's first id: another one when it was resumed under a new id
	Inferred     bool    // no id was given
	Branch       string  // "" on the conversation's first line
	Changed      []*Call // calls that this request answered, or holds without a reply
	Dropped      []*Call // undecided calls of the answer before, after which this request was written and which it does not hold
	Superseded   []*Call // undecided calls of another process: the conversation went on from a newer answer

	conv     *conversation
	line     *line
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
	fit      fit
	p        *skeleton // the request before; nil when unknown
	pSource  *source   // its source
	q        *skeleton
	previous string // exchange of p

	facts *facts.Request
	body  []byte

	items  bool    // requests may name the answer that they build on
	names  bool    // replies name functions, not calls
	ending *ending // that this one names
	before *answer // to the request before

	overtaken *Overtaker
	twice     bool // the request before was sent more than once
	was       int  // messages of the body of the request before
	shrunk    bool // the history lost more of them than it gained
}

// Request remembers a request and returns its place in its conversation.
func (s *Store) Request(in In) *Turn {
	q := &s.scratch
	q.read(&in)
	named := s.ending(&in)
	c := s.conversation(&in, q, named)
	if in.Target.Dialect.Descriptor().Pairing.Names {
		q.byName(in.Facts, func(id uint64) bool { return c.calls[id] != nil })
	}
	src := c.sent(&in)
	l, f, continues := c.predecessor(q, src)
	if named != nil && named.conv == c && slices.Contains(c.lines, named.line) {
		l, continues = named.line, true
	}
	if in.Facts.Stored { // what it holds is not its whole history, so nothing is missing from that
		f = fit{tailEnd: -1}
	}
	t := &Turn{
		items: in.Target.Dialect.Descriptor().Pairing.Items, names: in.Target.Dialect.Descriptor().Pairing.Names, ending: named,
		Conversation: c.key.id, Root: c.key.id, Inferred: in.Conversation == "", conv: c, source: src, exchange: in.Exchange, seq: in.Seq, at: in.Seen,
		length: len(q.body()), fit: f, last: q.before(len(q.messages)), streamed: in.Facts.Stream, fresh: in.Fresh, forced: hashOrZero(in.Facts.Forced), facts: in.Facts, body: in.Body,
	}
	if in.Conversation != "" {
		t.Conversation = in.Conversation
	}
	if l != nil {
		t.previous, t.pSource = l.exchange, l.source
	}
	switch {
	case l == nil: // a new history, nothing shared with any before
		l = c.newLine(q, 0)
	case !continues:
		t.p = &l.tip
		l = c.newLine(q, f.prefix+1)
	default:
		t.p = &s.scratch // after the swap below
		c.touch(l)
	}
	t.line, t.Branch = l, l.branch
	if continues {
		t.before = l.answer
		same := len(l.tip.messages) == len(q.messages)
		l.raced = l.flying > 0 && (l.raced || !f.whole || !same)
		t.twice, l.resent = l.resent, f.whole && same
		l.overtakes(&in, f, same)
		t.was = len(l.tip.body())
		t.shrunk = f.known && !f.whole && t.before != nil && t.before.exchange == t.previous && t.length < t.was && q.sameLead(&l.tip) &&
			t.pSource.target.Dialect == in.Target.Dialect
	}
	if c.open > 0 {
		c.answerCalls(t, q, named != nil && continues && l == named.line)
	}
	l.tip, s.scratch = s.scratch, l.tip
	t.q = &l.tip
	l.exchange, l.source = in.Exchange, src
	l.flying++
	l.newest = t
	s.account(c)
	s.use(c, in.Time)
	return t
}

// Apart reports whether the request shares nothing with what was said in its conversation before: an agent's side call.
func (t *Turn) Apart() bool { return t.Branch != "" && t.p == nil }

// MinSeq is the oldest sequence that what is known of the conversation was made from.
func (t *Turn) MinSeq() uint64 { return t.conv.minSeq }

// sent is the source of a request, which c then knows as its newest.
func (c *conversation) sent(in *In) *source {
	src := source{in.Instance, in.Run, in.Target, in.Shaped}
	if old := c.source; old != nil {
		if *old == src {
			return old
		}
		if old.instance != src.instance {
			c.moves++
		}
	}
	c.source = &src
	return c.source
}

// Expire forgets the conversations that are idle since before now less the look-back.
func (s *Store) Expire(now time.Time) {
	for c := s.used.first; c != nil && now.Sub(c.lastUsed) > s.cfg.Lookback; c = s.used.first {
		s.forget(c)
	}
}

// MinSeq is the oldest sequence whose event the memory still needs; 0 when it is empty.
func (s *Store) MinSeq() uint64 {
	if s.made.first == nil {
		return 0
	}
	return s.made.first.minSeq
}

// Len is the number of ids of conversations remembered.
func (s *Store) Len() int { return len(s.convs) }

// Bytes is about how much memory they take.
func (s *Store) Bytes() int64 { return s.bytes }

// TakeEvicted returns the number of conversations evicted since the last call to stay within the bound.
func (s *Store) TakeEvicted() int {
	n := s.evicted
	s.evicted = 0
	return n
}

// conversation finds or makes the conversation of a request.
func (s *Store) conversation(in *In, q *skeleton, named *ending) *conversation {
	k := key{in.Service, in.Conversation}
	given := k.id != ""
	minSeq := in.MinSeq
	c := s.convs[k]
	if c == nil || !given {
		switch {
		case named != nil:
			c, minSeq = named.conv, min(minSeq, named.conv.minSeq)
		default:
			c, minSeq = s.infer(in, q)
		}
		if c != nil && given { // it goes on under a new id
			c.resume(s, k)
		}
		if !given {
			k.id = "inferred-" + in.Exchange
		}
	}
	if c == nil {
		c = s.convs[k]
	}
	if c != nil {
		s.lower(c, minSeq)
		return c
	}
	c = &conversation{key: k, inferred: !given, minSeq: math.MaxUint64, lastUsed: in.Time}
	s.convs[k] = c
	s.used.push(c)
	s.made.push(c)
	s.lower(c, minSeq)
	return c
}

// resume makes c known by another given id.
func (c *conversation) resume(s *Store, k key) {
	if len(c.resumed) == maxResumed {
		delete(s.convs, key{k.service, c.resumed[0]})
		c.resumed = append(c.resumed[:0], c.resumed[1:]...)
	}
	c.resumed = append(c.resumed, k.id)
	s.convs[k] = c
}

// lower makes c require a sequence. The conversations made before c then require it too, so that the first of all has the
// oldest: to read back further than needed is no harm.
func (s *Store) lower(c *conversation, minSeq uint64) {
	for ; c != nil && c.minSeq > minSeq; c = c.inMade.before {
		c.minSeq = minSeq
	}
}

func (s *Store) use(c *conversation, now time.Time) {
	if c.gone {
		return
	}
	c.lastUsed = now
	s.used.remove(c)
	s.used.push(c)
	for s.bytes > s.cfg.Bytes && s.used.first != c {
		s.forget(s.used.first)
		s.evicted++
	}
}

func (s *Store) forget(c *conversation) {
	c.gone = true
	delete(s.convs, c.key)
	for _, id := range c.resumed {
		delete(s.convs, key{c.key.service, id})
	}
	for _, k := range c.keys {
		s.unindex(c, k)
	}
	for _, k := range c.endings {
		delete(s.endings, k)
	}
	s.used.remove(c)
	s.made.remove(c)
	s.bytes -= c.bytes
}

// callBytes is about what a call costs, with its answer, what its caller keeps with it, and its places in maps.
const callBytes = 1024

// account estimates anew what c costs.
func (s *Store) account(c *conversation) {
	if c.gone {
		return
	}
	n := c.keptBytes + int64(640+len(c.calls)*callBytes+c.text+len(c.instances)*512+len(c.keys)*40+len(c.endings)*256+len(c.resumed)*96+len(c.ahead)*256)
	for _, l := range c.lines {
		n += 256 + int64(cap(l.tip.messages))*messageBytes + int64(cap(l.tip.ids))*markBytes + int64(cap(l.tip.answers))*8
	}
	s.bytes += n - c.bytes
	c.bytes = n
}

// newLine starts a line whose history leaves the known ones after n messages of its body.
func (c *conversation) newLine(q *skeleton, n int) *line {
	l := &line{}
	if len(c.lines) > 0 {
		l.branch = strconv.FormatUint(q.chain(max(n, 1)), 16)
	}
	if len(c.lines) == maxLines {
		c.lines = append(c.lines[:0], c.lines[1:]...)
	}
	c.lines = append(c.lines, l)
	return l
}

// touch makes l the newest line.
func (c *conversation) touch(l *line) {
	for i, o := range c.lines {
		if o == l {
			c.lines = append(append(c.lines[:i], c.lines[i+1:]...), l)
			return
		}
	}
}
