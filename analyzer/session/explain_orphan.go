package session

import (
	"fmt"
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// explainOrphan explains a reply whose call is not in the request: the message lost the call, or the whole message is gone.
func explainOrphan(x *explainer) RootCause {
	if x.Detail == "server_tool" && x.Message >= 0 {
		return x.serverCallLost()
	}
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
	if r := x.summarized(); r.ID != "" {
		return r
	}
	if x.items {
		if r := x.replayed(); x.declared >= 0 && r.ID != "" {
			return r
		}
		if r := x.itemDropped(); r.ID != "" {
			if x.madeBroken() {
				return x.sanitized()
			}
			return r
		}
	}
	at, certain, ok := x.copyWithoutCalls()
	if ok && x.madeBroken() {
		return x.sanitized()
	}
	if ok && certain {
		return x.callsDropped(at, High)
	}
	if !ok && x.declared >= 0 && x.lostCalls(len(x.p.body())) {
		if at = x.q.lead + x.declared - x.p.lead; x.q.messages[at].calls == 0 {
			return x.callsDropped(at, High)
		}
	}
	if r := x.replayed(); r.ID != "" {
		return r
	}
	if ok {
		return x.callsDropped(at, Medium)
	}
	if r := x.unsaved(); r.ID != "" {
		return r
	}
	return x.cutAway()
}

// maker describes the origin of the call: an answer, or a message of the previous request.
func (x *explainer) maker() string {
	if x.declared >= 0 {
		return fmt.Sprintf("%s %d of the request before (LLM call %s)", x.item(), x.declared, x.previous)
	}
	return "answer of LLM call " + x.call.Exchange
}

// copyWithoutCalls searches the turn before the reply for a copy of the calling message that the agent saved without calls.
func (x *explainer) copyWithoutCalls() (at int, certain, ok bool) {
	for at = x.q.owner(x.Message); at >= x.q.lead && x.q.messages[at].role == facts.RoleAssistant && x.q.messages[at].calls == 0; at-- {
		if certain, ok = x.isCopy(at); ok {
			return at, certain, true
		}
	}
	return -1, false, false
}

// isCopy reports whether message at, an assistant message without calls, is a saved copy of the calling message. certain
// reports that the text of the message and everything before it are unchanged.
func (x *explainer) isCopy(at int) (certain, ok bool) {
	m, place := &x.q.messages[at], at-x.q.lead
	if x.declared >= 0 { // the previous request had the calls; they were lost since, for example on loading from a database
		d := &x.p.messages[x.declared]
		same := sameText(d.text, d.noText, m.text, m.noText) || x.loose() && d.bytes == m.bytes && d.bytes > 0
		if place == x.declared-x.p.lead && x.lostCalls(place) {
			// Message at may also be a summary. In that case the messages after the call are gone too.
			return same, same || x.followedBySame(at)
		}
		return false, same && !m.noText
	}
	a := x.call.answer
	same := sameText(a.text, a.noText, m.text, m.noText)
	follows := x.aligned.whole || a == x.before && place == a.after && a.after == len(x.p.body()) && x.lostCalls(a.after)
	switch {
	case x.aligned.tailEnd >= 0 && place < x.aligned.tailEnd && place != a.after:
		return false, false // a message of the previous request, older than the answer
	case same:
		return follows, true
	}
	// The text differs, perhaps because the agent shortens what it saves. Only the position is evidence, and a longer text is another
	// message, such as a summary.
	return false, follows && place == a.after && x.textLength(&x.facts.Messages[at]) <= a.bytes && !x.source.shaped
}

// lostCalls reports whether the request begins with the first n messages of the previous request, except that assistant messages
// may have lost their calls. An agent that loses them on loading its history loses those of all turns.
func (x *explainer) lostCalls(n int) bool {
	p, q := x.p.body(), x.q.body()
	if n > len(p) || n > len(q) {
		return false
	}
	for i := x.aligned.prefix; i < n; i++ {
		a, b := &p[i], &q[i]
		lost := a.role == facts.RoleAssistant && b.role == facts.RoleAssistant && a.calls > 0 && b.calls == 0
		switch {
		case !lost && !x.p.same(a, x.q, b, x.loose()):
			return false
		case lost && !a.noText && !sameText(a.text, a.noText, b.text, b.noText) && (!x.loose() || a.bytes != b.bytes):
			return false
		}
	}
	return true
}

// madeBroken reports whether the call is new and the model made it and all other calls of its answer malformed.
func (x *explainer) madeBroken() bool {
	return x.declared < 0 && x.call != nil && !slices.ContainsFunc(x.call.answer.calls, func(c *Call) bool { return !c.broken() })
}

// followedBySame reports whether the message that followed the call in the previous request now follows message at.
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

// itemDropped explains an orphan in a dialect with calls as separate items: only the item of the call is gone, while its
// neighbors or the rest of its answer are still in the request.
func (x *explainer) itemDropped() RootCause {
	const format = "%s made %s; the next request contains what preceded it and its output in item %d, but not the function_call item"
	if x.declared >= 0 {
		if x.loadedWithoutCalls() {
			return because(CallsDropped, High, "", format, x.maker(), x.callName(), x.Message)
		}
		// The neighbors of the item that are not calls of the same turn.
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
			detail := ""
			if m.calls > 0 {
				detail = "some"
			}
			return because(CallsDropped, High, detail, "answer of LLM call %s made %s; item %d of the next request is of the same answer and item %d answers the call, but its function_call item is missing",
				x.call.Exchange, x.callName(), i, x.Message)
		}
	}
	return x.unsaved()
}

