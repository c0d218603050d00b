package analyzer

import (
	"hash/maphash"
	"iter"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// Fate is what became of a tool reply when it was matched to the calls of its request.
type Fate uint8

// The fates of a reply, in the order in which they are decided: the first that fits is taken.
const (
	ReplyWithoutID  Fate = iota // it names no call
	ReplyMatched                // it answers an open call of its own group
	ReplyDuplicate              // its call, in its own group, is answered already, and so is each other one with its id
	ReplyLate                   // its call stands in an earlier group, which is closed
	ReplyUnknown                // its group is open, but no call before it has its id
	ReplyBeforeCall             // no group is open, and its call comes later
	ReplyOrphan                 // no group is open, and no call of the request has its id
	fates
)

// A Group is an assistant message with calls, or several of one turn, and the replies that directly follow it. A parallel call has its
// second reply after a reply, so looking only at the message before a reply is wrong.
type Group struct {
	Message  int // the assistant message, the first of its turn with calls
	End      int // the first message after the group; len(messages) when the request ends with it
	Answered int // calls with a reply in the group
	First    int // of its calls in Pairing.Calls
	Last     int // one past its last call
}

// A PairedCall is one call of an assistant message.
type PairedCall struct {
	*facts.Call
	ID      []byte // by which replies name it: its id, the function's name in Gemini
	Message int
	Group   int // in Pairing.Groups
	Reply   int // in Pairing.Replies: the reply in its own group; -1 when there is none
	Again   int // in Pairing.Calls: an earlier call with the same id; -1 when there is none, and where names pair

	same int // an earlier call of the group with the same id, which stands for this one; -1 when there is none
	next int // the next call of the group with the same id that has no reply of its own; -1 when there is none
}

// A Reply is one tool message, or one reply of a message that holds several.
type Reply struct {
	*facts.Reply
	ID      []byte // as PairedCall.ID
	Message int
	Fate    Fate
	Call    int // in Pairing.Calls: the call it names; -1 when the request has none
	Group   int // in Pairing.Groups: the one that was open when it came; -1 when none was
	After   int // the last message before it that has no replies; -1 when there is none
}

// Pairing matches the tool replies of a request to its calls. An id may be used again in a later turn: models and
// gateways number their calls anew each turn, and providers accept that, so a reply is sought in its own group first.
//
// What a group is depends on the dialect. In chat completions it is one assistant message and the tool messages after it.
// Where calls and replies are parts of messages (Anthropic, Gemini, Bedrock), neighbours of one role are one turn: calls
// may stand in several assistant messages, replies in several user messages. In a Responses input each call and each
// reply is an item; calls that only reasoning stands between are one group, and a reply may stand anywhere after its
// call.
type Pairing struct {
	Groups  []Group
	Calls   []PairedCall
	Replies []Reply
	// Unknown reports that a part of the history was not read: it lies with the provider, or is beyond the bound of facts.
	// Calls and replies are listed, and no fate is known.
	Unknown bool
	// Chained are the calls of the answer that previous_response_id names which this request leaves without a reply.
	Chained []facts.ResponseCall

	by    matching
	seen  [fates]int // replies by fate
	table []int32    // open addressing: 1 + the newest call with an id; 0 is a free place
	seed  maphash.Seed
	noID  int // where to look for the next open call without an id
	since int // the first reply of the newest group
}

// matching is how a dialect pairs.
type matching struct {
	blocks   bool // neighbours of one role are one turn
	names    bool // a reply names the function
	items    bool // calls and replies are messages of their own; other items do not matter
	anywhere bool // a reply may stand outside its group
}

func matchingOf(t facts.Target) matching {
	switch t.Dialect {
	case facts.Anthropic, facts.Bedrock:
		return matching{blocks: true}
	case facts.Gemini:
		return matching{blocks: true, names: true}
	case facts.OpenAIResponses:
		return matching{items: true, anywhere: t.Variant != facts.DeepSeekResponses}
	default:
		return matching{}
	}
}

// With yields the replies of one fate in message order; none while fates are unknown.
func (p *Pairing) With(f Fate) iter.Seq[*Reply] {
	return func(yield func(*Reply) bool) {
		for i, left := 0, p.seen[f]; left > 0; i++ {
			if p.Replies[i].Fate != f {
				continue
			}
			left--
			if !yield(&p.Replies[i]) {
				return
			}
		}
	}
}

// Unanswered yields the calls without a reply in their group, in message order.
func (p *Pairing) Unanswered() iter.Seq[*PairedCall] {
	return func(yield func(*PairedCall) bool) {
		if p.Unknown {
			return
		}
		for i := range p.Groups {
			g := &p.Groups[i]
			if g.Answered == g.Last-g.First {
				continue
			}
			for j := g.First; j < g.Last; j++ {
				if p.Calls[j].Reply < 0 && !yield(&p.Calls[j]) {
					return
				}
			}
		}
	}
}

// reset pairs the calls and replies of r. It takes linear time and, once its memory has grown, allocates nothing.
func (p *Pairing) reset(r *facts.Request, t facts.Target, chain *Chain) {
	p.Groups, p.Calls, p.Replies, p.seen = p.Groups[:0], p.Calls[:0], p.Replies[:0], [fates]int{}
	// A history beyond the bound of facts lacks calls and replies that the request has.
	p.Unknown, p.Chained, p.by = r.Stored && chain == nil || r.Dropped > 0, p.Chained[:0], matchingOf(t)
	p.size(r)
	open, after := false, -1 // a group is open; the last message without replies
	for i := range r.Messages {
		m := &r.Messages[i]
		switch {
		case p.by.items && (m.Item == facts.ItemReasoning || m.Item == facts.ItemReference || m.Item == facts.ItemOther):
			continue
		case p.by.blocks && m.Role == facts.RoleSystem:
			continue
		case len(m.Replies) > 0 && (m.Role == facts.RoleTool || p.by.blocks):
			for j := range m.Replies {
				p.reply(i, &m.Replies[j], open, after)
			}
			continue
		}
		// A turn of several messages: its later calls belong to the group as long as no reply has come.
		joins := open && after >= 0 && m.Role == facts.RoleAssistant && (p.by.blocks || p.by.items && m.Item == facts.ItemCall) && p.unanswered()
		if after = i; joins {
			p.join(i, m)
			continue
		}
		p.close(i)
		open = p.open(i, m)
	}
	p.close(len(r.Messages))

	// A reply with no open group and no call before it: only now it is known whether its call comes later.
	for i := range p.Replies {
		rep := &p.Replies[i]
		if rep.Fate == ReplyOrphan {
			if rep.Call = p.find(rep.ID); p.by.names && rep.Call >= 0 && p.Calls[rep.Call].Reply >= 0 {
				rep.Call = -1 // that one has its own reply
			}
			if rep.Call >= 0 {
				rep.Fate = ReplyBeforeCall
				p.elsewhere(rep.Call, i)
			}
		}
	}
	if chain != nil {
		p.chain(chain)
	}
	for i := range p.Replies {
		p.seen[p.Replies[i].Fate]++
	}
	if p.Unknown {
		p.seen = [fates]int{}
	}
}

// unanswered reports whether the newest group has no reply yet.
func (p *Pairing) unanswered() bool {
	n := len(p.Replies)
	return n == 0 || p.Replies[n-1].Message < p.Calls[len(p.Calls)-1].Message
}

// chain gives the replies whose calls the answer before the request made what they answer.
func (p *Pairing) chain(c *Chain) {
	for i := range c.Calls {
		answered := false
		for j := range p.Replies {
			rep := &p.Replies[j]
			if string(rep.ID) != c.Calls[i].ID {
				continue
			}
			if rep.Fate == ReplyOrphan || rep.Fate == ReplyUnknown {
				rep.Fate = ReplyMatched
			}
			answered = true
		}
		if !answered && c.Calls[i].ID != "" {
			p.Chained = append(p.Chained, c.Calls[i])
		}
	}
}

// size empties the table and makes it at least twice as large as the number of calls.
func (p *Pairing) size(r *facts.Request) {
	calls := 0
	for i := range r.Messages {
		if r.Messages[i].Role == facts.RoleAssistant {
			calls += len(r.Messages[i].Calls)
		}
	}
	n := 16
	for n < 2*calls {
		n *= 2
	}
	if cap(p.table) < n {
		p.table = make([]int32, n)
		return
	}
	p.table = p.table[:n]
	clear(p.table)
}

// open starts a group if m is an assistant message with calls.
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
		c := PairedCall{Call: &m.Calls[j], ID: m.Calls[j].ID, Message: i, Group: len(p.Groups) - 1, Reply: -1, Again: -1, same: -1, next: -1}
		if p.by.names {
			c.ID = c.Name
		}
		if len(c.ID) > 0 {
			p.enter(&c, g.First)
		}
		p.Calls = append(p.Calls, c)
	}
	g.Last = len(p.Calls)
}

