package session

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// naming gives the calls and replies of a request the ids of the answers' calls, in a dialect whose calls may have no ids
// and whose replies name functions. A model calls the same function again and again, so a function name alone does not
// identify a call:
//
//	message of the previous request   the ids that it had there
//	call with the id of an answer     that id
//	other call                        the call of the newest answer to the same function, or else an id of its own
//	reply                             the open call of its group, or else the open call of the newest answer
//
// After that, a defect is explained as in a dialect with ids.
type naming struct {
	q, p    *skeleton // p is the previous request; nil if it is unknown
	facts   *facts.Request
	sent    []byte // source of facts; may be nil
	conv    *conversation
	before  *answer // newest answer; nil if the request does not continue a known one
	aligned alignment

	made, replied [maxAnswer]bool // calls of before that the request contains, and those with a reply
	answered      map[uint64]bool // ids of all replies; nil until needed
	done          []bool          // reused by the groups
}

// Limits of the search for the call of one reply that its group does not contain.
const (
	maxEarlier = 64 // messages
	maxNewest  = 64 // calls of the conversation
)

// name replaces the ids of q, the request of conversation c, which read and byName made of names. a describes how q continues
// branch b, which may be nil; continues is false if q only shares a part of its history.
func (n *naming) name(in *Request, q *skeleton, c *conversation, b *branch, a alignment, continues bool) {
	*n = naming{q: q, facts: in.Facts, sent: in.Body, conv: c, aligned: a, done: n.done[:0]}
	if b != nil {
		n.p = &b.tip
		if continues {
			n.before = b.answer
		}
	}
	defer func() { *n = naming{done: n.done[:0]} }()
	n.copyIDs()
	for i := len(n.q.messages) - 1; i >= n.q.lead; i-- {
		if m := &n.q.messages[i]; m.calls > 0 && !n.known(i) {
			n.calls(i)
		}
	}
	for i := n.q.lead; i < len(n.q.messages); {
		if n.q.messages[i].replies == 0 {
			i++
			continue
		}
		i = n.replies(i)
	}
}

// known reports whether the previous request contains message i.
func (n *naming) known(i int) bool {
	at, a := i-n.q.lead, &n.aligned
	return n.p != nil && at >= 0 && (at < a.prefix || at < a.tailEnd && at >= a.tailEnd-a.tail)
}

// copyIDs copies the ids of the messages that the previous request contains.
func (n *naming) copyIDs() {
	if n.p == nil {
		return
	}
	q, p, a := n.q.body(), n.p.body(), &n.aligned
	for i := range a.prefix {
		n.copy(&q[i], &p[i])
	}
	for i := 1; i <= a.tail; i++ {
		n.copy(&q[a.tailEnd-i], &p[len(p)-i])
	}
}

func (n *naming) copy(to, from *message) {
	for j, c := range n.p.callsOf(from) {
		n.q.callsOf(to)[j].id = c.id
		n.mark(&n.made, c.id)
	}
	for j, id := range n.p.repliesOf(from) {
		n.q.repliesOf(to)[j] = id
		n.mark(&n.replied, id)
	}
}

// mark marks the call of before with id, if there is one.
func (n *naming) mark(marks *[maxAnswer]bool, id uint64) {
	if c := n.conv.calls[id]; n.before != nil && c != nil && c.answer == n.before && c.Position < maxAnswer {
		marks[c.Position] = true
	}
}

// calls names the calls of message i. Later messages have their ids already.
func (n *naming) calls(i int) {
	m, sent := &n.q.messages[i], n.facts.Messages[i].Calls
	calls := n.q.callsOf(m)
	if at := n.repeated(i); at >= 0 {
		for j, c := range n.q.callsOf(&n.q.messages[at]) {
			calls[j].id = c.id
		}
		return
	}
	for j := len(calls) - 1; j >= 0; j-- {
		c := &calls[j]
		given := hashOrZero(sent[j].ID)
		switch {
		case given != 0 && n.conv.calls[given] != nil:
			c.id = given
		case c.name == 0:
			c.id = given
			continue
		default:
			if c.id = n.ofAnswer(&sent[j], c.name); c.id == 0 {
				c.id = n.sameCall(&sent[j], c.name)
			}
			if c.id == 0 && given != 0 {
				c.id = given
			}
			if c.id == 0 {
				c.id = max(mix(mix(m.hash, uint64(i-n.q.lead)), c.name+uint64(j)), 1)
			}
		}
		n.mark(&n.made, c.id)
	}
}

// repeated returns the next message that is equal to message i and also new, or -1: the agent appended a message twice.
func (n *naming) repeated(i int) int {
	for k := i + 1; k < min(len(n.q.messages), i+maxEarlier); k++ {
		if o := &n.q.messages[k]; o.hash == n.q.messages[i].hash && o.calls == n.q.messages[i].calls && !n.known(k) {
			return k
		}
	}
	return -1
}

