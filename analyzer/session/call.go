package session

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// The states of a Call.
const (
	Open      = "open"
	Answered  = "answered"
	Missing   = "missing"   // the conversation continued without its reply, or its run or process ended before the reply
	Duplicate = "duplicate" // a request contained several replies
	Late      = "late"      // the reply arrived after the conversation had continued without it
	Rejected  = "rejected"  // the provider refused the request with the reply, so no model read it
	Abandoned = "abandoned" // the conversation ended without a reply
	Terminal  = "terminal"  // no reply was intended: the call is the answer itself

	notRead = "" // the agent did not read the whole answer
)

// A Call is one tool call of an answer.
type Call struct {
	CallID, Name string
	Position     int    // index in the answer
	Exchange     string // exchange whose answer made the call
	Conversation string
	AskedAt      time.Time
	State        string
	AnsweredAt   time.Time
	AnsweredBy   string    // exchange whose request contained the reply
	StartedAt    time.Time // start of the tool run, as reported by tool events
	EndedAt      time.Time
	ToolStatus   string // status in the newest tool event
	Forced       bool   // the request required the model to call this tool
	Context      any    // value of the caller, from Answer.Context

	ReplyMessage, ReplyPart int    // where the newest reply is in its request; ReplyMessage is -1 if it is told as text
	ReplyError              string // how certain it is that the reply reports an error, set by the caller; see package toolreply
	ReplyHash               uint64 // hash of its content, set by the caller; 0 if there is none

	conv      *conversation
	answer    *answer
	id        uint64 // hash that identifies the call; 0 if replies cannot name it
	byName    uint64 // hash of the name and the order in the answer, in dialects whose replies name functions; else 0
	raw       uint64 // hash of the arguments
	sent      uint64 // hash of the arguments encoded as a JSON string; see hashSent
	meaning   uint64 // canonical hash of the arguments; 0 if they are not JSON
	kind      facts.Kind
	args      facts.Args
	signed    bool // the call has a thought signature
	tool      ToolState
	vague     bool   // a shape of the arguments, which does not tell them from others
	reused    bool   // an earlier answer of the conversation has a call with this id
	callSeen  uint64 // sequence of the newest request that contains the call itself
	replySeen uint64 // sequence of the newest request that contains the reply
}

// Forgotten reports whether the conversation of the call is forgotten, so that the state of the call no longer changes.
func (c *Call) Forgotten() bool { return c.conv.forgotten }

// Paired reports whether replies can name the call.
func (c *Call) Paired() bool { return c.id != 0 }

// MinSeq returns the oldest sequence on which the conversation of the call depends.
func (c *Call) MinSeq() uint64 { return c.conv.minSeq() }

// Order returns the number of the event that completed the answer.
func (c *Call) Order() uint64 { return c.answer.ended }

// End sets the state of a call that no longer waits for its reply: Missing, Abandoned or Terminal.
func (c *Call) End(state string) { c.State = state }

// Undecided reports whether the call may still become Missing: no reply is known and no request continued without one.
func (c *Call) Undecided() bool { return c.State == Open || c.State == Abandoned }

// awaits reports whether a reply to the call would be the first that the model reads.
func (c *Call) awaits() bool {
	switch c.State {
	case Open, Missing, Abandoned, Terminal, Rejected:
		return true
	}
	return false
}

// become sets the state and updates the number of open calls of the conversation.
func (c *Call) become(state string) {
	if c.conv.calls[c.id] != c { // the call is forgotten or its id belongs to a newer call, so it is not counted
		c.State = state
		return
	}
	if c.awaits() {
		c.conv.open--
	}
	if c.State = state; c.awaits() {
		c.conv.open++
	}
}

// broken reports whether the model made the call without a name or with arguments that are not an object.
func (c *Call) broken() bool {
	return c.Name == "" || c.kind == facts.String && c.args > facts.ArgsEmpty
}

