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
	Abandoned = "abandoned" // the conversation just stopped
	Terminal  = "terminal"  // no reply was intended: the call is the answer itself

	notRead = "" // of an answer that the agent did not read to its end
)

// A Call is one tool call of an answer.
type Call struct {
	CallID, Name string
	Position     int    // in the answer
	Exchange     string // whose answer made the call
	Conversation string
	AskedAt      time.Time
	State        string
	AnsweredAt   time.Time
	AnsweredBy   string    // exchange whose request contained the reply
	StartedAt    time.Time // of the tool, as its events report
	EndedAt      time.Time
	ToolStatus   string // of its newest event
	Forced       bool   // the request left the model no other tool
	Context      any    // of the caller, from Answer

	conv      *conversation
	answer    *answer
	id        uint64 // by which replies name it
	raw       uint64 // hash of the arguments
	sent      uint64 // the same for them in a JSON string
	meaning   uint64 // canonical hash of the arguments; 0 when they are not JSON
	kind      facts.Kind
	args      facts.Args
	signed    bool // it has a thought signature
	tool      ToolState
	reused    bool   // another answer of the conversation made a call with this id before
	callSeen  uint64 // newest request, by its sequence, that contains the call itself
	replySeen uint64 // newest request that contains its reply
}

// Forgotten reports whether the conversation of the call is forgotten: nothing more will be known of the call.
func (c *Call) Forgotten() bool { return c.conv.forgotten }

// Paired reports whether replies can name the call.
func (c *Call) Paired() bool { return c.id != 0 }

// MinSeq returns the oldest sequence that the conversation of the call was made from.
func (c *Call) MinSeq() uint64 { return c.conv.minSeq() }

// Seq returns the sequence of the event that completed the answer.
func (c *Call) Seq() uint64 { return c.answer.ended }

// End sets the state of a call that no longer waits for its reply: Missing, Abandoned or Terminal.
func (c *Call) End(state string) { c.State = state }

// Undecided reports whether nothing is known of a reply yet, so that the call may turn out Missing.
func (c *Call) Undecided() bool { return c.State == Open || c.State == Abandoned }

// awaits reports whether a reply to the call would be new.
func (c *Call) awaits() bool {
	switch c.State {
	case Open, Missing, Abandoned, Terminal, Rejected:
		return true
	}
	return false
}

// become changes the state.
func (c *Call) become(state string) {
	if c.conv.calls[c.id] != c { // forgotten, or its id belongs to a newer call: it is not counted
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

// broken reports whether the model made the call without a name or with arguments that are no object.
func (c *Call) broken() bool {
	return c.Name == "" || c.kind == facts.String && c.args > facts.ArgsEmpty
}

// Excused reports whether something else explains that the call and its reply are gone: the agent kept other calls of
// the answer and never ran this one, so that the model reads that it asked for less; or the newest request with anything
// of the answer contains replies to other calls and none of the calls, so that a rule reports what was cut off or lost.
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

// remember makes a call known by its id. When a model uses an id again, the id means the newer call.
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

// answerCalls finds the calls that the request of t answers, and those of the answer before it that it leaves without a
// reply. named reports that the request names that answer by its id, so it was written after the answer.
func (c *conversation) answerCalls(t *Turn, q *skeleton, named bool) {
	for i := len(q.messages) - 1; i >= q.lead && c.open > 0; i-- {
		for _, id := range q.repliesOf(&q.messages[i]) {
			call := c.calls[id]
			if call == nil || !call.awaits() || call.replySeen == t.seq {
				continue
			}
			// In a history that was not cut, a reply before the place of the answer belongs to an older call with this id.
			if t.aligned.whole && i-q.lead < call.answer.after {
				continue
			}
			call.replySeen = t.seq
			switch call.State {
			case Rejected: // until this request is accepted
				t.resent = append(t.resent, call)
				continue
			case Missing:
				call.become(Late)
			default:
				call.become(Answered)
			}
			call.AnsweredAt, call.AnsweredBy = t.at, t.exchange
			t.Changed = append(t.Changed, call)
		}
	}
	a := t.before
	if a == nil || c.open == 0 || !named && !q.follows(a, t.aligned) {
		return
	}
	q.markCalls(a, t.aligned, t.seq)
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

// follows reports whether q was written after a was read. A request that is sent again, or one from which a is cut with
// everything around it, is no evidence about the calls of a. Nor is one without any answer in the place of a: a was
// discarded as a whole, or another agent of the conversation speaks.
func (q *skeleton) follows(a *answer, al alignment) bool {
	body := q.body()
	if al.whole && len(body) > max(al.prefix, a.after) && !body[a.after].external() {
		return true
	}
	return len(a.calls) > 0 && slices.ContainsFunc(body, func(m message) bool { return m.calls > 0 && q.copies(&m, a) })
}

// markCalls marks the calls of a that q contains, with or without a reply.
func (q *skeleton) markCalls(a *answer, al alignment, seq uint64) {
	for i := len(q.messages) - 1; i >= q.lead; i-- {
		if al.whole && i-q.lead < a.after {
			return
		}
		for _, m := range q.callsOf(&q.messages[i]) {
			if call := a.call(m.id); call != nil {
				call.callSeen = seq
			}
		}
	}
}

// maxSuperseded bounds the search for calls of another process, newest first.
const maxSuperseded = 64

// supersede finds the calls of another process that wait although the conversation continued from a newer answer, which
// the process of this request got.
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

// Settle records how the provider answered the request of t and returns the calls that this changes: a reply that is
// refused with its request did not arrive.
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

// Misplaced records that message i of the request has a reply too many or too late; state says which. The message calls
// with id or, where replies name functions, with the function name as the nth of its turn. It returns the call if it changed.
func (t *Turn) Misplaced(id, name []byte, nth, i int, state string) *Call {
	key := hashOrZero(id)
	if t.names && len(name) > 0 && t.conv.calls[key] == nil {
		key = hashOrZero(name) + uint64(nth)
	}
	call := t.conv.calls[key]
	if key == 0 || call == nil || call.answer == nil {
		return nil
	}
	if t.aligned.whole && i-t.q.lead != call.answer.after || !t.aligned.whole && call.reused {
		return nil // it is another call with this id
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