// ofAnswer returns the id of the call of the newest answer that a call to the same function is a copy of: the one with the
// same arguments, or else the last one without a copy; 0 if there is none.
func (n *naming) ofAnswer(sent *facts.Call, name uint64) uint64 {
	if n.before == nil {
		return 0
	}
	var last *Call
	for j, c := range slices.Backward(n.before.calls) {
		switch {
		case n.made[j] || c.byName == 0 || hashName(c.Name) != name:
		case last == nil:
			last = c
		default: // several candidates
			return n.sameArguments(sent, name, last)
		}
	}
	if last == nil {
		return 0
	}
	return last.id
}

// sameArguments returns the id of the call of the newest answer with the same function and arguments, or else that of last.
func (n *naming) sameArguments(sent *facts.Call, name uint64, last *Call) uint64 {
	meaning := n.meaning(sent)
	for j, c := range slices.Backward(n.before.calls) {
		if !n.made[j] && c.meaning != 0 && c.meaning == meaning && hashName(c.Name) == name {
			return c.id
		}
	}
	return last.id
}

// sameCall returns the id of the newest call of the conversation to a function with the same arguments that no later message
// contains; 0 if there is none. An agent may send an old part of its history in another form.
func (n *naming) sameCall(sent *facts.Call, name uint64) uint64 {
	order, meaning := n.conv.order, uint64(0)
	for i := len(order) - 1; i >= max(0, len(order)-maxNewest); i-- {
		c := n.conv.calls[order[i]]
		if c == nil || hashName(c.Name) != name {
			continue
		}
		if meaning == 0 {
			if meaning = n.meaning(sent); meaning == 0 {
				return 0
			}
		}
		if c.meaning == meaning && n.q.lastCall(c.id) < 0 {
			return c.id
		}
	}
	return 0
}

// meaning returns the canonical hash of the arguments of a call in the request; 0 if they are not JSON.
func (n *naming) meaning(sent *facts.Call) uint64 {
	if sent.Start < 0 || sent.End > len(n.sent) || sent.Start >= sent.End {
		return 0
	}
	return canonical(arguments(n.sent[sent.Start:sent.End]))
}

// openGroup is the state of a group of adjacent messages with calls and the messages with replies that follow.
type openGroup struct {
	from, to int // messages with calls; the replies start at to
	calls    []callMark
	done     []bool // calls with a reply
	next     int    // index of the first call without a reply
	surplus  int    // number of replies that exceed the number of calls
}

// replies names the replies of the group whose first message with replies is i, and returns the first message after it.
func (n *naming) replies(i int) int {
	g := openGroup{from: i, to: i}
	for g.from > n.q.lead && n.q.messages[g.from-1].role == facts.RoleAssistant && n.q.messages[g.from-1].replies == 0 {
		g.from--
	}
	if first := n.q.messages[g.from]; g.from < i {
		last := n.q.messages[i-1]
		g.calls = n.q.calls[first.firstCall : last.firstCall+last.calls]
	}
	if cap(n.done) < len(g.calls) {
		n.done = make([]bool, len(g.calls))
	}
	g.done = n.done[:len(g.calls)]
	clear(g.done)
	end := i
	for ; end < len(n.q.messages) && n.q.messages[end].replies > 0; end++ {
		g.surplus += int(n.q.messages[end].replies)
	}
	g.surplus -= len(g.calls)
	for ; i < end; i++ {
		replies := n.q.repliesOf(&n.q.messages[i])
		for j := range replies {
			if !n.known(i) {
				replies[j] = n.reply(&g, i, j)
			}
			g.answer(replies[j])
			n.mark(&n.replied, replies[j])
			if n.answered != nil {
				n.answered[replies[j]] = true
			}
		}
	}
	return end
}

// window returns the indexes of the calls among which the next reply is searched.
func (g *openGroup) window() (from, to int) {
	for g.next < len(g.calls) && g.done[g.next] {
		g.next++
	}
	return g.next, min(len(g.calls), g.next+maxSameName)
}

// answer records a reply to id.
func (g *openGroup) answer(id uint64) {
	from, to := g.window()
	for k := from; k < to; k++ {
		if g.calls[k].id == id && !g.done[k] {
			g.done[k] = true
			return
		}
	}
}

// open returns the id of the first call of g to a function without a reply, preferably one of the newest answer; 0 if there is
// none. An older call may have its reply in another place.
func (n *naming) open(g *openGroup, name uint64) (id uint64) {
	from, to := g.window()
	for k := from; k < to; k++ {
		if g.calls[k].name != name || g.done[k] {
			continue
		}
		if c := n.conv.calls[g.calls[k].id]; n.before != nil && c != nil && c.answer == n.before {
			return c.id
		}
		if id == 0 && (n.before == nil || !n.hasReply(g.calls[k].id)) {
			id = g.calls[k].id
		}
	}
	return id
}

