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
	ReplyDuplicate              // its call, in its own group, is answered already
	ReplyLate                   // its call stands in an earlier group, which is closed
	ReplyUnknown                // its group is open, but no call before it has its id
	ReplyBeforeCall             // no group is open, and its call comes later
	ReplyOrphan                 // no group is open, and no call of the request has its id
	fates
)

// A Group is an assistant message with calls and the replies that directly follow it. A parallel call has its
// second reply after a reply, so looking only at the message before a reply is wrong.
type Group struct {
	Message  int // the assistant message
	End      int // the first message after the group; len(messages) when the request ends with the group
	Answered int // calls with a reply in the group
	First    int // of its calls in Pairing.Calls
	Last     int // one past its last call
}

// A PairedCall is one call of an assistant message.
type PairedCall struct {
	*facts.Call
	Group int // in Pairing.Groups
	Reply int // in Pairing.Replies: the reply in its own group; -1 when there is none

	same int // an earlier call of the group with the same id, which stands for this one; -1 when there is none
}

// A Reply is one tool message.
type Reply struct {
	Message int
	ID      []byte // as in facts.Message.ToolCallID
	Fate    Fate
	Call    int // in Pairing.Calls: the call it names; -1 when the request has none
	After   int // the last message before it that is no reply; -1 when there is none
}

// Pairing matches the tool replies of a request to its calls. An id may be used again in a later turn: models and
// gateways number their calls anew each turn, and providers accept that, so a reply is sought in its own group first.
type Pairing struct {
	Groups  []Group
	Calls   []PairedCall
	Replies []Reply

	seen  [fates]int // replies by fate
	table []int32    // open addressing: 1 + the newest call with an id; 0 is a free place
	seed  maphash.Seed
	noID  int // where to look for the next open call without an id
}

// With yields the replies of one fate in message order.
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
func (p *Pairing) reset(r *facts.Request) {
	p.Groups, p.Calls, p.Replies, p.seen = p.Groups[:0], p.Calls[:0], p.Replies[:0], [fates]int{}
	p.size(r)
	open, after := false, -1
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == facts.RoleTool {
			p.reply(i, m, open, after)
			continue
		}
		p.close(i)
		open, after = p.open(i, m), i
	}
	p.close(len(r.Messages))

	// A reply with no open group and no call before it: only now it is known whether its call comes later.
	for i := range p.Replies {
		rep := &p.Replies[i]
		if rep.Fate == ReplyOrphan {
			if rep.Call = p.find(rep.ID); rep.Call >= 0 {
				rep.Fate = ReplyBeforeCall
			}
		}
		p.seen[rep.Fate]++
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
	for j := range m.Calls {
		c := PairedCall{Call: &m.Calls[j], Group: len(p.Groups), Reply: -1, same: -1}
		if len(c.ID) > 0 {
			place := p.place(c.ID)
			if older := int(p.table[place]) - 1; older >= first {
				c.same = older
			} else {
				p.table[place] = int32(len(p.Calls) + 1)
			}
		}
		p.Calls = append(p.Calls, c)
	}
	p.Groups = append(p.Groups, Group{Message: i, End: -1, First: first, Last: len(p.Calls)})
	p.noID = first
	return true
}

// close ends the newest group before message end, if it is still open.
func (p *Pairing) close(end int) {
	if len(p.Groups) == 0 || p.Groups[len(p.Groups)-1].End >= 0 {
		return
	}
	g := &p.Groups[len(p.Groups)-1]
	g.End = end
	for i := g.First; i < g.Last; i++ {
		c := &p.Calls[i]
		if c.same >= 0 {
			c.Reply = p.Calls[c.same].Reply
		}
		if c.Reply >= 0 {
			g.Answered++
		}
	}
}

// reply decides the fate of the tool message i, as far as the messages before it tell.
func (p *Pairing) reply(i int, m *facts.Message, open bool, after int) {
	rep := Reply{Message: i, ID: m.ToolCallID, Call: -1, After: after}
	first := len(p.Calls)
	if open {
		first = p.Groups[len(p.Groups)-1].First
	}
	if len(rep.ID) > 0 {
		rep.Call = p.find(rep.ID)
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
	case rep.Call >= first:
		rep.Fate = ReplyDuplicate
	case rep.Call >= 0:
		rep.Fate = ReplyLate
	case open:
		rep.Fate = ReplyUnknown
	default:
		rep.Fate = ReplyOrphan
	}
	p.Replies = append(p.Replies, rep)
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