// loadedWithoutCalls reports whether the request contains all messages of the previous request except those with calls.
func (x *explainer) loadedWithoutCalls() bool {
	for _, c := range x.p.calls {
		if x.q.lastCall(c.id) >= 0 {
			return false
		}
	}
	return x.keepsText()
}

// replayed explains an orphan in a request that was built from storage. Such a request begins a new run or user turn and has
// replies but no calls.
func (x *explainer) replayed() RootCause {
	if len(x.q.calls) > 0 || x.aligned.whole || x.items && x.declared < 0 {
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

// keepsText reports whether the request contains, in order, all messages of the previous request that have no calls.
func (x *explainer) keepsText() bool {
	at := x.q.lead
	for i := x.p.lead; i < len(x.p.messages); i++ {
		m := &x.p.messages[i]
		if m.calls > 0 || m.item == facts.ItemReasoning {
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

// newUserTurn reports whether the previous answer has no calls and a user message follows its copy.
func (x *explainer) newUserTurn() bool {
	if x.before == nil || len(x.before.calls) > 0 {
		return false
	}
	at := x.q.copyOf(x.before)
	return at >= 0 && x.q.userAfter(at)
}

// cutAway explains a reply to a call whose message is gone.
func (x *explainer) cutAway() RootCause {
	switch {
	case x.declared >= 0:
		return x.cutBefore()
	case x.call != nil:
		return x.cutAnswer()
	}
	return RootCause{}
}

// cutBefore explains an orphan whose call was in the previous request, in a range of messages that is now gone.
func (x *explainer) cutBefore() RootCause {
	from, to := x.aligned.prefix, len(x.p.body())-x.aligned.tail
	place := x.declared - x.p.lead
	if place < from || place >= to {
		return RootCause{}
	}
	if r := x.lostAnswer(from, to); r.ID != "" {
		if s := x.sanitized(); s.ID != "" {
			return s
		}
		return r
	}
	if to-from < 2 { // a single missing message is not a truncation
		return x.sanitized()
	}
	for i := x.declared + 1; i < x.p.lead+to; i++ {
		if m := &x.p.messages[i]; m.calls == 0 && m.item != facts.ItemReasoning {
			if x.keeps(m) {
				return x.notCut()
			}
			break
		}
	}
	return x.truncated(fmt.Sprintf("%s called %s", x.maker(), x.callName()), to)
}

// keeps reports whether the request contains message m of the previous request, outside the parts that align found.
func (x *explainer) keeps(m *message) bool {
	body := x.q.body()
	end := len(body)
	if x.aligned.tailEnd >= 0 {
		end = x.aligned.tailEnd - x.aligned.tail
	}
	for i := x.aligned.prefix; i < end; i++ {
		if x.p.same(m, x.q, &body[i], x.loose()) {
			return true
		}
	}
	return false
}

// notCut explains an orphan whose call was in the previous request, although messages next to the call are still there.
func (x *explainer) notCut() RootCause {
	if x.loadedWithoutCalls() {
		return because(CallsDropped, Medium, "message", "%s made %s; the next request contains the other messages of that request, but no message with calls, and its %s %d answers %s",
			x.maker(), x.callName(), x.item(), x.Message, quote(x.ToolCallID))
	}
	return x.sanitized()
}

// cutAnswer explains an orphan whose call was in an answer that the request should contain.
func (x *explainer) cutAnswer() RootCause {
	if x.q.copyOf(x.call.answer) >= 0 {
		return RootCause{}
	}
	if x.aligned.tailEnd >= 0 || len(x.p.body()) == x.aligned.prefix { // the messages before the answer are still in the request
		if x.aligned.whole {
			return x.sanitized()
		}
		return RootCause{}
	}
	if x.q.owner(x.Message)+1-x.q.lead >= x.call.answer.after { // as many messages precede the reply as before, so none was cut off
		return RootCause{}
	}
	return x.truncated(fmt.Sprintf("answer of LLM call %s made %s", x.call.Exchange, x.callName()), len(x.p.body()))
}

// sanitized explains a reply to a broken call: code that repairs histories removed the message with the call, but kept the
// reply and the messages around it.
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

// truncated explains an orphan by a cut in the body of the previous request that ends before message to.
func (x *explainer) truncated(who string, to int) RootCause {
	confidence, detail := High, "head"
	// The reply should be at the cut, except that one inserted message may summarize the removed messages.
	if place := x.q.owner(x.Message) + 1 - x.q.lead; place > x.aligned.prefix+1 {
		confidence = Medium
	}
	if x.aligned.prefix > 1 {
		detail = "middle"
	}
	first := x.p.lead + x.aligned.prefix
	return because(Truncated, confidence, detail, "%s; of the %d messages of LLM call %s, %d to %d are gone from the next request, and its %s %d answers %s alone",
		who, len(x.p.messages), x.previous, first, x.p.lead+to-1, x.item(), x.Message, quote(x.ToolCallID))
}
