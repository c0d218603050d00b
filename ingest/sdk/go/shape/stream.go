package shape

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Limits on the memory for the fragments of a stream. Fragments beyond them are shaped one by one.
const (
	maxFragments = 1 << 18
	maxGroups    = 1 << 14
	maxCalls     = 1 << 10 // maximum number of calls of a choice, because each fragment is compared with all of them
)

// doneData is the last data of a stream of chat completions. It is copied unchanged.
var doneData = []byte(wire.OpenAIChat.Descriptor().LastData)

// stream is the state of shaping a stream.
type stream struct {
	slots [maxSlots]uint64 // hashes of the values that joins refer to, in the current event and its elements
	head  callHead         // head of the current tool call

	pending   []pending // fragments of the current data; dropped if the data is not JSON
	fragments []fragment
	groups    []group
	byKey     map[uint64]int
	lastCall  map[uint64]int // 1 + latest group of tool calls, by choice
	runs      map[uint64]run
	patches   []patch
	tail      []byte // texts of the patches
	joined    []byte // text of a group
	whole     []byte // patched output
	framed    []frame
}

// A callHead identifies the tool call of an element. Its values are hashes; 0 means absent.
type callHead struct {
	id, index uint64
	named     bool
}

// A pending is a fragment of an event that is not assigned to a group yet, or this is an element without a fragment.
type pending struct {
	join            *join
	gap             bool // an element without a fragment
	args            bool
	out, start, end int
	part, key       uint64 // hashes of the join's values: part of those that identify the part of a run, key of all others
	head            callHead
}

// A fragment is a string that is replaced by two quotes in out.
type fragment struct {
	out, start, end int32
	next            int32 // 1 + index of the next fragment of the group; 0: none
}

// A group is a text that consists of several fragments.
type group struct {
	join        *join
	args        bool
	first, last int32 // 1 + index of a fragment; 0: none
	place       int32 // 1 + index of the fragment that the shape replaces

	// Only for tool calls:
	head callHead
	prev int  // 1 + group of the previous call; 0: none
	end  byte // last byte of the text so far
}

// A run is the sequence of parts of one message.
type run struct {
	part  uint64
	epoch uint64
}

// A patch inserts tail[start:end] between two quotes in out.
type patch struct{ out, start, end int }

func (t *stream) reset() {
	t.pending, t.fragments, t.groups, t.patches = t.pending[:0], t.fragments[:0], t.groups[:0], t.patches[:0]
	t.tail, t.joined, t.whole, t.framed = t.tail[:0], t.joined[:0], t.whole[:0], t.framed[:0]
	clear(t.byKey)
	clear(t.lastCall)
	clear(t.runs)
	t.slots, t.head = [maxSlots]uint64{}, callHead{}
}

func (t *stream) trim() {
	if cap(t.pending) > 1<<13 || cap(t.fragments) > 1<<15 || cap(t.groups) > 1<<13 || cap(t.patches) > 1<<15 || cap(t.framed) > 1<<16 || cap(t.joined) > maxKept {
		*t = stream{}
	}
}

// room reports whether one more fragment can be stored.
func (t *stream) room() bool { return len(t.fragments)+len(t.pending) < maxFragments }

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// enter begins an event, or an element of an event; leave ends it.
func (s *Shaper) enter(n *node) (first int) {
	for i := range s.slots {
		if n.own>>i&1 == 1 {
			s.slots[i] = 0
		}
	}
	if n.calls != nil {
		s.head = callHead{}
	}
	return len(s.pending)
}

// leave adds the values of n to the keys of the pending fragments with index first or higher.
func (s *Shaper) leave(n *node, first int) {
	for _, j := range [...]*join{n.run, n.calls} {
		if j != nil && !slices.ContainsFunc(s.pending[first:], func(p pending) bool { return p.join == j }) && s.room() {
			s.pending = append(s.pending, pending{join: j, gap: true})
		}
	}
	for i := first; i < len(s.pending); i++ {
		p := &s.pending[i]
		mine := p.join.slots & n.own
		for slot := range s.slots {
			if mine>>slot&1 == 1 {
				p.key = mix(p.key, s.slots[slot]+uint64(slot))
			}
		}
		if at := p.join.argsSlot; at > 0 && n.own>>(at-1)&1 == 1 {
			for _, v := range p.join.argsIf {
				p.args = p.args || s.slots[at-1] == maphash.String(s.seed, v)|1
			}
		}
		if n.run == p.join {
			p.part, p.key = p.key, 0
		}
		if n.calls == p.join {
			p.head = s.head
		}
	}
}

