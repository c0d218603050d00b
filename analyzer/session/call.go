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
	Missing   = "missing"   // the conversation went on without its reply, or its run or process ended before it came
	Duplicate = "duplicate" // a request held several replies
	Late      = "late"      // the reply came after the conversation had gone on
	Rejected  = "rejected"  // the provider refused the request that held the reply, so no model read it
	Abandoned = "abandoned" // the conversation just stopped
	Terminal  = "terminal"  // nobody meant to reply: the call is the answer

	unread = "" // of an answer that the agent did not read to its end
)

// A Call is one tool call of an answer.
type Call struct {
	CallID, Name string
	Position     int    // in the answer
	Exchange     string // that asked
	Conversation string
	AskedAt      time.Time
	State        string
	AnsweredAt   time.Time
	AnsweredBy   string    // exchange whose request held the reply
	StartedAt    time.Time // when the tool started, as its events say
	EndedAt      time.Time
	ToolStatus   string // of its newest event
	Forced       bool   // the request left the model no other tool
	Context      any    // what the caller gave in Answer

	conv    *conversation
	answer  *answer
	id      uint64 // as replies name it
	raw     uint64 // hash of the arguments
	sent    uint64 // the same of them in a JSON string
	meaning uint64 // canonical hash of the arguments; 0 when they are not JSON
	kind    facts.Kind
	args    facts.Args
	signed  bool // it has a thought signature
	tool    ToolState
	again   bool   // another answer of the conversation called with this id before
	kept    uint64 // newest request, by its sequence, that holds the call itself
	carried uint64 // newest request that holds its reply
}

// Forgotten reports whether the conversation of the call is no longer remembered: nothing more will be known of the call.
func (c *Call) Forgotten() bool { return c.conv.gone }

// Paired reports whether replies can name the call.
func (c *Call) Paired() bool { return c.id != 0 }

// MinSeq is the oldest sequence that what is known of the call was made from.
func (c *Call) MinSeq() uint64 { return c.conv.minSeq }

// Seq is the sequence of the event that completed the answer.
func (c *Call) Seq() uint64 { return c.answer.ended }

// End says that no reply is awaited for now: the state becomes Missing, Abandoned or Terminal.
func (c *Call) End(state string) { c.State = state }

// Undecided reports whether nothing is known yet of a reply, so that it may turn out Missing.
func (c *Call) Undecided() bool { return c.State == Open || c.State == Abandoned }

// waits reports whether a reply to the call would be news.
func (c *Call) waits() bool {
	switch c.State {
	case Open, Missing, Abandoned, Terminal, Rejected:
		return true
	}
	return false
}

// become changes the state.
func (c *Call) become(state string) {
	if c.conv.calls[c.id] != c { // forgotten, or its id means a newer call: it is not counted
		c.State = state
		return
	}
	if c.waits() {
		c.conv.open--
	}
	if c.State = state; c.waits() {
		c.conv.open++
	}
}

// remember makes a call known by its id. A model may use an id again; then the newer call is meant.
func (c *conversation) remember(call *Call) {
	id := call.id
	if c.calls == nil {
		c.calls = make(map[uint64]*Call)
	}
	if old := c.calls[id]; old != nil {
		c.forgetCall(old)
		call.again = old.answer != call.answer
	}
	c.calls[id] = call
	c.text += len(call.CallID) + len(call.Name)
	c.order = append(c.order, id)
	if call.waits() {
		c.open++
	}
	c.begun(call)
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
	if call.waits() {
		c.open--
	}
	c.text -= len(call.CallID) + len(call.Name)
}

