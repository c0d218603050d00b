package session

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// The root causes that are told apart.
const (
	// CallsDropped: the agent saved the assistant message without its tool_calls.
	CallsDropped = "tool_calls_dropped_on_save"
	// Truncated: the agent shortened its history between a call and its reply.
	Truncated = "history_truncated_mid_pair"
	// NoHistory: nothing is known of what the request was made from.
	NoHistory = "unknown_no_history"
)

// Degrees of confidence.
const (
	High   = "high"
	Medium = "medium"
	Low    = "low"
)

const (
	fixDropped = "Save the whole assistant message, tool_calls included, before its tool messages; do not rebuild it from role and content."
	fixTrunc   = "Shorten the history only between turns: keep or drop an assistant message with tool_calls together with all its tool messages."
)

// A RootCause is what the agent did that made a request defective. The zero value says that the history is known and
// fits none.
type RootCause struct {
	ID         string
	Detail     string // of Truncated: head, middle, tail
	Confidence string
	Evidence   string // what answer N said and what request N+1 sent
	Fix        string
}

// Rank orders root causes by how much they say: 0 nothing, 1 a root cause.
func (r *RootCause) Rank() int {
	if r.ID == "" || r.ID == NoHistory {
		return 0
	}
	return 1
}

// A Symptom is a defect of the request whose root cause is asked for.
type Symptom struct {
	Rule       string // orphan_tool_reply, missing_tool_reply; others have no root cause yet
	Message    int    // 0-based index in messages as sent
	ToolCallID string
}

// An Instance is one defect that a conversation remembers, so that it is reported once.
type Instance struct {
	Exchange string // the first that showed it
	Since    time.Time
	Root     RootCause

	// What the caller reported of it, in its own measure; 0 nothing.
	Severity, Rank int
}

// Seen returns the memory of the defect with this id, and whether it is new.
func (s *Store) Seen(t *Turn, id [16]byte) (in *Instance, fresh bool) {
	c := t.conv
	if in = c.instances[id]; in != nil {
		return in, false
	}
	in = &Instance{Exchange: t.exchange, Since: t.at}
	if len(c.instances) < maxInstances {
		if c.instances == nil {
			c.instances = make(map[[16]byte]*Instance)
		}
		c.instances[id] = in
		s.account(c)
	}
	return in, true
}

// ToolName is the name of the newest call with this id in the conversation, or "".
func (t *Turn) ToolName(callID string) string {
	if c := t.conv.calls[hashName(callID)]; c != nil {
		return c.Name
	}
	return ""
}

// RootCause explains a defect of the request of t from the request and answers before it. It never guesses: without
// them it is NoHistory.
func (t *Turn) RootCause(s Symptom) RootCause {
	// Where calls and replies are items of their own, one that is gone is not the same as a message that lost its calls.
	if !t.fit.known || t.items {
		return RootCause{ID: NoHistory, Confidence: Low}
	}
	if s.ToolCallID == "" || s.Message < 0 || s.Message >= len(t.q.messages) {
		return RootCause{}
	}
	switch s.Rule {
	case "orphan_tool_reply":
		return t.orphan(s)
	case "missing_tool_reply":
		return t.missing(s)
	}
	return RootCause{}
}

// orphan explains a reply whose call is nowhere in the request: either the message that made the call lost it, or the
// message is gone.
func (t *Turn) orphan(s Symptom) RootCause {
	id := hashName(s.ToolCallID)
	call := t.conv.calls[id]
	declared := t.p.declares(id) // in the request before
	if call == nil && declared < 0 {
		return RootCause{}
	}
	if at := t.q.owner(s.Message); at >= t.q.lead && t.q.messages[at].role == facts.RoleAssistant && t.q.messages[at].calls == 0 {
		if sure, ok := t.isCopy(at, call, declared); ok {
			return t.dropped(s, at, call, declared, sure)
		}
	}
	if declared >= 0 {
		return t.cutBefore(s, declared)
	}
	return t.cutAnswer(s, call)
}