// last returns the id of the last call to a function, or 0.
func (g *openGroup) last(name uint64) uint64 {
	for k := len(g.calls) - 1; k >= max(0, len(g.calls)-maxSameName); k-- {
		if g.calls[k].name == name {
			return g.calls[k].id
		}
	}
	return 0
}

// reply returns the id of reply j of message i, which belongs to group g.
func (n *naming) reply(g *openGroup, i, j int) uint64 {
	m, sent := &n.q.messages[i], &n.facts.Messages[i].Replies[j]
	given, name := hashOrZero(sent.ID), hashOrZero(sent.Name)
	if given != 0 {
		if n.conv.calls[given] != nil {
			return given
		}
		if id := n.sentAs(g, sent.ID); id != 0 {
			return id
		}
	}
	if name == 0 {
		return given
	}
	lost := n.lost(name)
	if lost == 0 && g.surplus > 0 {
		if id := n.sameReply(g, i, j); id != 0 {
			g.surplus--
			return id
		}
	}
	switch open := n.open(g, name); {
	case open != 0 && (given == 0 || lost == 0): // a reply with an id of a call that the group does not have is to another call
		return open
	case lost != 0:
		return lost
	}
	if id := n.waiting(name, g); id != 0 {
		return id
	}
	if id := g.last(name); id != 0 {
		return id
	}
	if id := n.newest(name); id != 0 {
		return id
	}
	if given != 0 {
		return given
	}
	return max(mix(mix(m.hash, uint64(i-n.q.lead)), name+uint64(j)), 1)
}

// sentAs returns the id of the call of g that has an id which the agent invented, or 0.
func (n *naming) sentAs(g *openGroup, given []byte) uint64 {
	seen := 0
	for k := g.from; k < g.to; k++ {
		sent := n.facts.Messages[k].Calls
		for j := range sent {
			if seen++; seen > maxSameName {
				return 0
			}
			if string(sent[j].ID) == string(given) {
				return n.q.callsOf(&n.q.messages[k])[j].id
			}
		}
	}
	return 0
}

// lost returns the id of the first call of the newest answer to a function that is not in the request and has no reply; 0 if
// there is none.
func (n *naming) lost(name uint64) uint64 {
	if n.before == nil {
		return 0
	}
	for j, c := range n.before.calls {
		if !n.made[j] && !n.replied[j] && c.byName != 0 && hashName(c.Name) == name {
			return c.id
		}
	}
	return 0
}

// sameReply returns the id of an earlier reply of the group that is equal to reply j of message i, or 0.
func (n *naming) sameReply(g *openGroup, i, j int) uint64 {
	all := n.facts.Messages
	r := &all[i].Replies[j]
	raw := n.sent[min(r.Start, len(n.sent)):min(r.End, len(n.sent))]
	for range maxSameName {
		if j--; j < 0 {
			if i--; i < g.to {
				return 0
			}
			j = len(all[i].Replies)
			continue
		}
		o := &all[i].Replies[j]
		if o.End <= len(n.sent) && len(raw) > 0 && string(n.sent[o.Start:o.End]) == string(raw) {
			return n.q.repliesOf(&n.q.messages[i])[j]
		}
	}
	return 0
}

// waiting returns the id of a call to a function without a reply, outside g: the newest one before g, or else the first one
// after it; 0 if there is none.
func (n *naming) waiting(name uint64, g *openGroup) uint64 {
	for i := g.from - 1; i >= max(n.q.lead, g.from-maxEarlier); i-- {
		if id := n.waitingIn(name, i); id != 0 {
			return id
		}
	}
	for i := g.to; i < min(len(n.q.messages), g.to+maxEarlier); i++ {
		if id := n.waitingIn(name, i); id != 0 {
			return id
		}
	}
	return 0
}

func (n *naming) waitingIn(name uint64, i int) uint64 {
	for j, c := range n.q.callsOf(&n.q.messages[i]) {
		if j < maxSameName && c.name == name && !n.hasReply(c.id) {
			return c.id
		}
	}
	return 0
}

// hasReply reports whether a message replies to id.
func (n *naming) hasReply(id uint64) bool {
	if n.answered == nil {
		n.answered = make(map[uint64]bool)
		for _, r := range n.q.replies {
			n.answered[r] = true
		}
	}
	return n.answered[id]
}

// newest returns the id of the newest call of the conversation to a function, preferably one without a reply; 0 if there is
// none.
func (n *naming) newest(name uint64) (id uint64) {
	order := n.conv.order
	for i := len(order) - 1; i >= max(0, len(order)-maxNewest); i-- {
		c := n.conv.calls[order[i]]
		switch {
		case c == nil || hashName(c.Name) != name:
		case c.awaits():
			return c.id
		case id == 0:
			id = c.id
		}
	}
	return id
}
