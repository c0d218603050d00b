package session

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// orphan explains a reply whose call is nowhere in the request: the message that made the call lost it, or is gone.
func (t *Turn) orphan(s *Symptom) RootCause {
	if s.id == 0 || s.Message < 0 {
		return RootCause{}
	}
	call := t.call(s.id)
	declared := t.p.declares(s.id) // in the request before
	if call == nil && declared < 0 {
		if t.newRun() && len(t.q.ids) == 0 && t.fit.prefix <= 1 {
			return because(ReplayedUnbound, High, "", "the request begins a new run or process and holds no calls; its %s %d answers %s, which no answer of the conversation made",
				t.item(), s.Message, quote(s.ToolCallID))
		}
		return RootCause{}
	}
	if r := t.concurrent(s, call); r.ID != "" {
		return r
	}
	if t.items {
		if r := t.itemDropped(s, call, declared); r.ID != "" {
			return r
		}
	}
	at, sure, ok := t.copyWithoutCalls(s, call, declared)
	if ok && sure {
		return t.dropped(s, at, call, declared, High)
	}
	if r := t.replayed(s, call, declared); r.ID != "" {
		return r
	}
	if ok {
		return t.dropped(s, at, call, declared, Medium)
	}
	return t.cutAway(s, call, declared)
}

// cutAway explains a reply whose call's message is gone.
func (t *Turn) cutAway(s *Symptom, call *Call, declared int) RootCause {
	if declared >= 0 {
		return t.cutBefore(s, call, declared)
	}
	if call == nil {
		return RootCause{}
	}
	return t.cutAnswer(s, call)
}

// copyWithoutCalls finds, in the turn before the reply, what the agent saved of the message that made the call.
func (t *Turn) copyWithoutCalls(s *Symptom, call *Call, declared int) (at int, sure, ok bool) {
	for at = t.q.owner(s.Message); at >= t.q.lead && t.q.messages[at].role == facts.RoleAssistant && t.q.messages[at].calls == 0; at-- {
		if sure, ok = t.isCopy(at, call, declared); ok {
			return at, sure, true
		}
	}
	return -1, false, false
}

