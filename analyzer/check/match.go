package check

import (
	"hash/maphash"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// reset pairs the calls and replies of r in linear time. It allocates only if its memory must grow.
func (p *Pairing) reset(r *facts.Request, t wire.Target, chain *Chain) {
	p.Groups, p.Calls, p.Replies, p.counts = p.Groups[:0], p.Calls[:0], p.Replies[:0], [replyStatuses]int{}
	// Calls and replies beyond the limit of package facts are missing.
	p.Unknown, p.Chained, p.scheme = r.Stored && chain == nil || r.Dropped > 0, p.Chained[:0], schemeOf(t)
	p.others = p.others[:0]
	p.size(r)
	open, after := false, -1 // whether a group is open; the last message without replies
	for i := range r.Messages {
		m := &r.Messages[i]
		switch {
		case p.scheme.Items && (m.Item == facts.ItemReasoning || m.Item == facts.ItemReference || m.Item == facts.ItemOther):
			if len(m.CallID) > 0 && len(p.others) < maxOthers {
				p.others = append(p.others, int32(i))
			}
			continue
		case p.scheme.Blocks && m.Role == facts.RoleSystem:
			continue
		case len(m.Replies) > 0 && (m.Role == facts.RoleTool || p.scheme.Blocks):
			for j := range m.Replies {
				if !p.unpaired(r, &m.Replies[j]) {
					p.reply(i, j, &m.Replies[j], open, after)
				}
			}
			continue
		}
		// In a turn of several messages, later calls belong to the group until the first reply.
		joins := open && after >= 0 && m.Role == facts.RoleAssistant && (p.scheme.Blocks || p.scheme.Items && m.Item == facts.ItemCall) && p.unanswered()
		if after = i; joins {
			p.join(i, m)
			continue
		}
		p.close(i)
		open = p.open(i, m)
	}
	p.close(len(r.Messages))

	if chain != nil {
		p.chain(chain)
	}
	for i := range p.Replies {
		if rep := &p.Replies[i]; rep.Status == ReplyOrphan || rep.Status == ReplyUnknown && !p.scheme.Names {
			p.early(i, rep)
		}
	}
	for i := range p.Replies {
		p.counts[p.Replies[i].Status]++
	}
	if p.Unknown {
		p.counts = [replyStatuses]int{}
	}
}

// maxOthers limits the unpaired items whose outputs are found.
const maxOthers = 64

// unpaired reports whether the reply belongs to an unpaired item, such as a call in the provider's container. It is then left out
// like that item.
func (p *Pairing) unpaired(r *facts.Request, reply *facts.Reply) bool {
	if len(p.others) == 0 || len(reply.ID) == 0 || p.find(reply.ID) >= 0 {
		return false
	}
	for _, i := range p.others {
		if string(r.Messages[i].CallID) == string(reply.ID) {
			return true
		}
	}
	return false
}

// early matches reply i, which no earlier call has, to a call that follows later. That also applies inside an open group, unless
// replies name functions: then a reply with another name already counts for the group.
func (p *Pairing) early(i int, rep *Reply) {
	if rep.Call = p.find(rep.key); p.scheme.Names && rep.Call >= 0 && p.Calls[rep.Call].Reply >= 0 {
		rep.Call = -1 // the call has its own reply
	}
	if rep.Call >= 0 {
		rep.Status = ReplyBeforeCall
		p.elsewhere(rep.Call, i)
	}
}

// unanswered reports whether the newest group has no replies yet.
func (p *Pairing) unanswered() bool {
	n := len(p.Replies)
	return n == 0 || p.Replies[n-1].Message < p.Calls[len(p.Calls)-1].Message
}

// chain matches replies to the calls of the answer that previous_response_id names, and of those before it: an agent may send all
// replies of its history again. The table of the calls uses the memory of ids, which dialects with such answers do not need. The
// slot of an answered call is negative.
func (p *Pairing) chain(c *Chain) {
	p.ids = cleared(p.ids, tableSize(len(c.Calls)))
	for i := range c.Calls {
		if slot := p.chained(c, i); p.ids[slot] == 0 {
			p.ids[slot] = int32(i + 1)
		}
	}
	for i := range p.Replies {
		rep := &p.Replies[i]
		slot := p.chainSlot(c, rep.ID)
		if p.ids[slot] == 0 {
			continue
		}
		p.ids[slot] = -max(p.ids[slot], -p.ids[slot])
		if rep.Status == ReplyOrphan || rep.Status == ReplyUnknown {
			rep.Status = ReplyMatched
		}
	}
	for i := range c.Calls {
		if c.Calls[i].ID != "" && p.ids[p.chained(c, i)] > 0 {
			p.Chained = append(p.Chained, c.Calls[i])
		}
	}
	p.ids = p.ids[:0]
	if c.Earlier == nil || !p.scheme.Items { // in a thread of messages, a result must follow its call
		return
	}
	for i := range p.Replies {
		rep := &p.Replies[i]
		if (rep.Status == ReplyOrphan || rep.Status == ReplyUnknown) && c.Earlier.Called(rep.ID) {
			rep.Status = ReplyMatched
		}
	}
}

// chained returns the slot of call i of c.
func (p *Pairing) chained(c *Chain, i int) int {
	p.id = append(p.id[:0], c.Calls[i].ID...)
	return p.chainSlot(c, p.id)
}

// chainSlot is like slot, for the calls of c.
func (p *Pairing) chainSlot(c *Chain, id []byte) int {
	mask := len(p.ids) - 1
	for slot := int(maphash.Bytes(p.seed, id)) & mask; ; slot = (slot + 1) & mask {
		i := p.ids[slot]
		if i == 0 || c.Calls[max(i, -i)-1].ID == string(id) {
			return slot
		}
	}
}

// size clears the table and makes its size at least twice the number of calls.
func (p *Pairing) size(r *facts.Request) {
	calls := 0
	for i := range r.Messages {
		if r.Messages[i].Role == facts.RoleAssistant {
			calls += len(r.Messages[i].Calls)
		}
	}
	p.table, p.ids = cleared(p.table, tableSize(calls)), p.ids[:0]
}

// tableSize returns the size of a hash table for n keys: a power of two, at least twice n.
func tableSize(n int) int {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return size
}

// cleared returns a table of n free slots, in the memory of table if it is large enough.
func cleared(table []int32, n int) []int32 {
	if cap(table) < n {
		return make([]int32, n)
	}
	table = table[:n]
	clear(table)
	return table
}

// open starts a group if m is an assistant message with calls, and reports whether it did.
func (p *Pairing) open(i int, m *facts.Message) bool {
	if m.Role != facts.RoleAssistant || len(m.Calls) == 0 {
		return false
	}
	first := len(p.Calls)
	p.Groups = append(p.Groups, Group{Message: i, End: -1, First: first, Last: first})
	p.noID, p.since = first, len(p.Replies)
	p.join(i, m)
	return true
}

// join adds the calls of m to the newest group.
func (p *Pairing) join(i int, m *facts.Message) {
	g := &p.Groups[len(p.Groups)-1]
	for j := range m.Calls {
		c := PairedCall{Call: &m.Calls[j], ID: m.Calls[j].ID, Message: i, Part: j, Group: len(p.Groups) - 1, Reply: -1, Again: -1, key: m.Calls[j].ID, same: -1, next: -1}
		if p.scheme.Names {
			c.ID, c.key = idOrName(c.ID, c.Name), c.Name
		}
		if p.scheme.Names && len(c.Call.ID) > 0 {
			p.enterID(&c)
		}
		if len(c.key) > 0 {
			p.enter(&c, g.First)
		}
		p.Calls = append(p.Calls, c)
	}
	g.Last = len(p.Calls)
}

// enter adds c, the next call to be appended to Calls, to the table.
func (p *Pairing) enter(c *PairedCall, first int) {
	slot := p.slot(c.key)
	older := int(p.table[slot]) - 1
	if !p.scheme.Names {
		c.Again = older
	}
	switch {
	case older < first:
		p.table[slot] = int32(len(p.Calls) + 1)
	case p.scheme.Names: // the table contains the head of the list, and head.same is the end
		head := &p.Calls[older]
		if head.same < 0 {
			head.same = older
		}
		p.Calls[head.same].next = len(p.Calls)
		head.same = len(p.Calls)
	default: // the second reply with this id will answer the second call
		c.same = older
		c.next, p.Calls[older].next = p.Calls[older].next, len(p.Calls)
	}
}

// enterID adds the id of c, the next call to be appended to Calls, to the table of ids, although replies name functions. An id
// that is the function's name says no more than the name.
func (p *Pairing) enterID(c *PairedCall) {
	if string(c.Call.ID) == string(c.Name) {
		return
	}
	if len(p.ids) == 0 {
		p.ids = cleared(p.ids, len(p.table))
	}
	mask := len(p.ids) - 1
	slot := int(maphash.Bytes(p.seed, c.Call.ID)) & mask
	for ; p.ids[slot] != 0; slot = (slot + 1) & mask {
		if older := int(p.ids[slot]) - 1; string(p.Calls[older].Call.ID) == string(c.Call.ID) {
			c.Again = older
			break
		}
	}
	p.ids[slot] = int32(len(p.Calls) + 1)
}

// close ends the newest group before message end if the group is still open.
func (p *Pairing) close(end int) {
	if len(p.Groups) == 0 || p.Groups[len(p.Groups)-1].End >= 0 {
		return
	}
	g := &p.Groups[len(p.Groups)-1]
	g.End, g.Replies = end, len(p.Replies)-p.since
	if p.scheme.Names {
		p.count(g)
	}
	for i := g.First; i < g.Last; i++ {
		c := &p.Calls[i]
		if c.same >= 0 && !p.scheme.Names && c.Reply < 0 {
			c.Reply = p.Calls[c.same].Reply
		}
		if c.Reply >= 0 {
			g.Answered++
		}
	}
}

// count assigns replies with another name or no name to the calls of g that are still open. Providers whose replies
// name the function check only the number of replies.
func (p *Pairing) count(g *Group) {
	open := g.First
	for r := p.since; r < len(p.Replies); r++ {
		if f := p.Replies[r].Status; f != ReplyUnknown && (f != ReplyWithoutID || p.Replies[r].Call >= 0) {
			continue
		}
		for open < g.Last && p.Calls[open].Reply >= 0 {
			open++
		}
		if open == g.Last {
			return
		}
		p.Calls[open].Reply = r
	}
}

// idOrName returns the id of a call or reply, or else the name of the function.
func idOrName(id, name []byte) []byte {
	if len(id) > 0 {
		return id
	}
	return name
}

// reply matches the reply in message i, its number part, to the calls before it.
func (p *Pairing) reply(i, part int, r *facts.Reply, open bool, after int) {
	rep := Reply{Reply: r, ID: r.ID, Message: i, Part: part, Call: -1, Group: -1, After: after, key: r.ID}
	if p.scheme.Names {
		rep.ID, rep.key = idOrName(r.ID, r.Name), r.Name
	}
	first := len(p.Calls)
	if open {
		rep.Group = len(p.Groups) - 1
		first = p.Groups[rep.Group].First
	}
	if len(rep.key) > 0 {
		rep.Call = p.find(rep.key)
	}
	if p.scheme.Names && rep.Call >= 0 {
		rep.Call = p.named(&rep, first)
		if rep.Call >= first && p.strange(r.ID, first) {
			rep.Call = -1
		}
	}
	switch {
	case len(rep.key) == 0:
		rep.Status = ReplyWithoutID
		if open {
			p.answerNoID(&rep)
		}
	case rep.Call >= first && p.Calls[rep.Call].Reply < 0:
		rep.Status = ReplyMatched
		p.Calls[rep.Call].Reply = len(p.Replies)
	case rep.Call >= first && !p.scheme.Names && p.Calls[rep.Call].next >= 0:
		head := &p.Calls[rep.Call]
		rep.Status, rep.Call = ReplyMatched, head.next
		head.next = p.Calls[rep.Call].next
		p.Calls[rep.Call].Reply = len(p.Replies)
	case rep.Call >= first:
		rep.Status = ReplyDuplicate
	case rep.Call >= 0:
		rep.Status = ReplyLate
		p.elsewhere(rep.Call, len(p.Replies))
	case open:
		rep.Status = ReplyUnknown
	default:
		rep.Status = ReplyOrphan
	}
	p.Replies = append(p.Replies, rep)
}

// maxSameName limits the search for an id among the calls of one function in one group.
const maxSameName = 64

// named returns the call that a reply answers in dialects whose replies name functions. In the reply's own group, this
// is the call with the reply's id, or else the next open call; in an earlier group, a call that is still open.
// Otherwise, named returns -1.
func (p *Pairing) named(rep *Reply, first int) int {
	head := rep.Call
	if head < first {
		if p.Calls[head].Reply >= 0 {
			return -1
		}
		return head
	}
	for p.Calls[head].Reply >= 0 && p.Calls[head].next >= 0 {
		next := p.Calls[head].next
		p.Calls[next].same = p.Calls[head].same
		head = next
	}
	p.table[p.slot(rep.key)] = int32(head + 1)
	if len(rep.Reply.ID) > 0 {
		for c, n := head, 0; c >= 0 && n < maxSameName; c, n = p.Calls[c].next, n+1 {
			if p.Calls[c].Reply < 0 && string(p.Calls[c].Call.ID) == string(rep.Reply.ID) {
				return c
			}
		}
	}
	return head
}

// strange reports whether a reply has an id that none of the calls since first has, although all of them have ids.
func (p *Pairing) strange(id []byte, first int) bool {
	if len(id) == 0 || len(p.Calls)-first > maxSameName {
		return false
	}
	for i := first; i < len(p.Calls); i++ {
		if own := p.Calls[i].Call.ID; len(own) == 0 || string(own) == string(id) {
			return false
		}
	}
	return true
}

// elsewhere lets a reply outside the group of the call answer the call if the dialect allows that.
func (p *Pairing) elsewhere(call, reply int) {
	c := &p.Calls[call]
	if !p.scheme.anywhere || c.Reply >= 0 {
		return
	}
	c.Reply = reply
	p.Groups[c.Group].Answered++
}

// answerNoID lets a reply without an id answer the first open call without an id in the newest group: the pair is
// malformed, but no reply is missing.
func (p *Pairing) answerNoID(rep *Reply) {
	for ; p.noID < len(p.Calls); p.noID++ {
		if c := &p.Calls[p.noID]; len(c.key) == 0 && c.Reply < 0 {
			c.Reply, rep.Call = len(p.Replies), p.noID
			return
		}
	}
}

// find returns the index of the newest call with this key, or -1.
func (p *Pairing) find(key []byte) int { return int(p.table[p.slot(key)]) - 1 }

// slot returns the slot of key, or the free slot for it. The seed is random, so that clients cannot construct keys that
// collide.
func (p *Pairing) slot(key []byte) int {
	mask := len(p.table) - 1
	for slot := int(maphash.Bytes(p.seed, key)) & mask; ; slot = (slot + 1) & mask {
		c := p.table[slot]
		if c == 0 || string(p.Calls[c-1].key) == string(key) {
			return slot
		}
	}
}
