package session

import (
	"math/bits"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// maxPause is the maximum time between an answer and a request of the same process that continues the conversation without a
// copy of the answer. Agents take milliseconds for this; a longer pause is more likely to be another conversation.
const maxPause = 10 * time.Second

// wholeTurn is the minimum number of messages of a history with a turn of the model between two other messages.
const wholeTurn = 3

// history returns a hash of the body.
func (s *skeleton) history() (h uint64) {
	for i := range s.body() {
		h = extended(h, &s.messages[s.lead+i])
	}
	return h
}

// extended returns the hash of a history with hash h and the message m after it.
func extended(h uint64, m *message) uint64 {
	return bits.RotateLeft64((h^m.hash)*0x9E3779B97F4A7C15, 31) + 1
}

// historyKey returns the key of the history with hash h.
func historyKey(service string, h uint64) uint64 { return pairKey(service, h, ^h) }

// history returns the inferred conversation whose newest request the request extends, or nil. Agents send such a request
// without the answer if they validate an answer and repeat the question, save only the result of a structured output or give
// its calls new ids; an answer like "Done." also identifies nothing without the history before it.
//
// The longest known history at the start of the request decides. If several conversations of the service sent that history, the
// answer to it must be in the request.
func (f *search) history(in *Request) (found *conversation) {
	body, n, h := f.q.body(), 0, uint64(0)
	for i := range body {
		if h = extended(h, &body[i]); i+1 == len(body) && !in.Retry || len(body)-i > maxProbes {
			continue
		}
		if k := historyKey(in.Service, h); f.store.byAnswer[k] != nil {
			n, f.known = i+1, k
		}
	}
	if n == 0 {
		return nil
	}
	first, others := f.store.byAnswer[f.known], f.store.ambiguous[f.known]
	several := len(others) == maxHolders
	for i := -1; i < len(others); i++ {
		c := first
		if i >= 0 {
			c = others[i]
		}
		f.minSeq = min(f.minSeq, c.minSeq())
		if c.extendedBy(f.q, n, in, len(others) > 0) {
			several = several || found != nil
			found = c
		}
	}
	if several {
		return nil
	}
	return found
}

// extendedBy reports whether q continues a branch of c whose newest request starts with the first n messages of q. It must be
// of the same process and provider. sure demands that q contains the answer to that request.
func (c *conversation) extendedBy(q *skeleton, n int, in *Request, sure bool) bool {
	names := in.Target.Dialect.Descriptor().Pairing.Names // the ids of calls may be the names of functions
	checked, toOthers := false, false                     // repliesToOthers is the same for all branches
	return slices.ContainsFunc(c.branches, func(b *branch) bool {
		if b.source.instance != in.Instance || !alike(b.source.target, in.Target) || b.inFlight > 0 || !b.tip.starts(q, n) {
			return false
		}
		a := b.answer
		if a != nil && a.exchange != b.exchange {
			a = nil // the newest request has no answer
		}
		short := in.Seen.Sub(b.active) <= maxPause
		switch {
		case a != nil && q.repeats(a, n):
			return short || !names && b.tip.length()+a.bytes > minText
		case n == len(q.body()): // sent again by the SDK
			return n == len(b.tip.body()) && a == nil && !sure
		case !short || sure:
			return false
		case a != nil && q.renamesAll(n, a):
			return true
		}
		if !checked {
			checked, toOthers = true, q.repliesToOthers(n)
		}
		switch {
		case toOthers:
			return false
		case n < len(b.tip.body()): // the agent discarded what it asked since
			return a != nil && q.parsed(n, a)
		}
		return q.plausible(n, a)
	})
}

// alike reports whether two requests have the same dialect and kind of provider.
func alike(a, b wire.Target) bool { return a.Dialect == b.Dialect && a.Variant == b.Variant }

// starts reports whether s and q share the first n messages of their bodies. The system messages must be equal too if nothing
// but the first message is shared.
func (s *skeleton) starts(q *skeleton, n int) bool {
	return len(s.body()) >= n && slices.EqualFunc(s.body()[:n], q.body()[:n], func(a, b message) bool { return a.hash == b.hash }) &&
		(n > 1 || q.sameLead(s))
}

// length returns the number of bytes in the contents of the body.
func (s *skeleton) length() (n int) {
	for _, m := range s.body() {
		n += int(m.bytes)
	}
	return n
}

// repeats reports whether s has, from message n of its body on, a call of a, a reply to one, or the text of a.
func (s *skeleton) repeats(a *answer, n int) bool {
	for i := s.lead + n; i < len(s.messages); i++ {
		m := &s.messages[i]
		if slices.ContainsFunc(s.repliesOf(m), a.has) || slices.ContainsFunc(s.callsOf(m), func(c callMark) bool { return a.has(c.id) }) ||
			m.role == facts.RoleAssistant && !a.noText && a.text != 0 && m.text == a.text {
			return true
		}
	}
	return false
}

// plausible reports whether the messages of the body of s from n on may follow the answer a, which they do not contain; nil
// if there was none. A first message is often a template that other conversations share, possibly unseen, so there the
// messages must not contradict the answer.
func (s *skeleton) plausible(n int, a *answer) bool {
	next := s.next(n)
	switch {
	case next == nil:
		return false
	case next.external(), n >= wholeTurn:
		return true
	case a == nil: // the agent wrote a message of its own, or it is the answer to another request
		return false
	case next.calls > 0:
		return renames(s.madeAt(s.lead+n), a.calls)
	}
	return s.parsed(n, a)
}

// parsed reports whether message n of the body may be what the agent made of a structured output, the calls of a.
func (s *skeleton) parsed(n int, a *answer) bool {
	next := s.next(n)
	return len(a.calls) > 0 && a.noText && next != nil && next.role == facts.RoleAssistant && next.calls == 0 && !next.noText
}

// repliesToOthers reports whether s has, from message n of its body on, a reply to a call that is not in s, or too many replies.
func (s *skeleton) repliesToOthers(n int) bool {
	replies := 0
	for i := s.lead + n; i < len(s.messages); i++ {
		for _, id := range s.repliesOf(&s.messages[i]) {
			if replies++; replies > maxAnswer || s.lastCall(id) < 0 {
				return true
			}
		}
	}
	return false
}

// renamesAll reports whether the messages of the body of s from n on are a turn with the calls of a under other ids, whose replies
// may have new ids too.
func (s *skeleton) renamesAll(n int, a *answer) bool {
	if len(a.calls) == 0 || len(s.body())-n > 4*maxAnswer {
		return false
	}
	replies := 0
	for _, m := range s.body()[n:] {
		replies += int(m.replies)
	}
	return replies <= len(a.calls) && renames(s.madeAt(s.lead+n), a.calls)
}

// next returns message n of the body, or the first one after it that is not reasoning; nil if there is none.
func (s *skeleton) next(n int) *message {
	for i := s.lead + n; i < len(s.messages); i++ {
		if m := &s.messages[i]; m.item != facts.ItemReasoning && m.item != facts.ItemOther {
			return m
		}
	}
	return nil
}
