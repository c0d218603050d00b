package session

import (
	"slices"
)

// predecessor finds the line that q belongs to and how q continues its request. Without one, line is nil. When
// continues is false, q only shares its start, or a call, with the line: it is the first request of a new line.
func (c *conversation) predecessor(q *skeleton, src *source) (best *line, bestFit fit, continues bool) {
	rank := 0
	for _, l := range slices.Backward(c.lines) { // the newest first, so that it wins a tie
		f := align(&l.tip, q, loose(l.source, src))
		r := l.rank(q, f)
		if r > rank || r == rank && r > 0 && f.prefix > bestFit.prefix {
			best, bestFit, rank = l, f, r
		}
	}
	if best == nil && len(c.lines) > 0 && c.knows(q) {
		best = c.lines[len(c.lines)-1]
		bestFit = align(&best.tip, q, loose(best.source, src))
	}
	return best, bestFit, rank > 1
}

// rank says how surely q continues l: 0 not at all, 1 it shares its start, 2 it holds the end of the request, 3 the
// answer, 4 all of the request, 5 both.
func (l *line) rank(q *skeleton, f fit) int {
	// Two stages that start with the same user message and other system prompts are not one history.
	whole := f.whole && (f.prefix > 1 || q.sameLead(&l.tip))
	holds := l.answer != nil && q.holds(l.answer, l.since(f))
	switch {
	case whole && holds:
		return 5
	case whole:
		return 4
	case holds:
		return 3
	case f.tail > 0:
		return 2
	case f.prefix > 0:
		return 1
	}
	return 0
}

// since is how many messages of the body of a request were there before the answer of l, so that what looks like the
// answer among them is an older one.
func (l *line) since(f fit) int {
	if l.answer.exchange != l.exchange {
		return 0
	}
	return f.prefix
}

// holds reports whether q has a copy of a or a reply to a call of it, from message n of its body on.
func (q *skeleton) holds(a *answer, n int) bool {
	for i := len(q.messages) - 1; i >= q.lead+n; i-- {
		m := &q.messages[i]
		if slices.ContainsFunc(q.replyIDs(m), a.has) || q.copies(m, a) {
			return true
		}
	}
	return false
}

// copies reports whether m is a copy of a by a call id or by its text.
func (q *skeleton) copies(m *message, a *answer) bool {
	for _, c := range q.calls(m) {
		if a.has(c.id) {
			return true
		}
	}
	return a.text != 0 && m.text == a.text
}

// has reports whether a called with id.
func (a *answer) has(id uint64) bool { return a.call(id) != nil }

// call is the call of a with id, or nil.
func (a *answer) call(id uint64) *Call {
	if id == 0 {
		return nil
	}
	for _, c := range a.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// loose reports whether texts of the two sources cannot be compared: they are shapes that two processes made.
func loose(a, b *source) bool { return a != nil && (a.shaped || b.shaped) && a.instance != b.instance }

// knows reports whether q calls or answers a call that the model made in c.
func (c *conversation) knows(q *skeleton) bool {
	if len(c.calls) == 0 {
		return false
	}
	for i := range q.messages {
		m := &q.messages[i]
		for _, id := range q.replyIDs(m) {
			if c.calls[id] != nil {
				return true
			}
		}
		for _, a := range q.calls(m) {
			if c.calls[a.id] != nil {
				return true
			}
		}
	}
	return false
}
