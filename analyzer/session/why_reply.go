package session

import (
	"bytes"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

func digits(n int) string { return strconv.Itoa(n) }

func roleName(r facts.Role) string {
	switch r {
	case facts.RoleSystem:
		return "system"
	case facts.RoleDeveloper:
		return "developer"
	case facts.RoleUser:
		return "user"
	case facts.RoleAssistant:
		return "assistant"
	case facts.RoleTool:
		return "tool"
	case facts.RoleFunction:
		return "function"
	case facts.RoleNone, facts.RoleOther:
	}
	return "other"
}

// late explains a reply that came after its group was closed.
func (t *Turn) late(s *Symptom) RootCause {
	if s.id == 0 || s.Message < 0 {
		return RootCause{}
	}
	call := t.call(s.id)
	if r := t.concurrent(s, call); r.ID != "" {
		return r
	}
	for i := s.Message - 1; i >= 0; i-- {
		if t.q.calling(&t.q.messages[i], s.id) {
			return t.replyLate(s, call, i, s.Message)
		}
	}
	return RootCause{}
}

// replyLate explains why message reply answers, too late, the call in message at.
func (t *Turn) replyLate(s *Symptom, call *Call, at, reply int) RootCause {
	declared := t.p.declares(s.id)
	if call == nil && declared < 0 {
		return RootCause{}
	}
	if call != nil && len(call.answer.calls) > 1 && declared < 0 {
		if n := t.spread(call.answer); n > 1 {
			return because(CallsSplit, High, "", "answer of exchange %s made %d calls in one message; the next request has them in %d messages, so that %s comes before the reply to %s in message %d",
				call.Exchange, len(call.answer.calls), n, "another of them", named(s.ToolCallID, call), reply)
		}
	}
	between := t.groupEnd(at)
	if between >= reply {
		return RootCause{}
	}
	m := &t.q.messages[between]
	if declared >= 0 && t.p.replies(s.id) == 0 && between-t.q.lead < t.fit.prefix {
		// The request before went on without the reply.
		if m.role != facts.RoleUser {
			return t.inserted(s, call, declared, between, reply, High)
		}
		return because(UserInterrupt, Medium, "", "message %d (user) followed the call %s in the request before (exchange %s), which held no reply; the reply came in message %d of this one",
			between, named(s.ToolCallID, call), t.previous, reply)
	}
	switch {
	case m.role == facts.RoleSystem || m.role == facts.RoleDeveloper:
		return t.inserted(s, call, declared, between, reply, High)
	case m.role == facts.RoleUser:
		confidence := Medium
		for i := between + 1; i < reply; i++ {
			if o := &t.q.messages[i]; o.role == facts.RoleAssistant && o.calls == 0 {
				return because(UserInterrupt, Medium, "", "%s made %s; in the next request the user goes on in message %d and is answered in message %d, and the reply to the call comes after that in message %d",
					t.said(s, call, declared), named(s.ToolCallID, call), between, i, reply)
			}
		}
		if t.repeated(between) {
			confidence = High
		}
		return t.inserted(s, call, declared, between, reply, confidence)
	case m.role == facts.RoleAssistant && m.calls == 0 && !t.known(m):
		return t.inserted(s, call, declared, between, reply, Medium)
	}
	return RootCause{}
}

func (t *Turn) inserted(s *Symptom, call *Call, declared, between, reply int, confidence string) RootCause {
	role := roleName(t.q.messages[between].role)
	return because(Interleaved, confidence, role, "%s made %s; in the next request message %d (%s) stands between the call and its reply in message %d",
		t.said(s, call, declared), named(s.ToolCallID, call), between, role, reply)
}

// repeated reports whether message i stands elsewhere in the request too, as reminders do.
func (t *Turn) repeated(i int) bool {
	for j := range t.q.messages {
		if j != i && t.q.messages[j].hash == t.q.messages[i].hash {
			return true
		}
	}
	return false
}

// known reports whether m was in the request before, or is an answer of the conversation.
func (t *Turn) known(m *message) bool {
	for i := range t.p.messages {
		if t.p.messages[i].hash == m.hash {
			return true
		}
	}
	for _, l := range t.conv.lines {
		if l.answer != nil && t.q.copies(m, l.answer) {
			return true
		}
	}
	return t.before != nil && t.q.copies(m, t.before)
}

// spread counts the messages of the request that make calls of a.
func (t *Turn) spread(a *answer) int {
	n := 0
	for i := range t.q.messages {
		for _, c := range t.q.calls(&t.q.messages[i]) {
			if a.has(c.id) {
				n++
				break
			}
		}
	}
	return n
}

// reordered explains a reply that stands before its call: two writers did it, or nothing known.
func (t *Turn) reordered(s *Symptom) RootCause { return t.concurrent(s, t.call(s.id)) }

// concurrent explains a pairing defect of call by a second answer that was under way at the same time and that the
// request holds too. Requests without a given id are not known to be of one writer or two.
func (t *Turn) concurrent(s *Symptom, call *Call) RootCause {
	if call == nil || call.again || t.conv.inferred {
		return RootCause{}
	}
	other := t.overlapping(call.answer)
	if other == nil {
		return RootCause{}
	}
	return because(ConcurrentWriters, High, "", "answer of exchange %s made %s while exchange %s of the conversation was under way; this request holds messages of both",
		call.Exchange, named(s.ToolCallID, call), other.exchange)
}

// overlapping is an answer beside a whose request was under way at the same time and of which the request has a copy or
// a reply.
func (t *Turn) overlapping(a *answer) *answer {
	overlaps := func(b *answer) bool { return b != nil && b != a && b.seq < a.ended && a.seq < b.ended }
	for i := t.q.lead; i < len(t.q.messages); i++ {
		m := &t.q.messages[i]
		for _, c := range t.q.calls(m) {
			if k := t.conv.calls[c.id]; k != nil && !k.again && overlaps(k.answer) {
				return k.answer
			}
		}
		for _, id := range t.q.replyIDs(m) {
			if k := t.conv.calls[id]; k != nil && !k.again && overlaps(k.answer) {
				return k.answer
			}
		}
		for _, l := range t.conv.lines {
			if m.text != 0 && overlaps(l.answer) && l.answer.text == m.text && l.answer.text != a.text {
				return l.answer
			}
		}
	}
	return nil
}

// knownCalls reports whether a call of m is of an answer of the conversation, or of the request before.
func (t *Turn) knownCalls(m *message) bool {
	for _, c := range t.q.calls(m) {
		if t.conv.calls[c.id] != nil || t.p.declares(c.id) >= 0 {
			return true
		}
	}
	return false
}

// replySide says how the reply in message i got its id.
func (t *Turn) replySide(i, at int) string {
	for _, r := range t.facts.Messages[i].Replies {
		id := hashOrZero(r.ID)
		if t.inGroup(at, t.groupEnd(at), id) {
			continue
		}
		for _, c := range t.q.calls(&t.q.messages[at]) {
			if c.name == id {
				return "hardcoded_id"
			}
		}
		if t.q.replies(id) > 1 || t.p.replies(id) > 0 {
			return "hardcoded_id"
		}
		if content := t.bytesOf(r.Start, r.End); len(r.ID) > 3 && bytes.Count(content, r.ID) > 1 {
			return "result_used_as_id"
		}
	}
	return "reply_side"
}

func (t *Turn) bytesOf(start, end int) []byte {
	if start < 0 || end > len(t.body) || start >= end {
		return nil
	}
	return t.body[start:end]
}

// replyWithoutID explains a reply that names no call.
func (t *Turn) replyWithoutID(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	at := t.caller(s.Message)
	if at < 0 {
		return RootCause{}
	}
	return t.idGone(at, "", s.Message)
}

// repliedTwice explains a call with several replies.
func (t *Turn) repliedTwice(s *Symptom) RootCause {
	call := t.call(s.id)
	had := t.p.replies(s.id)
	if s.id == 0 || had >= 2 || call == nil && had == 0 {
		return RootCause{}
	}
	if r := t.concurrent(s, call); r.ID != "" {
		return r
	}
	if call != nil && had == 0 && call.answer.gave(s.id) > 1 {
		return because(DuplicateIDFromModel, High, "", "answer of exchange %s itself gave %d calls the id %s, and each has a reply", call.Exchange, call.answer.gave(s.id), quote(s.ToolCallID))
	}
	var places []int
	var hashes []uint64
	placeholder := false
	for i := range t.q.messages {
		for j, id := range t.q.replyIDs(&t.q.messages[i]) {
			if id != s.id {
				continue
			}
			r := &t.facts.Messages[i].Replies[j]
			raw := t.bytesOf(r.Start, r.End)
			if len(places) == 0 {
				placeholder = isPlaceholder(raw, r)
			}
			places = append(places, i)
			hashes = append(hashes, xxh3.Hash(raw))
		}
	}
	if len(places) < 2 {
		return RootCause{}
	}
	first, last := places[0], places[len(places)-1]
	equal := hashes[0] == hashes[len(hashes)-1] && t.body != nil
	if t.line.raced && !t.conv.inferred {
		return because(ConcurrentWriters, High, "", "messages %d and %d both answer %s, and two requests of the conversation were under way at once before this one",
			first, last, named(s.ToolCallID, call))
	}
	from := t.pSource
	if had == 0 && call != nil {
		from = call.answer.source
	}
	moved, known := t.moved(from)
	const format = "messages %d and %d both answer %s, with %s; the request before held %d replies to it"
	evidence := func(detail, confidence, replies string) RootCause {
		return because(DuplicateReply, confidence, detail, format, first, last, named(s.ToolCallID, call), replies, had)
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

// maxPlaceholder is the longest reply, in bytes of its JSON, that is looked at for being a placeholder.
const maxPlaceholder = 400

var placeholders = [][]byte{
	[]byte("pending"), []byte("approv"), []byte("awaiting"), []byte("waiting"), []byte("placeholder"), []byte("in progress"), []byte("confirm"),
}

// isPlaceholder reports whether a reply only says that the result is still to come. Of a shape that cannot be seen.
func isPlaceholder(raw []byte, r *facts.Reply) bool {
	if len(raw) > maxPlaceholder {
		return false
	}
	lower := bytes.ToLower(raw)
	if n := bytes.Index(lower, bytes.ToLower(r.ID)); n >= 0 {
		lower = append(lower[:n:n], lower[n+len(r.ID):]...)
	}
	for _, p := range placeholders {
		if bytes.Contains(lower, p) {
			return true
		}
	}
	return false
}
