package session

import (
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// maxChained bounds the answers of one conversation that a later request may name by previous_response_id.
const maxChained = 256

// An ending is an answer that a later request may build on by naming its id: the provider keeps the history.
type ending struct {
	conv  *conversation
	line  *line
	calls []facts.ResponseCall // without arguments
	other bool                 // it has calls of other kinds too
}

func endingKey(service string, id []byte) uint64 { return xxh3.HashSeed(id, xxh3.HashString(service)) }

// ending finds the answer that a request names; nil when it names none or the store does not know it.
func (s *Store) ending(in *In) *ending {
	if len(in.Facts.PreviousResponse) == 0 {
		return nil
	}
	return s.endings[endingKey(in.Service, in.Facts.PreviousResponse)]
}

// remember makes the answer r to a request of line l known by its id.
func (s *Store) remember(c *conversation, l *line, r *facts.Response) {
	if r.ID == "" || c.gone {
		return
	}
	e := &ending{conv: c, line: l, other: r.OtherCalls}
	for i := range r.Calls {
		e.calls = append(e.calls, facts.ResponseCall{ID: r.Calls[i].ID, Name: r.Calls[i].Name})
	}
	k := endingKey(c.key.service, []byte(r.ID))
	if s.endings[k] == nil {
		if len(c.endings) == maxChained {
			delete(s.endings, c.endings[0])
			c.endings = append(c.endings[:0], c.endings[1:]...)
		}
		c.endings = append(c.endings, k)
	}
	s.endings[k] = e
}

// Chained returns the calls that the answer named by previous_response_id left to the agent; false when that answer
// was not seen, or has calls of kinds that are not paired.
func (t *Turn) Chained() (calls []facts.ResponseCall, known bool) {
	if t.ending == nil || t.ending.other {
		return nil, false
	}
	return t.ending.calls, true
}

// Signed returns the signatures of the answer before the request, and the message that repeats this answer; -1 when there
// is none.
func (t *Turn) Signed() (signed []facts.Signed, message int) {
	if t.before == nil || len(t.before.signed) == 0 {
		return nil, -1
	}
	return t.before.signed, t.copyOf(t.before)
}

// copyOf is the newest message that repeats a, by a call id or by its text; -1 when there is none.
func (t *Turn) copyOf(a *answer) int {
	for i := len(t.q.messages) - 1; i >= t.q.lead; i-- {
		if m := &t.q.messages[i]; m.role == facts.RoleAssistant && t.q.copies(m, a) {
			return i
		}
	}
	return -1
}

// Identity is a hash by which message i is known when it comes again: bytes that move with the history, such as cache
// marks, do not count, nor how an SDK writes a message anew.
func (t *Turn) Identity(i int) uint64 {
	m := &t.q.messages[i]
	if m.role != facts.RoleAssistant {
		return m.hash
	}
	for _, c := range t.q.calls(m) {
		if c.id != 0 {
			return mix(c.id, uint64(m.item))
		}
	}
	if m.text != 0 && !m.noText {
		return m.text
	}
	return m.hash
}
