package session

import (
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// minText is the number of bytes that an assistant text must exceed to link two requests. minUnique is the minimum length of
// a unique call id, and minRandom is its minimum number of digits and capitals. Other ids, such as call_1 or
// functions.search:0, link requests only together with the message before the answer, as texts do.
const (
	minText   = 32
	minUnique = 16
	minRandom = 4
)

// unique reports whether the id is random enough that no other conversation has a call with the same id.
func unique[S string | []byte](id S) bool { return len(id) >= minUnique && random(id) >= minRandom }

// random returns the number of digits and capitals of an id; 0 if its parts have a meaning.
func random[S string | []byte](id S) (n int) {
	for i := range len(id) {
		switch c := id[i]; {
		case c == ':':
			return 0
		case c >= '0' && c <= '9' || c >= 'A' && c <= 'Z':
			n++
		}
	}
	return n
}

// search is the state of the search for the conversation of a request.
type search struct {
	store  *Store
	q      *skeleton
	minSeq uint64        // oldest sequence on which the decision depends
	weak   *conversation // found by an answer that other conversations may also have
	known  uint64        // key of the longest history at the start of the request that a conversation sent; 0 if none
	names  bool          // calls are identified by function names, even if they have ids
}

// infer returns the conversation whose answer the request contains, searching from the newest message, or the one that the
// request continues without its answer, or nil. It also returns the oldest sequence on which this decision depends, and
// search.known.
func (s *Store) infer(in *Request, q *skeleton) (c *conversation, minSeq, known uint64) {
	if len(s.byAnswer) == 0 {
		return nil, in.MinSeq, 0
	}
	f := search{store: s, q: q, minSeq: in.MinSeq}
	if c = f.messages(in); c == nil && in.Target.Dialect.Descriptor().Pairing.Names {
		q.byName(in.Facts, func(uint64) bool { return false })
		f.names, f.weak = true, nil
		c = f.messages(in)
	}
	if c == nil && in.Conversation == "" && in.Instance != "" {
		if c = f.history(in); c == nil {
			c = f.rewritten(in)
		}
	}
	return c, f.minSeq, f.known
}

func (f *search) messages(in *Request) *conversation {
	for i := len(f.q.messages) - 1; i >= max(f.q.lead, len(f.q.messages)-maxProbes); i-- {
		if c := f.message(in, i); c != nil {
			return c
		}
	}
	return nil
}

// message returns the conversation of the answer that message i repeats or to which it replies, or nil.
func (f *search) message(in *Request, i int) *conversation {
	m, fm := &f.q.messages[i], &in.Facts.Messages[i]
	if m.replies > 0 {
		at := f.q.owner(i)
		for j, id := range f.q.repliesOf(m) {
			sure := !f.names && unique(fm.Replies[j].ID)
			if c := f.call(in.Service, id, sure, f.q.hashBefore(at)); c != nil || sure {
				return c
			}
			// If the agent never saved the answer, the reply follows what preceded the answer.
			if c := f.call(in.Service, id, false, f.q.hashBefore(i)); c != nil {
				return c
			}
		}
		return nil
	}
	for j, a := range f.q.callsOf(m) {
		if c := f.call(in.Service, a.id, !f.names && unique(fm.Calls[j].ID), f.q.hashBefore(i)); c != nil {
			return c
		}
	}
	if m.role == facts.RoleAssistant && m.text != 0 && fm.ContentBytes > minText {
		return f.ask(pairKey(in.Service, m.text, f.q.hashBefore(i)), false)
	}
	return nil
}

func (f *search) call(service string, id uint64, unique bool, before uint64) *conversation {
	if id == 0 {
		return nil
	}
	return f.ask(callKey(service, id, unique, before), unique)
}

// ask returns the conversation with key k if there is only one, else nil. Unless sure is set, the conversation
// must also start with the same message or be found by two answers.
func (f *search) ask(k uint64, sure bool) *conversation {
	c, others := f.store.byAnswer[k], f.store.ambiguous[k]
	if c == nil {
		return nil
	}
	f.minSeq = min(f.minSeq, c.minSeq())
	for _, h := range others {
		f.minSeq = min(f.minSeq, h.minSeq())
	}
	switch {
	case len(others) > 0:
		return nil
	case sure || c == f.weak || c.startsLike(f.q):
		return c
	case f.weak == nil:
		f.weak = c
	}
	return nil
}

// startsLike reports whether a branch of c starts with the first message of q.
func (c *conversation) startsLike(q *skeleton) bool {
	body := q.body()
	return len(body) > 0 && slices.ContainsFunc(c.branches, func(b *branch) bool {
		tip := b.tip.body()
		return len(tip) > 0 && tip[0].hash == body[0].hash
	})
}

// callKey returns the key of a call. The key of an id that may not be unique, such as call_1, includes the message before the
// answer.
func callKey(service string, id uint64, unique bool, before uint64) uint64 {
	if unique {
		return xxh3.HashStringSeed(service, id)
	}
	return pairKey(service, id, before)
}

// pairKey returns the key of an answer's text, or of a call id that may not be unique, after the message with hash before.
func pairKey(service string, what, before uint64) uint64 {
	return xxh3.HashStringSeed(service, bits.RotateLeft64(what, 17)^before)
}

// index adds the key k of an answer of c. While several conversations have the same answer, the key identifies none of them.
func (s *Store) index(c *conversation, k uint64) {
	first, others := s.byAnswer[k], s.ambiguous[k]
	if c.forgotten || first == c || len(others) >= maxHolders || slices.Contains(others, c) {
		return
	}
	if first == nil {
		s.byAnswer[k] = c
	} else {
		s.ambiguous[k] = append(others, c)
	}
	limit := maxKeys
	if !c.inferred {
		limit = maxGivenKeys
	}
	if len(c.keys) >= limit {
		s.unindex(c, c.keys[0])
		c.keys = append(c.keys[:0], c.keys[1:]...)
	}
	c.keys = append(c.keys, k)
}

// holds reports whether the key k is one of an answer or history of c.
func (s *Store) holds(c *conversation, k uint64) bool {
	return s.byAnswer[k] == c || slices.Contains(s.ambiguous[k], c)
}

// unindex removes the key k of an answer of c.
func (s *Store) unindex(c *conversation, k uint64) {
	others := s.ambiguous[k]
	switch {
	case len(others) == 0:
		delete(s.byAnswer, k)
		return
	case s.byAnswer[k] == c:
		s.byAnswer[k], others = others[0], others[1:]
	default:
		others = slices.DeleteFunc(others, func(h *conversation) bool { return h == c })
	}
	if len(others) == 0 {
		delete(s.ambiguous, k)
	} else {
		s.ambiguous[k] = others
	}
}