// enter puts c, which is about to be the newest call, into the table.
func (p *Pairing) enter(c *PairedCall, first int) {
	place := p.place(c.ID)
	older := int(p.table[place]) - 1
	if !p.by.names {
		c.Again = older
	}
	switch {
	case older < first:
		p.table[place] = int32(len(p.Calls) + 1)
	case p.by.names: // the chain's head is in the table, and knows its end by same
		head := &p.Calls[older]
		if head.same < 0 {
			head.same = older
		}
		p.Calls[head.same].next = len(p.Calls)
		head.same = len(p.Calls)
	default: // a second reply is the second call's
		c.same = older
		c.next, p.Calls[older].next = p.Calls[older].next, len(p.Calls)
	}
}

// close ends the newest group before message end, if it is still open.
func (p *Pairing) close(end int) {
	if len(p.Groups) == 0 || p.Groups[len(p.Groups)-1].End >= 0 {
		return
	}
	g := &p.Groups[len(p.Groups)-1]
	g.End = end
	if p.by.names {
		p.count(g)
	}
	for i := g.First; i < g.Last; i++ {
		c := &p.Calls[i]
		if c.same >= 0 && !p.by.names && c.Reply < 0 {
			c.Reply = p.Calls[c.same].Reply
		}
		if c.Reply >= 0 {
			g.Answered++
		}
	}
}