// answerCalls finds the calls that the request of t answers, and those of the answer before it that it leaves without a
// reply. A request that names that answer by its id was written after it.
func (c *conversation) answerCalls(t *Turn, q *skeleton, named bool) {
	a, f := t.before, t.fit
	for i := len(q.messages) - 1; i >= q.lead && c.open > 0; i-- {
		for _, id := range q.replyIDs(&q.messages[i]) {
			call := c.calls[id]
			if call == nil || !call.waits() || call.carried == t.seq {
				continue
			}
			// In a history that was not cut, a reply before the place of the answer belongs to an older call with this id.
			if f.whole && i-q.lead < call.answer.after {
				continue
			}
			call.carried = t.seq
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
	if a == nil || c.open == 0 || !named && !c.wentOn(q, a, f) {
		return
	}
	q.keeps(a, f, t.seq)
	for _, call := range a.calls {
		if c.calls[call.id] != call || !call.Undecided() {
			continue
		}
		if named || call.kept == t.seq {
			call.become(Missing)
			t.Changed = append(t.Changed, call)
		} else {
			t.Dropped = append(t.Dropped, call)
		}
	}
	c.superseded(t, a)
}

// Excused reports whether something else explains that the call and its reply are gone: the agent kept other calls of
// the answer and never ran this one, so that the model reads that it asked for less, or the newest request with anything
// of the answer holds replies to others of its calls and none of the calls, so that a rule says what was cut off or lost.
func (c *Call) Excused() bool {
	newest := uint64(0)
	for _, o := range c.answer.calls {
		newest = max(newest, o.kept, o.carried)
	}
	if newest == 0 {
		return false
	}
	kept := slices.ContainsFunc(c.answer.calls, func(o *Call) bool { return o.kept == newest })
	return !kept || c.tool == ToolUnknown
}

// keeps marks the calls of a that q holds, reply or not.
func (q *skeleton) keeps(a *answer, f fit, seq uint64) {
	for i := len(q.messages) - 1; i >= q.lead; i-- {
		if f.whole && i-q.lead < a.after {
			return
		}
		for _, m := range q.calls(&q.messages[i]) {
			if call := a.call(m.id); call != nil {
				call.kept = seq
			}
		}
	}
}

// maxSuperseded bounds the calls, newest first, among which those of another process are looked for.
const maxSuperseded = 64

// superseded finds the calls of another process that wait although the conversation went on from a newer answer, which
// this process got.
func (c *conversation) superseded(t *Turn, a *answer) {
	if t.source.instance == "" || a.source.instance != t.source.instance {
		return
	}
	for i := len(c.order) - 1; i >= max(0, len(c.order)-maxSuperseded); i-- {
		call := c.calls[c.order[i]]
		if call == nil || !call.Undecided() || call.answer.seq >= a.seq || call.kept == t.seq || call.carried == t.seq {
			continue
		}
		if by := call.answer.source.instance; by != "" && by != t.source.instance {
			t.Superseded = append(t.Superseded, call)
		}
	}
}

// wentOn reports whether q was written after a was read. A request that is sent again, or one from which a is cut
// together with everything around it, says nothing of a's calls. Nor does one that has no answer at all in the place of a:
// a was thrown away as a whole, or another agent of the conversation speaks.
func (c *conversation) wentOn(q *skeleton, a *answer, f fit) bool {
	body := q.body()
	if f.whole && len(body) > max(f.prefix, a.after) && !body[a.after].fromOutside() {
		return true
	}
	for i := range body {
		if q.copies(&body[i], a) && len(a.calls) > 0 && body[i].calls > 0 {
			return true
		}
	}
	return false
}

// Settle takes over how the provider answered the request of t: refused says that it did not take it. It returns the
// calls that changed by this: a reply that is refused with its request did not arrive.
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

// Misplaced notes that message i of the request, which calls with id, or with the function name as the nth of its turn,
// has a reply that is one too many, or came too late; state says which. It returns the call when it changed.
func (t *Turn) Misplaced(id, name []byte, nth, i int, state string) *Call {
	key := hashOrZero(id)
	if t.names && len(name) > 0 && t.conv.calls[key] == nil {
		key = hashOrZero(name) + uint64(nth)
	}
	call := t.conv.calls[key]
	if key == 0 || call == nil || call.answer == nil {
		return nil
	}
	if t.fit.whole && i-t.q.lead != call.answer.after || !t.fit.whole && call.again {
		return nil // another call with this id is meant
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