// isCopy reports whether message at, an assistant message without calls, is what the agent saved of the message that
// made the call, and whether that is sure: text and everything before it are unchanged.
func (t *Turn) isCopy(at int, call *Call, declared int) (sure, ok bool) {
	m, place := &t.q.messages[at], at-t.q.lead
	if declared >= 0 { // it was saved with its calls once, and lost them since, as when it is loaded from a database
		d := &t.p.messages[declared]
		same := sameText(d.text, d.noText, m.text, m.noText) || t.loose() && d.bytes == m.bytes && d.bytes > 0
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

func (t *Turn) loose() bool { return loose(t.pSource, t.source) }

// follows reports whether the message after declared in the request before still comes after at.
func (t *Turn) follows(declared, at int) bool {
	if declared+1 == len(t.p.messages) {
		return true
	}
	return at+1 < len(t.q.messages) && t.p.same(&t.p.messages[declared+1], t.q, &t.q.messages[at+1], t.loose())
}

// said is who made the call: an answer, or a message of the request before.
func (t *Turn) said(s *Symptom, call *Call, declared int) string {
	if declared >= 0 {
		return fmt.Sprintf("%s %d of the request before (exchange %s)", t.item(), declared, t.previous)
	}
	return "answer of exchange " + call.Exchange
}

func (t *Turn) dropped(s *Symptom, at int, call *Call, declared int, confidence string) RootCause {
	return because(CallsDropped, confidence, "", "%s made %s; %s %d of the next request is its copy without tool_calls, and %s %d answers %s",
		t.said(s, call, declared), named(s.ToolCallID, call), t.item(), at, t.item(), s.Message, quote(s.ToolCallID))
}

// itemDropped explains an orphan where calls are items of their own: only the item is gone, and what stood around it, or
// the rest of its answer, is there.
func (t *Turn) itemDropped(s *Symptom, call *Call, declared int) RootCause {
	const format = "%s made %s; the next request holds what came before it and its output in item %d, but not the function_call item"
	if declared >= 0 {
		// The neighbours of the item that are no calls of the same turn.
		first, last := declared, declared
		for first > t.p.lead && t.p.messages[first-1].item == facts.ItemCall {
			first--
		}
		for last+1 < len(t.p.messages) && t.p.messages[last+1].item == facts.ItemCall {
			last++
		}
		first, last = max(first, t.p.lead+t.fit.prefix), last-t.p.lead+1
		if first-t.p.lead > t.fit.prefix || t.fit.prefix == 0 || last < len(t.p.body())-t.fit.tail {
			return RootCause{}
		}
		return because(CallsDropped, High, "", format, t.said(s, call, declared), named(s.ToolCallID, call), s.Message)
	}
	if !t.fit.whole || s.Message-t.q.lead < call.answer.after {
		return RootCause{}
	}
	for i := t.q.lead + call.answer.after; i < len(t.q.messages); i++ {
		m, f := &t.q.messages[i], &t.facts.Messages[i]
		if t.q.copies(m, call.answer) || m.item == facts.ItemReasoning && call.answer.signedItem(f.ID) {
			return because(CallsDropped, High, "some", "answer of exchange %s made %s; item %d of the next request is of the same answer and item %d answers the call, but its function_call item is not there",
				call.Exchange, named(s.ToolCallID, call), i, s.Message)
		}
	}
	return because(CallsDropped, High, "", format, t.said(s, call, declared), named(s.ToolCallID, call), s.Message)
}

// signedItem reports whether the answer had a reasoning item with this id.
func (a *answer) signedItem(id []byte) bool {
	for _, s := range a.signed {
		if len(id) > 0 && s.ID == string(id) {
			return true
		}
	}
	return false
}

// replayed explains an orphan of a request that was built from storage: it begins a new run, holds replies and no call at
// all.
func (t *Turn) replayed(s *Symptom, call *Call, declared int) RootCause {
	if len(t.q.ids) > 0 || t.fit.whole || t.items {
		return RootCause{}
	}
	what := "the request begins a new run or process"
	if !t.newRun() {
		if declared < 0 || !t.newUserTurn() || !t.keepsText() {
			return RootCause{}
		}
		what = "the request begins a new turn of the user"
	}
	return because(ReplayedUnbound, Medium, "", "%s made %s; %s and holds no calls any more, and its %s %d answers %s",
		t.said(s, call, declared), named(s.ToolCallID, call), what, t.item(), s.Message, quote(s.ToolCallID))
}

// keepsText reports whether the request holds, in their order, all messages of the one before that make no calls.
func (t *Turn) keepsText() bool {
	at := t.q.lead
	for i := t.p.lead; i < len(t.p.messages); i++ {
		m := &t.p.messages[i]
		if m.calls > 0 {
			continue
		}
		for at < len(t.q.messages) && !t.p.same(m, t.q, &t.q.messages[at], t.loose()) {
			at++
		}
		if at++; at > len(t.q.messages) {
			return false
		}
	}
	return true
}

// newUserTurn reports whether the answer before made no calls and the user wrote since.
func (t *Turn) newUserTurn() bool {
	if t.before == nil || len(t.before.calls) > 0 {
		return false
	}
	at := t.copyOf(t.before)
	if at < 0 {
		return false
	}
	for i := at + 1; i < len(t.q.messages); i++ {
		if m := &t.q.messages[i]; m.role == facts.RoleUser && m.replies == 0 {
			return true
		}
	}
	return false
}

// cutBefore explains an orphan whose call was in the request before: a range of messages is gone, the call in it.
func (t *Turn) cutBefore(s *Symptom, call *Call, declared int) RootCause {
	from, to := t.fit.prefix, len(t.p.body())-t.fit.tail
	place := declared - t.p.lead
	if place < from || place >= to {
		return RootCause{}
	}
	if to-from < 2 { // one message alone is gone: no truncation
		return t.sanitized(s, call, declared)
	}
	return t.cut(s, fmt.Sprintf("%s called %s", t.said(s, call, declared), named(s.ToolCallID, call)), to)
}

// sanitized explains a reply whose call's message alone is gone, because it was broken: code that repairs histories left
// the reply.
func (t *Turn) sanitized(s *Symptom, call *Call, declared int) RootCause {
	why := ""
	switch {
	case call != nil && call.broken():
		why = "is malformed"
	case declared >= 0:
		for _, c := range t.p.calls(&t.p.messages[declared]) {
			switch {
			case c.bad:
				why = "is malformed, or one beside it"
			case t.p.replies(c.id) == 0:
				why = "had a call beside it without a reply"
			}
		}
	}
	if why == "" {
		return RootCause{}
	}
	return because(SanitizerDropped, Medium, "", "%s made %s, which %s; the next request keeps what stood around it, but not the call, and its %s %d answers it",
		t.said(s, call, declared), named(s.ToolCallID, call), why, t.item(), s.Message)
}

// broken reports whether the model made the call without a name or with arguments that are no object.
func (c *Call) broken() bool {
	return c.Name == "" || c.kind == facts.String && c.args > facts.ArgsEmpty
}

// cutAnswer explains an orphan whose call was in an answer that the request should hold.
func (t *Turn) cutAnswer(s *Symptom, call *Call) RootCause {
	if t.copyOf(call.answer) >= 0 {
		return RootCause{}
	}
	if t.fit.tailEnd >= 0 || len(t.p.body()) == t.fit.prefix { // what stood before the answer is still there
		if t.fit.whole {
			return t.sanitized(s, call, -1)
		}
		return RootCause{}
	}
	return t.cut(s, fmt.Sprintf("answer of exchange %s made %s", call.Exchange, named(s.ToolCallID, call)), len(t.p.body()))
}

func (t *Turn) cut(s *Symptom, who string, to int) RootCause {
	confidence, detail := High, "head"
	// The reply stands where the cut was made; one inserted message may be a summary of what was cut.
	if place := t.q.owner(s.Message) + 1 - t.q.lead; place > t.fit.prefix+1 {
		confidence = Medium
	}
	if t.fit.prefix > 1 {
		detail = "middle"
	}
	first := t.p.lead + t.fit.prefix
	return because(Truncated, confidence, detail, "%s; of the %d messages of exchange %s, %d to %d are gone from the next request, and its %s %d answers %s alone",
		who, len(t.p.messages), t.previous, first, t.p.lead+to-1, t.item(), s.Message, quote(s.ToolCallID))
}