// count lets replies of another name, or without one, answer what is left open of g: providers whose replies name the
// function count them.
func (p *Pairing) count(g *Group) {
	open := g.First
	for r := p.since; r < len(p.Replies); r++ {
		if f := p.Replies[r].Fate; f != ReplyUnknown && (f != ReplyWithoutID || p.Replies[r].Call >= 0) {
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

// reply decides the fate of a reply in message i, as far as the messages before it tell.
func (p *Pairing) reply(i int, r *facts.Reply, open bool, after int) {
	rep := Reply{Reply: r, ID: r.ID, Message: i, Call: -1, Group: -1, After: after}
	if p.by.names {
		rep.ID = r.Name
	}
	first := len(p.Calls)
	if open {
		rep.Group = len(p.Groups) - 1
		first = p.Groups[rep.Group].First
	}
	if len(rep.ID) > 0 {
		rep.Call = p.find(rep.ID)
	}
	if p.by.names && rep.Call >= 0 {
		rep.Call = p.named(&rep, first)
	}
	switch {
	case len(rep.ID) == 0:
		rep.Fate = ReplyWithoutID
		if open {
			p.answerNoID(&rep)
		}
	case rep.Call >= first && p.Calls[rep.Call].Reply < 0:
		rep.Fate = ReplyMatched
		p.Calls[rep.Call].Reply = len(p.Replies)
	case rep.Call >= first && !p.by.names && p.Calls[rep.Call].next >= 0:
		head := &p.Calls[rep.Call]
		rep.Fate, rep.Call = ReplyMatched, head.next
		head.next = p.Calls[rep.Call].next
		p.Calls[rep.Call].Reply = len(p.Replies)
	case rep.Call >= first:
		rep.Fate = ReplyDuplicate
	case rep.Call >= 0:
		rep.Fate = ReplyLate
		p.elsewhere(rep.Call, len(p.Replies))
	case open:
		rep.Fate = ReplyUnknown
	default:
		rep.Fate = ReplyOrphan
	}
	p.Replies = append(p.Replies, rep)
}

// maxSameName bounds the calls of one function in one group among which an id is looked for.
const maxSameName = 64

// named is the call that a reply means where calls have the same name in every turn: in its own group the one with its
// id, else the next open one; of an earlier group one that is still open, else none.
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
	p.table[p.place(rep.ID)] = int32(head + 1)
	if len(rep.Reply.ID) > 0 {
		for c, n := head, 0; c >= 0 && n < maxSameName; c, n = p.Calls[c].next, n+1 {
			if p.Calls[c].Reply < 0 && string(p.Calls[c].Call.ID) == string(rep.Reply.ID) {
				return c
			}
		}
	}
	return head
}

// elsewhere lets a reply outside the call's group answer it where the dialect allows that.
func (p *Pairing) elsewhere(call, reply int) {
	c := &p.Calls[call]
	if !p.by.anywhere || c.Reply >= 0 {
		return
	}
	c.Reply = reply
	p.Groups[c.Group].Answered++
}

// answerNoID lets a reply without an id answer the first open call without an id of the newest group: the pair is
// malformed, but no reply is missing.
func (p *Pairing) answerNoID(rep *Reply) {
	for ; p.noID < len(p.Calls); p.noID++ {
		if c := &p.Calls[p.noID]; len(c.ID) == 0 && c.Reply < 0 {
			c.Reply, rep.Call = len(p.Replies), p.noID
			return
		}
	}
}

// find is the newest call with this id, or -1.
func (p *Pairing) find(id []byte) int { return int(p.table[p.place(id)]) - 1 }

// place is where the table holds id, or the free place where it would. The seed is random, so nobody can choose ids
// that share one place.
func (p *Pairing) place(id []byte) int {
	mask := len(p.table) - 1
	for at := int(maphash.Bytes(p.seed, id)) & mask; ; at = (at + 1) & mask {
		c := p.table[at]
		if c == 0 || string(p.Calls[c-1].ID) == string(id) {
			return at
		}
	}
}
