package session

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// The states of a Call.
const (
	Open     = "open"
	Answered = "answered"
	Missing  = "missing" // the conversation went on without its reply

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
	AnsweredBy   string // exchange whose request held the reply
	Asker        any    // what the caller gave in Answer

	answer  *answer
	id      uint64 // as replies name it
	raw     uint64 // hash of the arguments
	sent    uint64 // the same of them in a JSON string
	meaning uint64 // canonical hash of the arguments; 0 when they are not JSON
	kind    facts.Kind
	args    facts.Args
	signed  bool // it has a thought signature
	tool    ToolState
	again   bool // another answer of the conversation called with this id before
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
	for len(c.calls) > maxCalls || len(c.order) > 2*maxCalls {
		oldest := c.order[0]
		c.order = c.order[1:]
		if old := c.calls[oldest]; old != nil && old.answer.seq < call.answer.seq {
			c.forgetCall(old)
			delete(c.calls, oldest)
		}
	}
}

// waits reports whether a reply to the call would be news.
func (c *Call) waits() bool { return c.State == Open || c.State == Missing }

func (c *conversation) forgetCall(call *Call) {
	if call.waits() {
		c.open--
	}
	c.text -= len(call.CallID) + len(call.Name)
}

// answerCalls finds the calls that q answers, and those of a, the answer before q, that it leaves without a reply.
// A request that names a by its id was written after a. It returns the calls that changed.
func (c *conversation) answerCalls(q *skeleton, a *answer, f fit, named bool, in *In) []*Call {
	var changed []*Call
	for i := len(q.messages) - 1; i >= q.lead && c.open > 0; i-- {
		for _, id := range q.replyIDs(&q.messages[i]) {
			call := c.calls[id]
			if call == nil || !call.waits() {
				continue
			}
			// In a history that was not cut, a reply before the place of the answer belongs to an older call with this id.
			if f.whole && i-q.lead < call.answer.after {
				continue
			}
			call.State, call.AnsweredAt, call.AnsweredBy = Answered, in.Seen, in.Exchange
			changed = append(changed, call)
			c.open--
		}
	}
	if a == nil || !named && !c.wentOn(q, a, f) {
		return changed
	}
	for _, call := range a.calls {
		if c.calls[call.id] == call && call.State == Open {
			call.State = Missing
			changed = append(changed, call)
		}
	}
	return changed
}

// wentOn reports whether q was written after a was read. A request that is sent again, or one from which a is cut
// together with everything around it, says nothing of a's calls.
func (c *conversation) wentOn(q *skeleton, a *answer, f fit) bool {
	body := q.body()
	if f.whole && len(body) > max(f.prefix, a.after) {
		return true
	}
	for i := range body {
		if q.copies(&body[i], a) && len(a.calls) > 0 && body[i].calls > 0 {
			return true
		}
	}
	return false
}

// ToolState is how far a tool came that the agent ran for a call, as its events say.
type ToolState uint8

// The states, in their order.
const (
	ToolUnknown ToolState = iota
	ToolStarted
	ToolEnded
)

// Tool notes that a tool ran for the call with this id of a conversation. An event of a call that is not known says
// nothing.
func (s *Store) Tool(service, conversation, callID string, state ToolState) {
	if callID == "" {
		return
	}
	id := hashName(callID)
	c := s.convs[key{service, conversation}]
	if c == nil && unique(callID) {
		k := callKey(service, id, true, 0)
		if c = s.found[k]; len(s.crowd[k]) > 0 {
			c = nil
		}
	}
	if c == nil {
		return
	}
	c.tools = true
	if call := c.calls[id]; call != nil {
		call.tool = max(call.tool, state)
	}
}