// events shapes a text of one or more events. The text begins at offset base of the body. If it is anything else,
// events returns false and writes nothing.
func (s *Shaper) events(t *table, text []byte, base int) bool {
	mark := len(s.out)
	s.b, s.i, s.base, s.broken, s.inEvent, s.pending = text, 0, base, false, true, s.pending[:0]
	for s.space(); s.i < len(s.b); s.space() {
		if len(s.out) > mark {
			s.out = append(s.out, ' ') // the server omitted the empty line between events
		}
		switch {
		case bytes.HasPrefix(s.b[s.i:], doneData):
			s.out = append(s.out, doneData...)
			s.i = len(s.b)
		case s.b[s.i] == '{':
			s.element(t.event)
		case s.b[s.i] == '[':
			s.array(t.events)
		default:
			s.fail()
		}
	}
	if s.broken || len(s.out) == mark {
		if !s.over() {
			s.out = s.out[:mark]
		}
		return false
	}
	for i := range s.pending {
		s.settle(&s.pending[i])
	}
	s.pending = s.pending[:0]
	return true
}

// settle assigns a fragment to its group.
func (s *Shaper) settle(p *pending) {
	key := mix(p.key, p.join.salt)
	if p.join.run {
		if p.gap {
			p.part = ^uint64(0)
		}
		r, ok := s.runs[key]
		if !ok || r.part != p.part {
			r = run{p.part, r.epoch + 1}
			if s.runs == nil {
				s.runs = make(map[uint64]run)
			}
			if ok || len(s.runs) < maxGroups {
				s.runs[key] = r
			}
		}
		key = mix(mix(key, p.part), r.epoch)
	}
	var g int
	switch {
	case p.join.calls:
		g = s.call(key, p)
	case p.gap:
		return
	default:
		g = s.groupOf(key, p)
	}
	switch {
	case p.gap:
	case g < 0: // too many groups, so the fragment is shaped alone
		s.patch(p.join, p.args, p.out, s.raw(p.start, p.end))
	default:
		s.add(&s.groups[g], p)
	}
}

func (s *Shaper) groupOf(key uint64, p *pending) int {
	g, ok := s.byKey[key]
	if ok {
		return g
	}
	if g = s.newGroup(p); g >= 0 {
		if s.byKey == nil {
			s.byKey = make(map[uint64]int)
		}
		s.byKey[key] = g
	}
	return g
}

// newGroup returns the index of a new group, or -1 if there are too many.
func (s *Shaper) newGroup(p *pending) int {
	if len(s.groups) == maxGroups {
		return -1
	}
	s.groups = append(s.groups, group{join: p.join, args: p.args, head: p.head})
	return len(s.groups) - 1
}

func (s *Shaper) add(g *group, p *pending) {
	s.fragments = append(s.fragments, fragment{out: int32(p.out), start: int32(p.start), end: int32(p.end)})
	g.args = g.args || p.args // the first fragment may be a name without arguments
	n := int32(len(s.fragments))
	if g.last > 0 {
		s.fragments[g.last-1].next = n
	} else {
		g.first, g.place = n, n
	}
	if f := &s.fragments[g.place-1]; f.start == f.end {
		g.place = n // the first fragment that is not empty
	}
	g.last = n
	if p.end > p.start {
		g.end = s.raw(p.end-1, p.end)[0]
	}
}

// raw returns the encoded text of a fragment.
func (s *Shaper) raw(start, end int) []byte {
	if n := len(s.body); start >= n && end > start {
		return s.extra[start-n : end-n]
	}
	return s.body[start:max(start, min(end, len(s.body)))]
}

