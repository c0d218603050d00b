package session

import (
	"bytes"
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// maxSummary bounds the bytes at the start of a message that say that it is a summary. Further inside, a prompt may ask for one.
const maxSummary = 240

// ofConversation contains the phrases of summaries; summaries words that prompts contain too.
var (
	ofConversation = [][]byte{
		[]byte("conversation so far"), []byte("summary of the conversation"), []byte("summary of our conversation"), []byte("conversation summary"),
		[]byte("previous conversation"), []byte("earlier conversation"), []byte("conversation history"), []byte("compacted"),
	}
	summaries = [][]byte{[]byte("summar"), []byte("condensed"), []byte("摘要"), []byte("总结")}
)

// summarized explains an orphan after a new message that calls itself a summary: it stands for the messages that are gone, among
// them the one with the call.
func (x *explainer) summarized() RootCause {
	at := -1
	for i := x.q.lead + x.aligned.prefix; i < x.Message; i++ {
		switch m := &x.q.messages[i]; {
		case m.calls > 0, m.role == facts.RoleAssistant && (m.noText || x.isCalling(m)):
			return RootCause{} // what was saved of the message with the call
		case m.replies == 0 && m.item != facts.ItemReasoning && !x.isKnown(m) && x.isSummary(i):
			at = i
		}
	}
	to := len(x.p.body()) - x.aligned.tail
	if at < 0 || x.declared >= 0 && x.declared-x.p.lead >= to {
		return RootCause{}
	}
	confidence, detail := High, "head"
	if x.aligned.whole { // only the answer is gone
		confidence = Medium
	}
	if x.aligned.prefix > 1 {
		detail = "middle"
	}
	return because(Truncated, confidence, detail, "%s made %s; in the next request, %s %d is a summary in place of older messages, among them this call, and %s %d answers it alone",
		x.maker(), x.callName(), x.item(), at, x.item(), x.Message)
}

// rewords reports whether message i is as long as the message of the previous request at its place, as prompts with the time are.
func (x *explainer) rewords(i int) bool {
	at := i - x.q.lead + x.p.lead
	if at >= len(x.p.messages) || x.p.messages[at].role != x.q.messages[i].role {
		return false
	}
	was, is := x.p.messages[at].bytes, x.q.messages[i].bytes
	slack := max(8, was/32)
	if x.source.shaped { // the length is all that is known
		slack = 2
	}
	return max(was, is)-min(was, is) <= slack
}

// isCalling reports whether m has the text of the message with the call.
func (x *explainer) isCalling(m *message) bool {
	if x.declared >= 0 {
		d := &x.p.messages[x.declared]
		return sameText(d.text, d.noText, m.text, m.noText)
	}
	return x.call != nil && x.q.copies(m, x.call.answer)
}

// isSummary reports whether message i calls itself a summary. A shape does not say so.
func (x *explainer) isSummary(i int) bool {
	m := &x.facts.Messages[i]
	raw := bytes.ToLower(x.bytesOf(m.Start, min(m.End, m.Start+maxSummary)))
	says := func(s []byte) bool { return bytes.Contains(raw, s) }
	return slices.ContainsFunc(ofConversation, says) || !x.rewords(i) && slices.ContainsFunc(summaries, says)
}

// lostAnswer explains an orphan whose call was in the previous request, of which only one whole answer is gone: messages or items of
// the model, without what follows them.
func (x *explainer) lostAnswer(from, to int) RootCause {
	if x.aligned.tailEnd-x.aligned.tail > from { // new messages are in its place
		return RootCause{}
	}
	confidence := High
	if !slices.ContainsFunc(x.q.messages[x.Message+1:], func(m message) bool { return m.external() }) {
		confidence = Medium // within a turn, a filter may have dropped it as well
	}
	for i := from; i < to; i++ {
		if m := &x.p.messages[x.p.lead+i]; m.replies > 0 || m.external() {
			return RootCause{}
		}
	}
	return because(CallsDropped, confidence, "message", "%s made %s; the next request contains what precedes and what follows that %s, but nothing of it, and its %s %d answers the call",
		x.maker(), x.callName(), x.item(), x.item(), x.Message)
}
