package session

import "github.com/llmtap/llmtap/analyzer/facts"

// unsaved explains a reply to a call of an answer that the agent did not save at all: the request has the messages that
// preceded the answer, then the reply, and nothing of the answer. A new message before the reply is no summary of what is gone,
// which a shape does not show. A reply that follows the replies of the previous turn looks
// like an additional reply of that turn, and one with an id that the model uses again like a second reply to the older call.
func (x *explainer) unsaved() RootCause {
	if x.call == nil || x.call.broken() {
		return RootCause{}
	}
	a := x.call.answer
	from, confidence := x.endOf(a)
	if from < 0 || x.Message < from {
		return RootCause{}
	}
	for i := from; i < len(x.q.messages); i++ {
		m := &x.q.messages[i]
		if i < x.Message && (m.role == facts.RoleAssistant || m.external() && x.source.shaped) || x.q.copies(m, a) {
			return RootCause{}
		}
	}
	return because(CallsDropped, confidence, "message", "answer of LLM call %s made %s; the next request contains what preceded that answer and, in %s %d, the reply to the call, but nothing of the answer",
		a.exchange, x.callName(), x.item(), x.Message)
}

// endOf returns the index of the first message of the request after the messages that preceded the answer a, and how certain
// that is; -1 if some of them are missing.
func (x *explainer) endOf(a *answer) (from int, confidence string) {
	n := len(x.p.body())
	switch {
	case x.aligned.whole && a.after == n:
		return x.q.lead + n, High
	case a != x.before || a.after != n:
	case x.aligned.tailEnd >= 0: // older messages are gone
		return x.q.lead + x.aligned.tailEnd, Medium
	case n > 0 && x.aligned.prefix == n-1 && x.q.lead+n <= len(x.q.messages) && x.changed(&x.p.messages[x.p.lead+n-1], x.q.lead+n-1):
		// The agent changed only the last message. In dialects with replies in user messages, it may have added the reply there.
		switch {
		case x.Message == x.q.lead+n-1:
			return x.Message, Medium
		case !x.source.shaped || x.items && x.rewords(x.q.lead+n-1): // else it may be a summary
			return x.q.lead + n, Medium
		}
	}
	return -1, ""
}

// changed reports whether message i of the request may be message a of the previous request with other content. A message that
// has only replies is no changed user message, but what remains of a history that was cut before it.
func (x *explainer) changed(a *message, i int) bool {
	b := &x.q.messages[i]
	return a.role == b.role && (a.replies > 0 || b.replies == 0 || x.facts.Messages[i].PartCount > int(b.replies))
}
