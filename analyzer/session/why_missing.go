package session

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// missing explains a call without a reply in its group.
func (t *Turn) missing(s *Symptom) RootCause {
	if s.id == 0 || s.Message < 0 {
		return RootCause{}
	}
	call := t.call(s.id)
	if t.p.replies(s.id) > t.q.replies(s.id) {
		detail := "middle"
		if t.fit.tail == 0 {
			detail = "tail"
		}
		return because(Truncated, High, detail, "the request before (exchange %s, %d messages) held the reply to %s; the next request still calls it in %s %d but holds no reply",
			t.previous, len(t.p.messages), named(s.ToolCallID, call), t.item(), s.Message)
	}
	if r := t.concurrent(s, call); r.ID != "" {
		return r
	}
	if t.twin(s.Message) >= 0 {
		if r := t.calledTwice(s); r.ID != "" {
			return r
		}
	}
	if at := t.replyAfter(s.id, s.Message); at >= 0 {
		return t.replyLate(s, call, s.Message, at)
	}
	if r := t.rewritten(s.Message); r.ID != "" {
		return r
	}
	for i := s.Message + 1; i < t.groupEnd(s.Message); i++ {
		if slices.Contains(t.q.replyIDs(&t.q.messages[i]), 0) { // it may be the reply to this call
			return t.idGone(s.Message, "", i)
		}
	}
	if call == nil || t.p.declares(s.id) >= 0 {
		return RootCause{} // the answer is not known, or the request before lacked the reply already
	}
	return t.unanswered(s, call)
}

// replyAfter is the first message after i that replies to id; -1 when there is none.
func (t *Turn) replyAfter(id uint64, i int) int {
	for i++; i < len(t.q.messages); i++ {
		if slices.Contains(t.q.replyIDs(&t.q.messages[i]), id) {
			return i
		}
	}
	return -1
}

// groupEnd is the first message after i, a message with calls, that neither replies nor calls.
func (t *Turn) groupEnd(i int) int {
	replied := false
	for i++; i < len(t.q.messages); i++ {
		m := &t.q.messages[i]
		switch {
		case m.replies > 0:
			replied = true
		case m.item == facts.ItemReasoning || m.item == facts.ItemOther || m.item == facts.ItemReference:
		case m.calls > 0 && m.item == facts.ItemCall && !replied:
		default:
			return i
		}
	}
	return i
}

// unanswered explains a call of the answer before to which the request has no reply anywhere.
func (t *Turn) unanswered(s *Symptom, call *Call) RootCause {
	a := call.answer
	k, first := 0, true // calls with a reply; all of them come before those without
	for i, c := range a.calls {
		if c.id != 0 && t.q.replies(c.id) > 0 {
			first = first && k == i
			k++
		}
	}
	n := len(a.calls)
	next, asked := "the request ends", false
	if s.Message >= 0 {
		for end := t.groupEnd(s.Message); end < len(t.q.messages); end++ {
			m := &t.q.messages[end]
			if m.replies > 0 || m.role == facts.RoleNone {
				continue
			}
			next, asked = t.item()+" "+digits(end)+" ("+roleName(m.role)+") follows", m.role == facts.RoleUser
			break
		}
	} else {
		next, asked = "the next request names that answer and goes on", t.asksAnew()
	}
	const format = "answer of exchange %s made %d calls, %s the one at %d; the next request answers %d of them, and %s"
	moved, known := t.moved(a.source)
	evidence := func(id, confidence, detail, more string) RootCause {
		return because(id, confidence, detail, format+"%s", a.exchange, n, named(s.ToolCallID, call), call.Position+1, k, next, more)
	}
	switch {
	case t.conv.tools && call.CallID != "" && call.tool == ToolUnknown && (k == 0 || !first || !t.sameTool(a, call, k)):
		return evidence(ToolSkipped, High, "", "; the agent tells when tools run, and this one never started")
	case call.tool == ToolStarted && moved:
		return evidence(Crashed, High, "", "; the tool had started and never ended, and another process sent it")
	case call.tool == ToolStarted && asked:
		return evidence(UserInterrupt, Medium, "", "; the tool had started and not ended")
	case call.tool == ToolEnded && !moved:
		return RootCause{} // it ran, and its result was lost on the way
	case moved && known:
		return evidence(Crashed, Medium, "", "; another process sent it")
	case moved || t.source.instance == "" || a.source.instance == "":
		return evidence(SkippedOrInterrupted, Medium, "", "; which process ran the tools is not known")
	case k > 0 && k < n && first && t.sameTool(a, call, k):
		if groups, other := t.otherGroups(k, a); !other {
			confidence := Medium
			if groups > 0 {
				confidence = High
			}
			return evidence(CallsTruncated, confidence, "", "; these are the first ones")
		}
	}
	if asked {
		return evidence(SkippedOrInterrupted, Medium, "", "")
	}
	return evidence(ToolSkipped, Medium, "", "; the same process went on without the user")
}

// asksAnew reports whether the user wrote something in a request that holds only what is new.
func (t *Turn) asksAnew() bool {
	for i := range t.q.messages {
		if m := &t.q.messages[i]; m.role == facts.RoleUser && m.replies == 0 {
			return true
		}
	}
	return false
}

// sameTool reports whether the agent runs the tool of call, which has no reply: one of the first k calls was of it.
func (t *Turn) sameTool(a *answer, call *Call, k int) bool {
	for _, c := range a.calls[:k] {
		if c.Name == call.Name {
			return true
		}
	}
	return false
}

// otherGroups counts the other answers of the conversation of which the request replies to the first k calls alone; other
// reports that it replies to more than k calls of one.
func (t *Turn) otherGroups(k int, than *answer) (groups int, other bool) {
	for i := t.q.lead; i < len(t.q.messages); i++ {
		m := &t.q.messages[i]
		if int(m.calls) <= k || m.role != facts.RoleAssistant {
			continue
		}
		calls := t.q.calls(m)
		if than.has(calls[0].id) {
			continue
		}
		answered := 0
		for j, c := range calls {
			if j == answered && t.replyAfter(c.id, i) >= 0 {
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

// unresolved explains a call of the answer that previous_response_id names which the request leaves without a reply.
func (t *Turn) unresolved(s *Symptom) RootCause {
	call := t.call(s.id)
	if s.Detail != "unanswered" || call == nil || call.answer != t.before {
		return RootCause{}
	}
	s.Message = -1
	return t.unanswered(s, call)
}