// call returns the group of a fragment's tool call, or -1 if there are too many groups. Indexes are unreliable: some
// servers give every call index 0, others send the end of a call with another index, and others send a new id with
// each fragment. So a known id takes precedence over a new id with a name, which takes precedence over the index.
func (s *Shaper) call(choice uint64, p *pending) int {
	g := s.findCall(choice, p)
	if g < 0 {
		n := 0
		for c := s.lastCall[choice]; c > 0 && n < maxCalls; c = s.groups[c-1].prev {
			n++
		}
		if n == maxCalls {
			return -1
		}
		if g = s.newGroup(p); g < 0 {
			return -1
		}
		if s.lastCall == nil {
			s.lastCall = make(map[uint64]int)
		}
		s.groups[g].prev = s.lastCall[choice]
		s.lastCall[choice] = g + 1
	}
	c := &s.groups[g]
	if c.head.id == 0 {
		c.head.id = p.head.id
	}
	c.head.named = c.head.named || p.head.named
	return g
}

// findCall returns the group of the call that a fragment continues, or -1 if the fragment begins a new call.
func (s *Shaper) findCall(choice uint64, p *pending) int {
	last, at := s.lastCall[choice]-1, -1
	for g := last; g >= 0; g = s.groups[g].prev - 1 {
		c := &s.groups[g]
		if p.head.id != 0 && c.head.id == p.head.id {
			return g
		}
		if at < 0 && p.head.index != 0 && c.head.index == p.head.index {
			at = g
			if p.head.id == 0 {
				break
			}
		}
	}
	if last < 0 {
		return -1
	}
	if !p.head.named {
		switch {
		case at >= 0:
			return at
		case p.head.id != 0:
			return -1 // the name of the call follows
		}
		return last
	}
	if at < 0 {
		if p.head.index != 0 {
			return -1
		}
		at = last
	}
	c := &s.groups[at]
	switch {
	case !c.head.named && (c.head.id == 0 || p.head.id == 0):
		return at // the id or the first arguments of the call preceded the name
	case p.head.id != 0 && c.head.id == 0 && c.end == 0:
		return at // the name of the call preceded its id
	case p.head.id != 0, p.head.index == 0:
		return -1
	case c.end == '}' && p.end > p.start && s.raw(p.start, p.start+1)[0] == '{':
		return -1 // another complete call with the same index, without an id
	}
	return at
}

// finish replaces the first fragment of each text with the shape of the text.
func (s *Shaper) finish() {
	for i := range s.groups {
		g := &s.groups[i]
		if g.first == 0 {
			continue
		}
		f := s.fragments[g.first-1]
		raw := s.raw(int(f.start), int(f.end))
		if f.next > 0 {
			s.joined = s.joined[:0]
			for n := g.first; n > 0; n = s.fragments[n-1].next {
				f := s.fragments[n-1]
				s.joined = append(s.joined, s.raw(int(f.start), int(f.end))...)
			}
			raw = s.joined
		}
		s.patch(g.join, g.args, int(s.fragments[g.place-1].out), raw)
	}
	if len(s.patches) == 0 && len(s.framed) == 0 {
		return
	}
	slices.SortFunc(s.patches, func(a, b patch) int { return a.out - b.out })
	if len(s.framed) > 0 {
		s.reframe()
	} else {
		s.whole, _ = s.patched(s.whole[:0], 0, len(s.out), s.patches)
	}
	s.out, s.whole = s.whole, s.out
}

// patch adds a patch with the shape of a text.
func (s *Shaper) patch(j *join, args bool, out int, raw []byte) {
	if len(raw) == 0 && j.blank {
		return
	}
	start := len(s.tail)
	if args {
		s.tail = s.appendArguments(s.tail, raw)
	} else {
		s.tail = s.appendShape(s.tail, s.decode(raw))
	}
	s.patches = append(s.patches, patch{out, start, len(s.tail)})
}

// patched appends out[from:to] with its patches to dst. It also returns the remaining patches.
func (s *Shaper) patched(dst []byte, from, to int, patches []patch) (result []byte, rest []patch) {
	for len(patches) > 0 && patches[0].out < to {
		p := patches[0]
		dst = append(dst, s.out[from:p.out]...)
		dst = append(dst, s.tail[p.start:p.end]...)
		from, patches = p.out, patches[1:]
	}
	return append(dst, s.out[from:to]...), patches
}
