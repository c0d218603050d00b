package session

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// explainOrphan explains a reply whose call is nowhere in the request: the message with the call lost it, or is gone.
func explainOrphan(x *explainer) RootCause {
	if x.id == 0 || x.Message < 0 {
		return RootCause{}
	}
	if x.call == nil && x.declared < 0 {
		if x.newRun() && len(x.q.calls) == 0 && x.aligned.prefix <= 1 {
			return because(ReplayedUnbound, High, "", "the request begins a new run or process and contains no calls; its %s %d answers %s, which no answer of the conversation made",
				x.item(), x.Message, quote(x.ToolCallID))
		}
		return RootCause{}
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	if x.items {
		if r := x.itemDropped(); r.ID != "" {
			return r
		}
	}
	at, certain, ok := x.copyWithoutCalls()
	if ok && certain {
		return x.callsDropped(at, High)
	}
	if r := x.replayed(); r.ID != "" {
		return r
	}
	if ok {
		return x.callsDropped(at, Medium)
	}
	return x.cutAway()
}

// maker describes who made the call: an answer, or a message of the request before.
func (x *explainer) maker() string {
	if x.declared >= 0 {
		return fmt.Sprintf("%s %d of the request before (exchange %s)", x.item(), x.declared, x.previous)
	}
	return "answer of exchange " + x.call.Exchange
}

// copyWithoutCalls finds, in the turn before the reply, what the agent saved of the message that made the call.
func (x *explainer) copyWithoutCalls() (at int, certain, ok bool) {
	for at = x.q.owner(x.Message); at >= x.q.lead && x.q.messages[at].role == facts.RoleAssistant && x.q.messages[at].calls == 0; at-- {
		if certain, ok = x.isCopy(at); ok {
			return at, certain, true
		}
	}
	return -1, false, false
}

// isCopy reports whether message at, an assistant message without calls, is what the agent saved of the message that
// made the call, and whether that is certain: its text and everything before it are unchanged.
func (x *explainer) isCopy(at int) (certain, ok bool) {
	m, place := &x.q.messages[at], at-x.q.lead
	if x.declared >= 0 { // it was saved with its calls once and lost them since, for example when it is loaded from a database
		d := &x.p.messages[x.declared]
		same := sameText(d.text, d.noText, m.text, m.noText) || x.loose() && d.bytes == m.bytes && d.bytes > 0
		if place == x.declared-x.p.lead && place == x.aligned.prefix {
			// It may also be a summary; then what followed the call is gone as well.
			return same, same || x.followedBySame(at)
		}
		return false, same && !m.noText
	}
	a := x.call.answer
	same := sameText(a.text, a.noText, m.text, m.noText)
	switch {
	case x.aligned.tailEnd >= 0 && place < x.aligned.tailEnd && place != a.after:
		return false, false // a message of the request before, older than the answer
	case same:
		return x.aligned.whole, true
	}
	// Another text, of an agent that also shortens what it saves. Only the place is evidence.
	return false, x.aligned.whole && place == a.after
}

// followedBySame reports whether the message after the call in the request before still follows message at.
func (x *explainer) followedBySame(at int) bool {
	next := x.declared + 1
	if next == len(x.p.messages) {
		return true
	}
	return at+1 < len(x.q.messages) && x.p.same(&x.p.messages[next], x.q, &x.q.messages[at+1], x.loose())
}

func (x *explainer) callsDropped(at int, confidence string) RootCause {
	return because(CallsDropped, confidence, "", "%s made %s; %s %d of the next request is its copy without tool_calls, and %s %d answers %s",
		x.maker(), x.callName(), x.item(), at, x.item(), x.Message, quote(x.ToolCallID))
}

// itemDropped explains an orphan where calls are items of their own: only the item is gone, and its neighbors, or the rest
// of its answer, are there.
func (x *explainer) itemDropped() RootCause {
	const format = "%s made %s; the next request contains what preceded it and its output in item %d, but not the function_call item"
	if x.declared >= 0 {
		// The neighbors of the item that are no calls of the same turn.
		first, last := x.declared, x.declared
		for first > x.p.lead && x.p.messages[first-1].item == facts.ItemCall {
			first--
		}
		for last+1 < len(x.p.messages) && x.p.messages[last+1].item == facts.ItemCall {
			last++
		}
		first, last = max(first, x.p.lead+x.aligned.prefix), last-x.p.lead+1
		if first-x.p.lead > x.aligned.prefix || x.aligned.prefix == 0 || last < len(x.p.body())-x.aligned.tail {
			return RootCause{}
		}
		return because(CallsDropped, High, "", format, x.maker(), x.callName(), x.Message)
	}
	a := x.call.answer
	if !x.aligned.whole || x.Message-x.q.lead < a.after {
		return RootCause{}
	}
	for i := x.q.lead + a.after; i < len(x.q.messages); i++ {
		m, f := &x.q.messages[i], &x.facts.Messages[i]
		if x.q.copies(m, a) || m.item == facts.ItemReasoning && a.signedItem(f.ID) {
			return because(CallsDropped, High, "some", "answer of exchange %s made %s; item %d of the next request is of the same answer and item %d answers the call, but its function_call item is missing",
				x.call.Exchange, x.callName(), i, x.Message)
		}
	}
	return because(CallsDropped, High, "", format, x.maker(), x.callName(), x.Message)
}

// replayed explains an orphan of a request that was built from storage: it begins a new run and contains replies but no
// call.
func (x *explainer) replayed() RootCause {
	if len(x.q.calls) > 0 || x.aligned.whole || x.items {
		return RootCause{}
	}
	what := "the request begins a new run or process"
	if !x.newRun() {
		if x.declared < 0 || !x.newUserTurn() || !x.keepsText() {
			return RootCause{}
		}
		what = "the request begins a new turn of the user"
	}
	return because(ReplayedUnbound, Medium, "", "%s made %s; %s and no longer contains any calls, and its %s %d answers %s",
		x.maker(), x.callName(), what, x.item(), x.Message, quote(x.ToolCallID))
}

// keepsText reports whether the request contains, in order, all messages of the one before that make no calls.
func (x *explainer) keepsText() bool {
	at := x.q.lead
	for i := x.p.lead; i < len(x.p.messages); i++ {
		m := &x.p.messages[i]
		if m.calls > 0 {
			continue
		}
		for at < len(x.q.messages) && !x.p.same(m, x.q, &x.q.messages[at], x.loose()) {
			at++
		}
		if at++; at > len(x.q.messages) {
			return false
		}
	}
	return true
}

// newUserTurn reports whether the answer before made no calls and the user wrote since.
func (x *explainer) newUserTurn() bool {
	if x.before == nil || len(x.before.calls) > 0 {
		return false
	}
	at := x.q.copyOf(x.before)
	return at >= 0 && x.q.userAfter(at)
}

// cutAway explains a reply whose call's message is gone.
func (x *explainer) cutAway() RootCause {
	switch {
	case x.declared >= 0:
		return x.cutBefore()
	case x.call != nil:
		return x.cutAnswer()
	}
	return RootCause{}
}

// cutBefore explains an orphan whose call was in the request before: a range of messages is gone, with the call in it.
func (x *explainer) cutBefore() RootCause {
	from, to := x.aligned.prefix, len(x.p.body())-x.aligned.tail
	place := x.declared - x.p.lead
	if place < from || place >= to {
		return RootCause{}
	}
	if to-from < 2 { // a single message is gone: no truncation
		return x.sanitized()
	}
	return x.truncated(fmt.Sprintf("%s called %s", x.maker(), x.callName()), to)
}

// cutAnswer explains an orphan whose call was in an answer that the request should contain.
func (x *explainer) cutAnswer() RootCause {
	if x.q.copyOf(x.call.answer) >= 0 {
		return RootCause{}
	}
	if x.aligned.tailEnd >= 0 || len(x.p.body()) == x.aligned.prefix { // what preceded the answer is still there
		if x.aligned.whole {
			return x.sanitized()
		}
		return RootCause{}
	}
	return x.truncated(fmt.Sprintf("answer of exchange %s made %s", x.call.Exchange, x.callName()), len(x.p.body()))
}

// sanitized explains a reply whose call's message alone is gone because it was broken: code that repairs histories left
// the reply.
func (x *explainer) sanitized() RootCause {
	why := ""
	switch {
	case x.call != nil && x.call.broken():
		why = "is malformed"
	case x.declared >= 0:
		for _, c := range x.p.callsOf(&x.p.messages[x.declared]) {
			switch {
			case c.malformed:
				why = "is malformed, or a call next to it is"
			case x.p.countReplies(c.id) == 0:
				why = "had a call next to it without a reply"
			}
		}
	}
	if why == "" {
		return RootCause{}
	}
	return because(SanitizerDropped, Medium, "", "%s made %s, which %s; the next request keeps the messages around it, but not the call, and its %s %d answers it",
		x.maker(), x.callName(), why, x.item(), x.Message)
}

// truncated explains an orphan by a cut of the request before, up to message to of its body.
func (x *explainer) truncated(who string, to int) RootCause {
	confidence, detail := High, "head"
	// The reply is at the cut; one inserted message may be a summary of what was cut.
	if place := x.q.owner(x.Message) + 1 - x.q.lead; place > x.aligned.prefix+1 {
		confidence = Medium
	}
	if x.aligned.prefix > 1 {
		detail = "middle"
	}
	first := x.p.lead + x.aligned.prefix
	return because(Truncated, confidence, detail, "%s; of the %d messages of exchange %s, %d to %d are gone from the next request, and its %s %d answers %s alone",
		who, len(x.p.messages), x.previous, first, x.p.lead+to-1, x.item(), x.Message, quote(x.ToolCallID))
}