// Excused reports whether the absence of the call and its reply is not a missing reply. That is so in two cases: the agent
// kept other calls of the answer and never ran this one, so the model reads a history in which it made fewer calls; or the
// newest request with any part of the answer contains only replies to other calls but no calls, so a rule reports the loss.
func (c *Call) Excused() bool {
	newest := uint64(0)
	for _, o := range c.answer.calls {
		newest = max(newest, o.callSeen, o.replySeen)
	}
	if newest == 0 {
		return false
	}
	kept := slices.ContainsFunc(c.answer.calls, func(o *Call) bool { return o.callSeen == newest })
	return !kept || c.tool == ToolUnknown
}

// remember adds a call under its id. If a model reuses an id, the id refers to the newer call.
func (c *conversation) remember(call *Call) {
	id := call.id
	if c.calls == nil {
		c.calls = make(map[uint64]*Call)
	}
	if old := c.calls[id]; old != nil {
		c.forgetCall(old)
		call.reused = old.answer != call.answer
	}
	c.calls[id] = call
	c.text += len(call.CallID) + len(call.Name)
	c.order = append(c.order, id)
	if call.awaits() {
		c.open++
	}
	c.applyEarly(call)
	for len(c.calls) > maxCalls || len(c.order) > 2*maxCalls {
		oldest := c.order[0]
		c.order = c.order[1:]
		if old := c.calls[oldest]; old != nil && old.answer.seq < call.answer.seq {
			c.forgetCall(old)
			delete(c.calls, oldest)
		}
	}
}

func (c *conversation) forgetCall(call *Call) {
	if call.awaits() {
		c.open--
	}
	c.text -= len(call.CallID) + len(call.Name)
}

// answerCalls finds the calls that the request of t answers, and the calls of the previous answer that the request leaves
// without a reply. named reports that the request names the previous answer by its id, so it was written after that answer.
func (c *conversation) answerCalls(t *Turn, q *skeleton, named bool) {
	for i := len(q.messages) - 1; i >= q.lead && c.open > 0; i-- {
		for j, id := range q.repliesOf(&q.messages[i]) {
			call := c.calls[id]
			if call == nil || !call.awaits() || call.replySeen == t.seq {
				continue
			}
			// In an uncut history, a reply before the position of the answer belongs to an older call with this id.
			if t.aligned.whole && i-q.lead < call.answer.after {
				continue
			}
			t.reply(call, i, j)
		}
	}
	a := t.before
	if a == nil || c.open == 0 {
		return
	}
	from := t.aligned.since(a, a.exchange == t.previous)
	if !named && !q.follows(a, t.aligned, from) {
		return
	}
	q.markCalls(a, from, t.seq)
	t.answerRenamed(q, a)
	for _, call := range a.calls {
		if c.calls[call.id] != call || !call.Undecided() {
			continue
		}
		if named || call.callSeen == t.seq {
			call.become(Missing)
			t.Changed = append(t.Changed, call)
		} else {
			t.Dropped = append(t.Dropped, call)
		}
	}
	c.supersede(t, a)
}

// reply records a reply to call in the request of t: part j of message i, or a text if i is -1.
func (t *Turn) reply(call *Call, i, j int) {
	call.replySeen, call.ReplyMessage, call.ReplyPart = t.seq, i, j
	switch call.State {
	case Rejected: // Settle updates the call if this request is accepted
		t.resent = append(t.resent, call)
		return
	case Missing:
		call.become(Late)
	default:
		call.become(Answered)
	}
	call.AnsweredAt, call.AnsweredBy = t.at, t.exchange
	t.Changed = append(t.Changed, call)
}

// answerRenamed finds replies to the calls of a if the agent wrote the calls and the replies with new ids.
func (t *Turn) answerRenamed(q *skeleton, a *answer) {
	at := q.lead + a.after
	if !t.aligned.whole || at >= len(q.messages) || len(a.calls) == 0 {
		return
	}
	made := q.madeAt(at)
	if !renames(made, a.calls) {
		return
	}
	for i, k := range made {
		call := a.calls[i]
		if k.id == 0 || !call.awaits() {
			continue
		}
		if m := q.replyAfter(k.id, at); m >= 0 {
			t.reply(call, m, slices.Index(q.repliesOf(&q.messages[m]), k.id))
		}
	}
}

