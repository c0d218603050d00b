package session

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
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
	maxHolders   = 16   // conversations remembered for one answer
	maxProbes    = 256  // messages of a request that are looked up, newest first
)

// A Store remembers conversations. It is not safe for concurrent use.
type Store struct {
	cfg   Config
	convs map[key]*conversation
	found map[uint64][]*conversation // inferred conversations by their answers

	endings map[uint64]*ending // answers by service and response id, of dialects whose requests name them

	used, made list // of conversations: by last use, by first request; oldest first
	bytes      int64
	evicted    uint64

	scratch skeleton // of the request that Request reads; then of the request before it
}

type key struct{ service, id string }

// conversation is one conversation of one service.
type conversation struct {
	key       key
	inferred  bool
	need      uint64 // oldest sequence; never above that of a conversation made later
	lastUsed  time.Time
	lines     []*line // oldest use first
	calls     map[uint64]*Call
	order     []uint64 // of calls, oldest first; an id that was called again stands twice
	open      int      // calls that are not answered
	text      int      // bytes of the ids and names of calls
	instances map[[16]byte]*Instance
	keys      []uint64 // in Store.found
	endings   []uint64 // in Store.endings, oldest first
	bytes     int64
	gone      bool // forgotten by the store

	inUsed, inMade links
}

// line is one history of a conversation: the newest request of it and the newest answer.
type line struct {
	branch   string
	tip      skeleton
	exchange string // of tip
	answer   *answer
}

// answer is what is kept of one answer of the model.
type answer struct {
	exchange string
	seq      uint64 // of its request
	after    int    // messages of its request's body: where its copy belongs
	text     uint64
	noText   bool
	calls    []uint64
	signed   []facts.Signed
}

// New returns an empty Store.
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, convs: make(map[key]*conversation), found: make(map[uint64][]*conversation), endings: make(map[uint64]*ending)}
	s.used.of, s.made.of = func(c *conversation) *links { return &c.inUsed }, func(c *conversation) *links { return &c.inMade }
	return s
}

// In is a request as the store wants it.
type In struct {
	Seq          uint64
	Need         uint64    // oldest sequence that the request was made from; Seq, if its body did not come in parts
	Time         time.Time // of the stream
	Seen         time.Time // of Call.AnsweredAt and Instance.Since: Time, but of recorded traffic when it was recorded
	Service      string
	Conversation string // given id, or ""
	Exchange     string
	Dialect      facts.Dialect
	Facts        *facts.Request
}

// A Turn is one request in its conversation. RootCause can be asked until the next call of Store.Request; the rest
// stays valid.
type Turn struct {
	Conversation string
	Inferred     bool
	Branch       string  // "" on the conversation's first line
	Changed      []*Call // calls that this request answered or left without a reply

	conv     *conversation
	line     *line
	exchange string
	seq      uint64
	at       time.Time
	length   int    // of the body
	last     uint64 // hash of its last message

	fit      fit
	p        *skeleton // the request before; nil when unknown
	q        *skeleton
	previous string // exchange of p

	items  bool    // requests may name the answer that they build on
	ending *ending // that this one names
	before *answer // to the request before
}

// Request remembers a request and returns its place in its conversation.
func (s *Store) Request(in In) *Turn {
	q := &s.scratch
	q.read(in.Facts)
	named := s.ending(&in)
	c := s.conversation(&in, q, named)
	l, f, continues := c.predecessor(q)
	if named != nil && named.conv == c && slices.Contains(c.lines, named.line) {
		l, continues = named.line, true
	}
	if in.Facts.Stored { // what it holds is not its whole history, so nothing is missing from that
		f = fit{tailEnd: -1}
	}
	t := &Turn{
		items: in.Dialect == facts.OpenAIResponses, ending: named,
		Conversation: c.key.id, Inferred: c.inferred, conv: c, exchange: in.Exchange, seq: in.Seq, at: in.Seen, length: len(q.body()), fit: f,
		last: q.before(len(q.messages)),
	}
	if l != nil {
		t.previous = l.exchange
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
	}
	if c.open > 0 {
		t.Changed = c.answerCalls(q, t.before, f, named != nil && continues && l == named.line, &in)
	}
	l.tip, s.scratch = s.scratch, l.tip
	t.q = &l.tip
	l.exchange = in.Exchange
	s.account(c)
	s.use(c, in.Time)
	return t
}

