package session

import (
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// minText is the shortest assistant text, in bytes, that links two requests. minUnique is the shortest call id that is
// taken for unique; shorter ones, such as call_1, link only together with the message before the answer, as texts do.
const (
	minText   = 32
	minUnique = 16
)

// infer finds the one conversation whose answer the request holds, newest message first. It also returns the oldest
// sequence that the decision depends on.
func (s *Store) infer(in *In, q *skeleton) (c *conversation, need uint64) {
	need = in.Need
	if len(s.found) == 0 {
		return nil, need
	}
	ask := func(k uint64) bool {
		holders := s.found[k]
		for _, h := range holders {
			need = min(need, h.need)
		}
		if len(holders) == 1 {
			c = holders[0]
		}
		return c != nil
	}
	for i := len(q.messages) - 1; i >= max(q.lead, len(q.messages)-maxProbes); i-- {
		m, fm := &q.messages[i], &in.Facts.Messages[i]
		if m.replies > 0 {
			at := q.owner(i)
			for j, id := range q.replyIDs(m) {
				if id != 0 && ask(callKey(in.Service, id, len(fm.Replies[j].ID), q.before(at))) {
					return c, need
				}
			}
			continue
		}
		for j, id := range q.callIDs(m) {
			if id != 0 && ask(callKey(in.Service, id, len(fm.Calls[j].ID), q.before(i))) {
				return c, need
			}
		}
		if m.role == facts.RoleAssistant && m.text != 0 && fm.ContentBytes > minText && ask(pairKey(in.Service, m.text, q.before(i))) {
			return c, need
		}
	}
	return nil, need
}

// callKey is the key of a call. An id that is not surely unique, such as call_1, counts only together with the message
// before the answer.
func callKey(service string, id uint64, length int, before uint64) uint64 {
	if length >= minUnique {
		return xxh3.HashStringSeed(service, id)
	}
	return pairKey(service, id, before)
}

// pairKey is the key of an answer's text, or of a short call id, after a message.
func pairKey(service string, what, before uint64) uint64 {
	return xxh3.HashStringSeed(service, bits.RotateLeft64(what, 17)^before)
}

// index makes c known by an answer. While other conversations gave the same answer, it names none of them.
func (s *Store) index(c *conversation, k uint64) {
	holders := s.found[k]
	if c.gone || len(c.keys) >= maxKeys || len(holders) >= maxHolders || slices.Contains(holders, c) {
		return
	}
	s.found[k] = append(holders, c)
	c.keys = append(c.keys, k)
}
