package session

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

type key struct{ service, id string }

// conversation is one conversation of one service.
type conversation struct {
	key       key
	resumed   []string  // other given ids under which the conversation continued
	branches  []*branch // least recently used first
	first     branch    // the first of branches, in most conversations the only one
	slot      [1]*branch
	calls     map[uint64]*Call
	order     []uint64 // ids of calls, oldest first; a reused id occurs twice
	text      int      // total bytes of the ids and names of calls
	instances map[[16]byte]*Instance
	keys      []uint64 // keys in Store.byAnswer, oldest first
	named     []uint64 // keys in Store.named, oldest first
	processes []uint64 // keys in Store.pending
	pending   int      // approximate size of its answers there
	source    *source  // source of the newest request
	early     []earlyToolEvent

	shortfalls []shortfall // oldest first

	moves     int // number of changes of the process that sends the requests
	bytes     int64
	most      int   // largest number of replies to one answer with several calls
	open      int32 // number of calls that still await a reply (see Call.awaits)
	inferred  bool
	tools     bool // the agent reports the start and end of tools
	forgotten bool // the store has removed the conversation
	kept      any  // value attached by the caller
	keptBytes int64

	used, made expiry.Place[conversation] // in Store.byUse and Store.byAge
}

// source identifies the sender of a request and its target.
type source struct {
	instance, run string
	target        wire.Target
	shaped        bool
}

// branch is one history of a conversation: its newest request and its newest answer.
type branch struct {
	name       string
	tip        skeleton // the newest request
	exchange   string   // exchange of tip
	source     *source
	answer     *answer
	active     time.Time // time of the newest request or answer
	inFlight   int32     // number of requests that are not completed
	concurrent bool      // two different requests were in flight at the same time
	resent     bool      // the newest request was sent more than once, so it may have several answers
	newest     *Turn
	streak     *Streak
	steps      *steps             // nil if no step may be repeated
	cache      promptcache.Prompt // of the newest request with a known use of the cache
}

// conversation finds or creates the conversation of a request.
func (s *Store) conversation(in *Request, q *skeleton, named *namedAnswer) *conversation {
	k := key{in.Service, in.Conversation}
	given := k.id != ""
	minSeq, known := in.MinSeq, uint64(0)
	c := s.convs[k]
	if c == nil || !given {
		if named != nil {
			c, minSeq = named.conv, min(minSeq, named.conv.minSeq())
		} else {
			c, minSeq, known = s.infer(in, q)
		}
		if c != nil && given { // the conversation continues under a new id
			c.resume(s, k)
		}
		if !given {
			k.id = "inferred-" + in.Exchange
		}
	}
	if c == nil {
		c = s.convs[k]
	}
	if c == nil {
		c = &conversation{key: k, inferred: !given}
		s.convs[k] = c
		s.byUse.Add(c, &c.used, 0, in.Time)
		s.byAge.Add(c, &c.made, math.MaxUint64, in.Time)
		if known != 0 { // c may be the conversation that sent this history
			s.index(c, known)
		}
	}
	c.made.Lower(minSeq)
	return c
}

// minSeq returns the oldest sequence on which the conversation depends.
func (c *conversation) minSeq() uint64 { return c.made.MinSeq }

// resume registers another given id of c.
func (c *conversation) resume(s *Store, k key) {
	if len(c.resumed) == maxResumed {
		delete(s.convs, key{k.service, c.resumed[0]})
		c.resumed = append(c.resumed[:0], c.resumed[1:]...)
	}
	c.resumed = append(c.resumed, k.id)
	s.convs[k] = c
}

// sent stores the source of a request as the newest source of c and returns it.
func (c *conversation) sent(in *Request) *source {
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

// newBranch starts a branch whose history differs from those of the other branches after n messages of its body.
func (c *conversation) newBranch(q *skeleton, n int) *branch {
	b := &c.first
	if c.branches == nil {
		c.branches = c.slot[:0]
	} else {
		b = new(branch)
	}
	if len(c.branches) > 0 {
		b.name = strconv.FormatUint(q.chain(max(n, 1)), 16)
	}
	if len(c.branches) == maxBranches {
		c.branches = append(c.branches[:0], c.branches[1:]...)
	}
	c.branches = append(c.branches, b)
	return b
}

func (c *conversation) has(b *branch) bool { return slices.Contains(c.branches, b) }

// use makes b the most recently used branch.
func (c *conversation) use(b *branch) {
	i := slices.Index(c.branches, b)
	c.branches = append(append(c.branches[:i], c.branches[i+1:]...), b)
}

// predecessor finds the branch to which q belongs and how q continues its newest request; b is nil if there is none. If
// continues is false, q shares only its start or a call with the branch, so q is the first request of a new branch.
func (c *conversation) predecessor(q *skeleton, src *source) (b *branch, a alignment, continues bool) {
	rank := 0
	for _, o := range slices.Backward(c.branches) { // newest first, so that the newest branch wins a tie
		oa := align(&o.tip, q, loose(o.source, src), o.answered())
		r := o.rank(q, oa)
		if r > rank || r == rank && r > 0 && oa.prefix > a.prefix {
			b, a, rank = o, oa, r
		}
	}
	if b == nil && len(c.branches) > 0 && c.knows(q) {
		b = c.branches[len(c.branches)-1]
		a = align(&b.tip, q, loose(b.source, src), b.answered())
	}
	return b, a, rank > 1
}

// rank returns how certain it is that q continues b: 0 not at all; 1 q shares the start of the newest request of b; 2 q
// contains the end of that request, or returns to an earlier point of it because it had no answer; 3 q contains its answer;
// 4 q contains the whole request; 5 q contains both.
func (b *branch) rank(q *skeleton, a alignment) int {
	// Two stages with the same first user message but different system prompts do not share a history.
	own := a.prefix > 1 || q.sameLead(&b.tip)
	whole := a.whole && own
	contains := b.answer != nil && q.contains(b.answer, b.messagesBefore(a))
	switch {
	case whole && contains:
		return 5
	case whole:
		return 4
	case contains:
		return 3
	case a.tail > 0, own && a.prefix > 0 && a.prefix == len(q.body()) && b.unanswered():
		return 2
	case a.prefix > 0:
		return 1
	}
	return 0
}

// unanswered reports whether the newest request of b ended without an answer.
func (b *branch) unanswered() bool {
	return b.inFlight == 0 && !b.answered()
}

// answered reports whether the newest answer of b is to its newest request.
func (b *branch) answered() bool { return b.answer != nil && b.answer.exchange == b.exchange }

// messagesBefore returns the number of messages in the body of a request that precede the answer of b. A message among them
// that looks like this answer is an older answer.
func (b *branch) messagesBefore(a alignment) int {
	if !b.answered() {
		return 0
	}
	return a.prefix
}

// loose reports whether texts of the two sources cannot be compared, because they are shapes published by two processes.
func loose(a, b *source) bool { return a != nil && (a.shaped || b.shaped) && a.instance != b.instance }

// knows reports whether q contains, or replies to, a call of c.
func (c *conversation) knows(q *skeleton) bool {
	if q.names && slices.ContainsFunc(c.branches, func(b *branch) bool {
		return b.answer != nil && q.contains(b.answer, 0) || slices.ContainsFunc(b.tip.calls, func(m callMark) bool { return slices.Contains(q.replies, m.name) })
	}) {
		return true
	}
	return len(c.calls) > 0 && (slices.ContainsFunc(q.replies, func(id uint64) bool { return c.calls[id] != nil }) ||
		slices.ContainsFunc(q.calls, func(m callMark) bool { return c.calls[m.id] != nil }))
}
