package session

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// explainLate explains a reply after the end of its group.
func explainLate(x *explainer) RootCause {
	if x.id == 0 || x.Message < 0 {
		return RootCause{}
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	if r := x.unsaved(); r.ID != "" {
		return r
	}
	for i := x.Message - 1; i >= 0; i-- {
		if x.q.makes(i, x.id) {
			return x.lateReply(i, x.Message)
		}
	}
	return RootCause{}
}

// lateReply explains why the reply to the call in message at is only in message reply.
func (x *explainer) lateReply(at, reply int) RootCause {
	if x.call == nil && x.declared < 0 {
		return RootCause{}
	}
	if x.call != nil && len(x.call.answer.calls) > 1 && x.declared < 0 && !x.items {
		if n := x.q.spread(x.call.answer); n > 1 {
			return because(CallsSplit, High, "", "answer of LLM call %s made %d calls in one message; the next request has them in %d messages, so that %s comes before the reply to %s in message %d",
				x.call.Exchange, len(x.call.answer.calls), n, "another of them", x.callName(), reply)
		}
	}
	between := x.q.groupEnd(at)
	if between >= reply {
		return RootCause{}
	}
	m := &x.q.messages[between]
	if x.repliedInGroup() && x.isKnown(m) && !x.occursTwice(between) {
		return x.reordered(at, reply)
	}
	if x.declared >= 0 && x.p.countReplies(x.id) == 0 && between-x.q.lead < x.aligned.prefix {
		// The previous request continued without the reply.
		if m.role != facts.RoleUser {
			return x.interleaved(between, reply, High)
		}
		return because(UserInterrupt, Medium, "", "message %d (user) followed the call %s in the request before (LLM call %s), which contained no reply; the reply is in message %d of this one",
			between, x.callName(), x.previous, reply)
	}
	switch {
	case m.role.Instructs():
		return x.interleaved(between, reply, High)
	case m.role == facts.RoleUser:
		for i := between + 1; i < reply; i++ {
			if o := &x.q.messages[i]; o.role == facts.RoleAssistant && o.calls == 0 {
				return because(UserInterrupt, Medium, "", "%s made %s; in the next request the user continues in message %d and is answered in message %d, and the reply to the call follows in message %d",
					x.maker(), x.callName(), between, i, reply)
			}
		}
		if x.occursTwice(between) {
			return x.interleaved(between, reply, High)
		}
		return x.interleaved(between, reply, Medium)
	case m.role == facts.RoleAssistant && m.calls == 0 && !x.isKnown(m):
		return x.interleaved(between, reply, Medium)
	}
	return RootCause{}
}

func (x *explainer) interleaved(between, reply int, confidence string) RootCause {
	role := roleName(x.q.messages[between].role)
	return because(Interleaved, confidence, role, "%s made %s; in the next request message %d (%s) is between the call and its reply in message %d",
		x.maker(), x.callName(), between, role, reply)
}

// explainNotFirst explains a reply after other content of its message. The provider reads that content as a message between the
// call and its reply.
func explainNotFirst(x *explainer) RootCause {
	if x.Detail != "after_content" || x.id == 0 || x.Message <= 0 || x.Message-x.q.lead < x.aligned.prefix || !x.q.makes(x.Message-1, x.id) {
		return RootCause{}
	}
	if x.call == nil && x.declared < 0 {
		return RootCause{}
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	return because(Interleaved, Medium, roleName(x.q.messages[x.Message].role), "%s made %s; in the next request its reply in message %d follows other content of that message",
		x.maker(), x.callName(), x.Message)
}

// occursTwice reports whether message i occurs more than once in the request, as reminders do.
func (x *explainer) occursTwice(i int) bool {
	for j := range x.q.messages {
		if j != i && x.q.messages[j].hash == x.q.messages[i].hash {
			return true
		}
	}
	return false
}

// repliedInGroup reports whether the previous request contained the call with its reply, in its group.
func (x *explainer) repliedInGroup() bool {
	if x.declared < 0 {
		return false
	}
	at := x.p.replyAfter(x.id, x.declared)
	return at >= 0 && at < x.p.groupEnd(x.declared)
}

// isKnown reports whether m was in the previous request or is a copy of an answer of the conversation.
func (x *explainer) isKnown(m *message) bool {
	return slices.ContainsFunc(x.p.messages, func(o message) bool { return o.hash == m.hash }) ||
		slices.ContainsFunc(x.conv.branches, func(b *branch) bool { return b.answer != nil && x.q.copies(m, b.answer) }) ||
		x.before != nil && x.q.copies(m, x.before)
}

// reordered explains a reply that the request has at another place than the history had: before its call, or after the end of
// its group although only known messages are between.
func (x *explainer) reordered(call, reply int) RootCause {
	return because(HistoryReordered, High, "", "%s made %s; the next request has the reply in %s %d and the call in %s %d",
		x.maker(), x.callName(), x.item(), reply, x.item(), call)
}

// explainEarly explains a reply before its call: two writers, or one history in another order. A reply to an earlier call with
// the same id may have lost that call.
func explainEarly(x *explainer) RootCause {
	if x.id == 0 || x.Message < 0 {
		return RootCause{}
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	at := x.q.lastCall(x.id)
	switch {
	case at < 0 || x.call == nil && x.declared < 0:
		return RootCause{}
	case x.q.replyAfter(x.id, at) >= 0:
		if x.declared >= 0 {
			return x.cutBefore()
		}
		return RootCause{}
	}
	return x.reordered(at, x.Message)
}

// concurrent explains a pairing defect of the call by a second answer that was in flight at the same time and is also in the
// request. It does not apply to inferred conversations, because their requests may not share a history.
func (x *explainer) concurrent() RootCause {
	if x.call == nil || x.call.reused || x.conv.inferred {
		return RootCause{}
	}
	other := x.overlapping(x.call.answer)
	if other == nil {
		return RootCause{}
	}
	return because(ConcurrentWriters, High, "", "answer of LLM call %s made %s while LLM call %s of the conversation was in flight; this request contains messages of both",
		x.call.Exchange, x.callName(), other.exchange)
}

// overlapping returns an answer whose exchange overlapped with the exchange of a, and of which the request contains a copy
// or to which it replies; nil if there is none.
func (x *explainer) overlapping(a *answer) *answer {
	overlaps := func(b *answer) bool { return b != nil && b != a && b.seq < a.ended && a.seq < b.ended }
	known := func(id uint64) *answer {
		if c := x.conv.calls[id]; c != nil && !c.reused && overlaps(c.answer) {
			return c.answer
		}
		return nil
	}
	for i := x.q.lead; i < len(x.q.messages); i++ {
		m := &x.q.messages[i]
		for _, c := range x.q.callsOf(m) {
			if o := known(c.id); o != nil {
				return o
			}
		}
		for _, id := range x.q.repliesOf(m) {
			if o := known(id); o != nil {
				return o
			}
		}
		for _, b := range x.conv.branches {
			if m.text != 0 && overlaps(b.answer) && b.answer.text == m.text && b.answer.text != a.text {
				return b.answer
			}
		}
	}
	return nil
}

// explainRepliedTwice explains a call with several replies.
func explainRepliedTwice(x *explainer) RootCause {
	if x.names && x.Message >= 0 {
		x.findSurplus()
	}
	had := x.p.countReplies(x.id)
	if x.id == 0 || had >= 2 || x.call == nil && had == 0 {
		return RootCause{}
	}
	if x.names && !x.q.makesIn(0, len(x.q.messages), x.id) {
		return explainUnknownID(x) // the reply only looks like a second one, because it names the function of another call
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	if r := x.unsaved(); r.ID != "" {
		return r
	}
	if x.call != nil && had == 0 && x.call.answer.count(x.id) > 1 {
		return because(DuplicateIDFromModel, High, "", "answer of LLM call %s itself gave %d calls the id %s, and each has a reply", x.call.Exchange, x.call.answer.count(x.id), quote(x.ToolCallID))
	}
	var at []int
	var hashes []uint64
	placeholder := false // whether the first reply is a placeholder
	for i := range x.q.messages {
		for j, id := range x.q.repliesOf(&x.q.messages[i]) {
			if id != x.id {
				continue
			}
			r := &x.facts.Messages[i].Replies[j]
			raw := x.bytesOf(r.Start, r.End)
			if len(at) == 0 {
				placeholder = isPlaceholder(raw, r)
			}
			at = append(at, i)
			hashes = append(hashes, xxh3.Hash(raw))
		}
	}
	if len(at) < 2 {
		if x.names && x.q.lastCall(x.id) > x.Message { // a second reply only by its name; its call follows
			return explainEarly(x)
		}
		return RootCause{}
	}
	first, last := at[0], at[len(at)-1]
	equal := hashes[0] == hashes[len(hashes)-1] && x.body != nil
	if x.branch.concurrent && !x.conv.inferred {
		return because(ConcurrentWriters, High, "", "messages %d and %d both answer %s, and two requests of the conversation were in flight at the same time before this one",
			first, last, x.callName())
	}
	from := x.pSource
	if had == 0 && x.call != nil {
		from = x.call.answer.source
	}
	moved, known := x.moved(from)
	evidence := func(detail, confidence, replies string) RootCause {
		return because(DuplicateReply, confidence, detail, "messages %d and %d both answer %s, with %s; the request before contained %d replies to it",
			first, last, x.callName(), replies, had)
	}
	switch {
	case equal && moved:
		confidence := High
		if !known {
			confidence = Medium
		}
		return evidence("resume_replayed", confidence, "the same reply, the second one by another process")
	case equal:
		return evidence("retry_appended", Medium, "the same reply")
	case placeholder:
		return evidence("approval_plus_result", Medium, "first a placeholder, then another reply")
	}
	return evidence("double_execution", Medium, "different replies")
}

// findSurplus sets the id of x to that of the surplus reply of its group. Where replies name functions, the rule counts them
// and reports the last one.
func (x *explainer) findSurplus() {
	if x.q.countReplies(x.id) > 1 || !x.q.makesIn(0, len(x.q.messages), x.id) {
		return
	}
	name, seen := x.facts.Messages[x.Message].Replies[x.Part].Name, 0
	for i := x.q.owner(x.Message) + 1; i <= x.Message; i++ {
		for j, id := range x.q.repliesOf(&x.q.messages[i]) {
			if seen++; seen > maxSameName {
				return
			}
			if string(x.facts.Messages[i].Replies[j].Name) == string(name) &&
				(x.q.countReplies(id) > 1 || !x.q.makesIn(0, len(x.q.messages), id)) {
				x.about(id)
				return
			}
		}
	}
}

// maxPlaceholder is the maximum size of a placeholder reply in bytes of JSON.
const maxPlaceholder = 400

var placeholders = [][]byte{
	[]byte("pending"), []byte("approv"), []byte("awaiting"), []byte("waiting"), []byte("placeholder"), []byte("in progress"), []byte("confirm"),
}

// isPlaceholder reports whether a reply only announces a later result. Placeholders cannot be recognized in a shape.
func isPlaceholder(raw []byte, r *facts.Reply) bool {
	if len(raw) > maxPlaceholder {
		return false
	}
	lower := bytes.ToLower(raw)
	if n := bytes.Index(lower, bytes.ToLower(r.ID)); n >= 0 {
		lower = append(lower[:n:n], lower[n+len(r.ID):]...)
	}
	return slices.ContainsFunc(placeholders, func(p []byte) bool { return bytes.Contains(lower, p) })
}
