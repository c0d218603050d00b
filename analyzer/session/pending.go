package session

import (
	"bytes"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// maxPending bounds the number of pending answers of one process. minDistinct is the minimum number of digits and capitals of an
// id that few other answers have at the same time.
const (
	maxPending  = 512
	minDistinct = 6
)

// Limits of the search for calls that are told as text.
const (
	minQuotable    = 8        // bytes of the name of a tool that is not an ordinary word
	maxQuotedCalls = 4        // calls of one answer
	maxQuotedBytes = 64 << 10 // bytes of messages
)

// pendingAnswers are the answers with calls to requests without a conversation id of one process, as far as they are pending.
type pendingAnswers struct {
	answers []pendingAnswer // oldest first
	lost    time.Time       // time of the newest answer that is missing here because of maxPending; zero if none
}

type pendingAnswer struct {
	conv   *conversation
	branch *branch
	answer *answer
	at     time.Time
}

func processKey(service, instance string) uint64 {
	return xxh3.HashStringSeed(instance, xxh3.HashString(service))
}

// await adds an answer with calls.
func (s *Store) await(r pendingAnswer) {
	k := processKey(r.conv.key.service, r.answer.source.instance)
	p := s.pending[k]
	if p == nil {
		p = new(pendingAnswers)
		s.pending[k] = p
	}
	if len(p.answers) == cap(p.answers) || len(p.answers) == maxPending {
		p.remove(func(r *pendingAnswer) bool { return !r.pending() })
	}
	if len(p.answers) == maxPending {
		p.lost = p.answers[0].at
		p.remove(func(r *pendingAnswer) bool { return r == &p.answers[0] })
	}
	p.answers = append(p.answers, r)
	r.conv.pending += r.bytes()
	if !slices.Contains(r.conv.processes, k) {
		r.conv.processes = append(r.conv.processes, k)
	}
}

// bytes returns the approximate size of r with its answer, which may be forgotten otherwise.
func (r *pendingAnswer) bytes() int { return 512 + len(r.answer.calls)*callBytes/4 }

// remove removes answers.
func (p *pendingAnswers) remove(which func(r *pendingAnswer) bool) {
	kept := p.answers[:0]
	for i := range p.answers {
		if r := &p.answers[i]; which(r) {
			r.conv.pending -= r.bytes()
		} else {
			kept = append(kept, *r)
		}
	}
	clear(p.answers[len(kept):])
	p.answers = kept
}

// unawait removes the pending answers of c.
func (s *Store) unawait(c *conversation) {
	for _, k := range c.processes {
		p := s.pending[k]
		if p == nil {
			continue // no answer of the process is pending, so another conversation removed the last one
		}
		if p.remove(func(r *pendingAnswer) bool { return r.conv == c }); len(p.answers) == 0 {
			delete(s.pending, k)
		}
	}
}

// A match is how well a request fits a pending answer.
type match uint8

const (
	noMatch   match = iota
	likely          // it replies to the calls or tells what they returned
	certainly       // it also contains the calls with their arguments
)

// rewritten returns the conversation that a request continues with a history written anew, or nil: its last messages reply to
// the calls of an answer to the same process, or it tells in other words what these calls returned, as agents do that take
// over. No other pending answer of the process may match as well, and if the start of the request is a known history, it must be
// a history of that conversation.
func (f *search) rewritten(in *Request) *conversation {
	p := f.store.pending[processKey(in.Service, in.Instance)]
	if p == nil || len(f.q.body()) < 2 {
		return nil
	}
	var found *pendingAnswer
	best, several := likely, false
	lost := !p.lost.IsZero() && in.Seen.Sub(p.lost) <= f.store.cfg.Lookback
	for i := range p.answers {
		r := &p.answers[i]
		m := f.q.match(in, r)
		if m != noMatch || lost {
			f.minSeq = min(f.minSeq, r.conv.minSeq())
		}
		switch {
		case m < best:
		case m > best, found == nil:
			found, best, several = r, m, false
		case found.conv == r.conv:
			found = r
		default:
			several = true
		}
	}
	if found == nil || several || lost || found.branch.answer != found.answer || in.Seen.Sub(found.at) > maxPause ||
		!alike(found.answer.source.target, in.Target) || f.known != 0 && !f.store.holds(found.conv, f.known) {
		return nil
	}
	return found.conv
}

// match compares s with a pending answer.
func (s *skeleton) match(in *Request, r *pendingAnswer) match {
	if !r.pending() {
		return noMatch
	}
	if m := s.answers(in, r); m != noMatch {
		return m
	}
	if r.conv.startsLike(s) && s.quotes(in, r.answer, 1) {
		return likely
	}
	return noMatch
}

// pending reports whether a request may reply to r: no reply is known, or it was in a request that may be sent again.
func (r *pendingAnswer) pending() bool { return r.branch.answer == r.answer || r.answer.undecided() }

// undecided reports whether a has calls and no reply to any of them is known.
func (a *answer) undecided() bool {
	return len(a.calls) > 0 && !slices.ContainsFunc(a.calls, func(c *Call) bool { return !c.Undecided() })
}

// answers compares the end of s with r: the last messages must be replies to calls of r and nothing else. Ids like call_0 are
// in many conversations, so the calls must be before them, all and with their names, or the ids must be longer, or the request
// must have the same system messages or the first message.
func (s *skeleton) answers(in *Request, r *pendingAnswer) match {
	end, replies := len(s.messages), 0
	at := end - 1
	for ; at >= s.lead && s.messages[at].replies > 0; at-- {
		if replies += int(s.messages[at].replies); replies > maxAnswer {
			return noMatch
		}
	}
	if at < s.lead || replies == 0 {
		return noMatch
	}
	distinct := true
	for i := at + 1; i < end; i++ {
		for j, id := range s.repliesOf(&s.messages[i]) {
			if !r.answer.has(id) {
				return noMatch
			}
			distinct = distinct && random(in.Facts.Messages[i].Replies[j].ID) >= minDistinct
		}
	}
	calls, same := 0, true
	for ; at >= s.lead && s.messages[at].calls > 0; at-- {
		m := &s.messages[at]
		if calls+int(m.calls) > len(r.answer.calls) {
			return noMatch
		}
		for i, k := range s.callsOf(m) {
			c := r.answer.call(k.id)
			if c == nil || k.name != hashOrZero([]byte(c.Name)) {
				return noMatch
			}
			sent := in.Facts.Messages[at].Calls[i].ArgsHash
			same = same && (sent == c.sent || sent == c.raw)
			calls++
		}
		if m.item != facts.ItemCall { // calls are items of their own only in some dialects
			at--
			break
		}
	}
	switch alike := distinct || s.lead > 0 && s.sameLead(&r.branch.tip) || r.conv.startsLike(s); {
	case calls != 0 && calls != len(r.answer.calls), at < s.lead && !alike:
		return noMatch
	case calls > 0 && same:
		return certainly
	case calls > 0 || alike:
		return likely
	}
	return noMatch
}

// quotes reports whether user messages of the request tell, after the first n messages of its body, that the calls of a were
// made and what they returned: they name the tool of each call at least twice. An agent that takes over reads the calls of
// others as texts.
func (s *skeleton) quotes(in *Request, a *answer, n int) bool {
	if in.Shaped || len(a.calls) > maxQuotedCalls {
		return false
	}
	for _, c := range a.calls {
		if len(c.Name) < minQuotable || !s.tells(in, c.Name, n) {
			return false
		}
	}
	return true
}

// tells reports whether the newest user messages after the first n messages of the body name a tool at least twice.
func (s *skeleton) tells(in *Request, tool string, n int) bool {
	count, left := 0, maxQuotedBytes
	for i := len(s.messages) - 1; i >= max(s.lead+n, len(s.messages)-maxProbes) && count < 2; i-- {
		m := &in.Facts.Messages[i]
		if m.Role != facts.RoleUser || len(m.Replies) > 0 || m.End > len(in.Body) {
			continue
		}
		if left -= m.End - m.Start; left < 0 {
			return false
		}
		count += bytes.Count(in.Body[m.Start:m.End], []byte(tool))
	}
	return count >= 2
}

// answerQuoted finds calls of recent answers to other agents of the conversation whose outcome the new messages of t tell.
func (c *conversation) answerQuoted(t *Turn, q *skeleton, in *Request) {
	for _, b := range c.branches {
		a := b.answer
		if b == t.branch || a == nil || len(a.calls) == 0 || a.source.instance == "" || a.source.instance != in.Instance || in.Seen.Sub(b.active) > maxPause ||
			!a.undecided() || !q.quotes(in, a, t.aligned.prefix) {
			continue
		}
		for _, call := range a.calls {
			if c.calls[call.id] == call {
				t.reply(call, -1, 0)
			}
		}
	}
}