// madeAt returns the calls of the message at index at, or of the items from there on in dialects with calls as separate items.
func (s *skeleton) madeAt(at int) []callMark {
	for at < len(s.messages) && (s.messages[at].item == facts.ItemReasoning || s.messages[at].item == facts.ItemOther) {
		at++
	}
	if at == len(s.messages) {
		return nil
	}
	first, n := s.messages[at].firstCall, s.messages[at].calls
	for ; at+1 < len(s.messages) && s.messages[at+1].item == facts.ItemCall; at++ {
		n += s.messages[at+1].calls
	}
	return s.calls[first : first+n]
}

// since returns the index in the body of the first message that may be newer than a. Older messages may have calls with the
// same ids as a. answered reports that a is the answer to the previous request.
func (al *alignment) since(a *answer, answered bool) int {
	switch {
	case al.whole:
		return a.after
	case answered:
		return max(al.prefix, al.tailEnd)
	}
	return 0
}

// follows reports whether s was written after a was read. from is the first message of its body that may be newer than a. Some
// requests are not evidence about the calls of a: a repeated request; a request from which a was cut together with the messages
// around it; and a request without any answer at the position of a, because a was discarded as a whole or another agent of the
// conversation wrote the request.
func (s *skeleton) follows(a *answer, al alignment, from int) bool {
	body := s.body()
	if al.whole && len(body) > max(al.prefix, a.after) && !body[a.after].external() {
		return true
	}
	return len(a.calls) > 0 && slices.ContainsFunc(body[min(from, len(body)):], func(m message) bool { return m.calls > 0 && s.copies(&m, a) })
}

// markCalls records seq in the calls of a that s contains from message from of its body on, with or without a reply.
func (s *skeleton) markCalls(a *answer, from int, seq uint64) {
	for i := s.lead + from; i < len(s.messages); i++ {
		for _, m := range s.callsOf(&s.messages[i]) {
			if call := a.call(m.id); call != nil {
				call.callSeen = seq
			}
		}
	}
}

// maxSuperseded bounds the number of calls that supersede examines, newest first.
const maxSuperseded = 64

// supersede finds pending calls of another process, although the conversation continued from a newer answer that the
// process of this request received.
func (c *conversation) supersede(t *Turn, a *answer) {
	if t.source.instance == "" || a.source.instance != t.source.instance {
		return
	}
	for i := len(c.order) - 1; i >= max(0, len(c.order)-maxSuperseded); i-- {
		call := c.calls[c.order[i]]
		if call == nil || !call.Undecided() || call.answer.seq >= a.seq || call.callSeen == t.seq || call.replySeen == t.seq {
			continue
		}
		if by := call.answer.source.instance; by != "" && by != t.source.instance {
			t.Superseded = append(t.Superseded, call)
		}
	}
}

// Settle records whether the provider accepted the request of t and returns the calls whose state changes: the replies in a
// refused request did not reach the model.
func (t *Turn) Settle(accepted, refused bool) (changed []*Call) {
	switch {
	case refused:
		for _, c := range t.Changed {
			if c.State == Answered && c.AnsweredBy == t.exchange {
				c.become(Rejected)
				changed = append(changed, c)
			}
		}
	case accepted:
		for _, c := range t.resent {
			if c.State == Rejected {
				c.become(Answered)
				c.AnsweredAt, c.AnsweredBy = t.at, t.exchange
				changed = append(changed, c)
			}
		}
	}
	t.resent = nil
	return changed
}

// Misplaced records that a call in message at of the request has a duplicate or a late reply, which is reply part of message i;
// state is Duplicate or Late. Misplaced returns the call if its state changed.
func (t *Turn) Misplaced(at, i, part int, state string) *Call {
	key := t.q.repliesOf(&t.q.messages[i])[part]
	if !t.q.makes(at, key) {
		return nil // the reply is to a call that the request does not contain
	}
	call := t.conv.calls[key]
	if key == 0 || call == nil || call.answer == nil {
		return nil
	}
	if t.aligned.whole && at-t.q.lead != call.answer.after || !t.aligned.whole && call.reused {
		return nil // another call with this id
	}
	switch {
	case state == Duplicate && (call.State == Answered || call.State == Late || call.State == Rejected):
	case state == Late && call.State == Answered && call.AnsweredBy == t.exchange:
	default:
		return nil
	}
	call.become(state)
	return call
}
