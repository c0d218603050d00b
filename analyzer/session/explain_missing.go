package session

import (
	"slices"
	"strconv"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// explainMissing explains a call without a reply in its group.
func explainMissing(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	if x.id == 0 {
		return x.lostID(x.Message, "", -1)
	}
	if x.p.countReplies(x.id) > x.q.countReplies(x.id) {
		detail := "middle"
		if x.aligned.tail == 0 {
			detail = "tail"
		}
		return because(Truncated, High, detail, "the request before (LLM call %s, %d messages) contained the reply to %s; the next request still contains the call in %s %d but no reply",
			x.previous, len(x.p.messages), x.callName(), x.item(), x.Message)
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	if x.q.twin(x.Message) >= 0 {
		if r := explainCalledTwice(x); r.ID != "" {
			return r
		}
	}
	if at := x.q.replyAfter(x.id, x.Message); at >= 0 {
		return x.lateReply(x.Message, at)
	}
	if at := x.q.replyAfter(x.id, -1); at >= 0 && !x.q.makesIn(0, at, x.id) { // the only reply precedes the call
		x.Message = at
		return explainEarly(x)
	}
	if r := x.rewrittenID(x.Message); r.ID != "" {
		return r
	}
	for i := x.Message + 1; i < x.q.groupEnd(x.Message); i++ {
		if slices.Contains(x.q.repliesOf(&x.q.messages[i]), 0) { // the reply without an id may belong to this call
			return x.lostID(x.Message, "", i)
		}
	}
	if x.call == nil || x.declared >= 0 || x.q.countReplies(x.id) > 0 {
		return RootCause{} // the answer is unknown, the reply was already missing in the previous request, or it precedes the call
	}
	return x.unanswered()
}

// explainUnresolved explains a call without a reply in the answer that previous_response_id names.
func explainUnresolved(x *explainer) RootCause {
	if x.Detail != "unanswered" || x.call == nil || x.call.answer != x.before {
		return RootCause{}
	}
	// The reply may have an id that no answer has.
	for i := range min(len(x.q.messages), maxEarlier) {
		replies := x.q.repliesOf(&x.q.messages[i])
		for _, id := range replies[:min(len(replies), maxEarlier)] {
			if id == 0 || x.Turn.call(id) != nil || x.q.lastCall(id) >= 0 {
				continue
			}
			if at := x.q.caller(i); at >= 0 {
				x.Turn = x.afterNamed()
				return x.rewrittenID(at)
			}
			return because(IDRewritten, Medium, "reply_side", "answer of LLM call %s called %s, and the request names that answer; the reply in %s %d has an id that no answer has",
				x.call.Exchange, x.callName(), x.item(), i)
		}
	}
	x.Message = -1
	return x.unanswered()
}

// unanswered explains a call of the previous answer to which no message of the request replies.
func (x *explainer) unanswered() (r RootCause) {
	call, a := x.call, x.call.answer
	k, first := 0, true // number of calls with a reply; whether they all precede the calls without one
	for i, c := range a.calls {
		if c.id != 0 && x.q.countReplies(c.id) > 0 {
			first = first && k == i
			k++
		}
	}
	n := len(a.calls)
	next, asked := "the request ends", false
	if x.Message >= 0 {
		for end := x.q.groupEnd(x.Message); end < len(x.q.messages); end++ {
			m := &x.q.messages[end]
			if m.replies > 0 || m.role == facts.RoleNone {
				continue
			}
			next, asked = x.item()+" "+strconv.Itoa(end)+" ("+roleName(m.role)+") follows", m.role == facts.RoleUser
			break
		}
	} else {
		next, asked = "the next request names that answer and continues", x.q.userAfter(-1)
	}
	moved, known := x.moved(a.source)
	evidence := func(id, confidence, more string) RootCause {
		return because(id, confidence, "", "answer of LLM call %s made %d calls, of which %s is number %d; the next request answers %d of them, and %s%s",
			a.exchange, n, x.callName(), call.Position+1, k, next, more)
	}
	limit := "" // confidence that the agent runs only the first k calls
	switch {
	case k == 0:
		x.store.parallel(x.conv, 0) // see conversation.skipped
	case !first:
		x.store.parallel(x.conv, n) // not only the first ones
	case k < n && !moved && call.tool == ToolUnknown:
		x.store.shortfall(x.conv, a, k, asked)
		if limit = x.store.limited(x.conv, k); limit == High {
			return evidence(CallsTruncated, High, limitedEvidence)
		}
		defer func() {
			if r.Confidence != High {
				r.first = k
			}
		}()
	}
	switch {
	case x.conv.tools && call.CallID != "" && call.tool == ToolUnknown && (k == 0 || !first || !sameTool(a.calls[:k], call)):
		return evidence(ToolSkipped, High, "; the agent reports tool runs, and this tool never started")
	case call.tool == ToolStarted && moved:
		return evidence(Crashed, High, "; the tool had started and never ended, and another process sent the request")
	case call.tool == ToolStarted && asked:
		return evidence(UserInterrupt, Medium, "; the tool had started and not ended yet")
	case call.tool == ToolEnded && !moved:
		return RootCause{} // the tool ran, but its result was lost
	case moved && known:
		return evidence(Crashed, Medium, "; another process sent the request")
	case moved || x.source.instance == "" || a.source.instance == "":
		return evidence(SkippedOrInterrupted, Medium, "; the process that ran the tools is unknown")
	case k > 0 && k < n && first && sameTool(a.calls[:k], call):
		if groups, other := x.otherGroups(k, a); !other {
			confidence := Medium
			if groups > 0 {
				confidence = High
			}
			return evidence(CallsTruncated, confidence, "; the answered calls are the first ones")
		}
	}
	switch {
	case limit != "":
		return evidence(CallsTruncated, limit, limitedEvidence+"; or the agent does not have this tool")
	case asked:
		return evidence(SkippedOrInterrupted, Medium, "")
	}
	return evidence(ToolSkipped, Medium, "; the same process continued without the user")
}

// limitedEvidence follows the evidence that only the first calls have replies.
const limitedEvidence = "; the answered calls are the first ones, as many as in other conversations of this service, and none has more"

// sameTool reports whether one of the answered calls is to the same tool as call, so that the agent does run this tool.
func sameTool(answered []*Call, call *Call) bool {
	return slices.ContainsFunc(answered, func(c *Call) bool { return c.Name == call.Name })
}

// otherGroups returns the number of other answers in the request of which exactly the first k calls have replies. other
// reports whether the request has replies to more than k calls of one of these answers; groups is then 0.
func (x *explainer) otherGroups(k int, than *answer) (groups int, other bool) {
	for i := x.q.lead; i < len(x.q.messages); i++ {
		m := &x.q.messages[i]
		if int(m.calls) <= k || m.role != facts.RoleAssistant {
			continue
		}
		calls := x.q.callsOf(m)
		if than.has(calls[0].id) {
			continue
		}
		answered := 0
		for j, c := range calls {
			if j == answered && x.q.replyAfter(c.id, i) >= 0 {
				answered++
			}
		}
		switch {
		case answered > k:
			return 0, true
		case answered == k:
			groups++
		}
	}
	return groups, false
}