// Answer remembers the answer to t and returns the calls in it; need is the oldest sequence that it was made from.
// Asker is kept with the calls for the caller.
func (s *Store) Answer(t *Turn, r *facts.Response, need uint64, at time.Time, asker any) []*Call {
	c := t.conv
	s.lower(c, need)
	a := &answer{
		exchange: t.exchange, seq: t.seq, after: t.length, text: r.ContentHash,
		noText: r.ContentBytes == 0, signed: slices.Clone(r.Signed),
	}
	calls := make([]*Call, 0, len(r.Calls))
	for i := range r.Calls {
		rc := &r.Calls[i]
		call := &Call{
			CallID: rc.ID, Name: rc.Name, Position: i, Exchange: t.exchange, Conversation: t.Conversation, AskedAt: at,
			State: Open, Asker: asker, answer: a,
		}
		calls = append(calls, call)
		if rc.ID == "" {
			continue
		}
		h := hashName(rc.ID)
		if len(a.calls) < maxAnswer {
			a.calls = append(a.calls, h)
		}
		c.remember(h, call)
		if c.inferred {
			s.index(c, callKey(c.key.service, h, len(rc.ID), t.last))
		}
	}
	if c.inferred && r.ContentBytes > minText && r.ContentHash != 0 {
		s.index(c, pairKey(c.key.service, r.ContentHash, t.last))
	}
	if t.line.answer == nil || t.line.answer.seq <= a.seq {
		t.line.answer = a
	}
	if t.items {
		s.remember(c, t.line, r)
	}
	s.account(c)
	return calls
}

// Expire forgets the conversations that are idle since before now less the look-back.
func (s *Store) Expire(now time.Time) {
	for c := s.used.first; c != nil && now.Sub(c.lastUsed) > s.cfg.Lookback; c = s.used.first {
		s.forget(c)
	}
}

// Need is the oldest sequence whose event the memory still needs; 0 when it is empty.
func (s *Store) Need() uint64 {
	if s.made.first == nil {
		return 0
	}
	return s.made.first.need
}

// Len is the number of conversations remembered.
func (s *Store) Len() int { return len(s.convs) }

// Bytes is about how much memory they take.
func (s *Store) Bytes() int64 { return s.bytes }

// Evicted counts the conversations forgotten for want of memory.
func (s *Store) Evicted() uint64 { return s.evicted }

// conversation finds or makes the conversation of a request.
func (s *Store) conversation(in *In, q *skeleton, named *ending) *conversation {
	k := key{in.Service, in.Conversation}
	inferred := k.id == ""
	need := in.Need
	var c *conversation
	switch {
	case inferred && named != nil:
		c, need = named.conv, min(need, named.conv.need)
	case inferred:
		if c, need = s.infer(in, q); c == nil {
			k.id = "inferred-" + in.Exchange
		}
	}
	if c == nil {
		c = s.convs[k]
	}
	if c != nil {
		s.lower(c, need)
		return c
	}
	c = &conversation{key: k, inferred: inferred, need: math.MaxUint64, lastUsed: in.Time}
	s.convs[k] = c
	s.used.push(c)
	s.made.push(c)
	s.lower(c, need)
	return c
}

// lower makes c need a sequence. The conversations made before c then need it too, so that the first of all has the
// oldest: to read back further than needed is no harm.
func (s *Store) lower(c *conversation, need uint64) {
	for ; c != nil && c.need > need; c = c.inMade.before {
		c.need = need
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
	for _, k := range c.keys {
		if holders := s.found[k]; len(holders) > 1 {
			s.found[k] = slices.DeleteFunc(holders, func(h *conversation) bool { return h == c })
		} else {
			delete(s.found, k)
		}
	}
	for _, k := range c.endings {
		delete(s.endings, k)
	}
	s.used.remove(c)
	s.made.remove(c)
	s.bytes -= c.bytes
}

// account estimates anew what c costs.
func (s *Store) account(c *conversation) {
	if c.gone {
		return
	}
	n := int64(512 + len(c.calls)*320 + c.text + len(c.instances)*512 + len(c.keys)*40 + len(c.endings)*256)
	for _, l := range c.lines {
		n += 256 + int64(cap(l.tip.messages))*skeletonBytes + int64(cap(l.tip.ids)+cap(l.tip.answers))*8
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