// isCopy reports whether message at, an assistant message without calls, is what the agent saved of the message that
// made the call, and whether that is sure: text and everything before it are unchanged.
func (t *Turn) isCopy(at int, call *Call, declared int) (sure, ok bool) {
	m, place := &t.q.messages[at], at-t.q.lead
	if declared >= 0 { // it was saved with its calls once, and lost them since, as when it is loaded from a database
		d := &t.p.messages[declared]
		same := sameText(d.text, d.noText, m.text, m.noText)
		if place == declared-t.p.lead && place == t.fit.prefix {
			// A summary may stand here too; then what followed the call is gone as well.
			return same, same || t.follows(declared, at)
		}
		return false, same && !m.noText
	}
	a := call.answer
	same := sameText(a.text, a.noText, m.text, m.noText)
	switch {
	case t.fit.tailEnd >= 0 && place < t.fit.tailEnd && place != a.after:
		return false, false // a message of the request before, older than the answer
	case same:
		return t.fit.whole, true
	}
	// Another text: an agent that also shortens what it saves. Only the place can tell.
	return false, t.fit.whole && place == a.after
}

// follows reports whether the message after declared in the request before still comes after at.
func (t *Turn) follows(declared, at int) bool {
	if declared+1 == len(t.p.messages) {
		return true
	}
	return at+1 < len(t.q.messages) && t.p.same(&t.p.messages[declared+1], t.q, &t.q.messages[at+1])
}

func (t *Turn) dropped(s Symptom, at int, call *Call, declared int, sure bool) RootCause {
	r := RootCause{ID: CallsDropped, Confidence: Medium, Fix: fixDropped}
	if sure {
		r.Confidence = High
	}
	who := fmt.Sprintf("message %d of the request before (exchange %s)", declared, t.previous)
	if declared < 0 {
		who = "answer of exchange " + call.Exchange
	}
	r.Evidence = fmt.Sprintf("%s made %s; message %d of the next request is its copy without tool_calls, and message %d answers %s",
		who, named(s.ToolCallID, call), at, s.Message, s.ToolCallID)
	return r
}

// cutBefore explains an orphan whose call was in the request before: a range of messages is gone, the call in it.
func (t *Turn) cutBefore(s Symptom, declared int) RootCause {
	from, to := t.fit.prefix, len(t.p.body())-t.fit.tail
	if place := declared - t.p.lead; place < from || place >= to || to-from < 2 {
		return RootCause{} // one message alone is gone: no truncation
	}
	return t.cut(s, fmt.Sprintf("message %d of the request before (exchange %s) called %s", declared, t.previous,
		named(s.ToolCallID, t.conv.calls[hashName(s.ToolCallID)])), to)
}

// cutAnswer explains an orphan whose call was in an answer that the request should hold.
func (t *Turn) cutAnswer(s Symptom, call *Call) RootCause {
	if t.fit.tailEnd >= 0 || len(t.p.body()) == t.fit.prefix {
		return RootCause{} // what stood before the answer is still there
	}
	for i := range t.q.messages {
		if m := &t.q.messages[i]; m.role == facts.RoleAssistant && t.q.copies(m, call.answer) {
			return RootCause{}
		}
	}
	return t.cut(s, fmt.Sprintf("answer of exchange %s made %s", call.Exchange, named(s.ToolCallID, call)), len(t.p.body()))
}

func (t *Turn) cut(s Symptom, who string, to int) RootCause {
	r := RootCause{ID: Truncated, Detail: "head", Confidence: High, Fix: fixTrunc}
	// The reply stands where the cut was made; one inserted message may be a summary of what was cut.
	if place := t.q.owner(s.Message) + 1 - t.q.lead; place > t.fit.prefix+1 {
		r.Confidence = Medium
	}
	if t.fit.prefix > 1 {
		r.Detail = "middle"
	}
	first := t.p.lead + t.fit.prefix
	r.Evidence = fmt.Sprintf("%s; of the %d messages of exchange %s, %d to %d are gone from the next request, and its message %d answers %s alone",
		who, len(t.p.messages), t.previous, first, t.p.lead+to-1, s.Message, s.ToolCallID)
	return r
}

// missing explains a call without a reply: its reply was in the request before and is gone.
func (t *Turn) missing(s Symptom) RootCause {
	id := hashName(s.ToolCallID)
	if t.p.replies(id) <= t.q.replies(id) {
		return RootCause{}
	}
	r := RootCause{ID: Truncated, Detail: "middle", Confidence: High, Fix: fixTrunc}
	if t.fit.tail == 0 {
		r.Detail = "tail"
	}
	r.Evidence = fmt.Sprintf("the request before (exchange %s, %d messages) held the reply to %s; the next request still calls it in message %d but holds no reply",
		t.previous, len(t.p.messages), named(s.ToolCallID, t.conv.calls[id]), s.Message)
	return r
}

// named is a call id with the tool's name, if it is known.
func named(id string, c *Call) string {
	if c == nil || c.Name == "" {
		return id
	}
	return id + " (" + c.Name + ")"
}
