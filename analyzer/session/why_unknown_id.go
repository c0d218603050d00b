package session

// unknownID explains a reply in an open group whose id none of the group's calls has.
func (t *Turn) unknownID(s *Symptom) RootCause {
	if s.id == 0 || s.Message < 0 {
		return RootCause{}
	}
	call := t.call(s.id)
	if r := t.concurrent(s, call); r.ID != "" {
		return r
	}
	at := t.caller(s.Message)
	if at < 0 {
		return RootCause{}
	}
	if r := t.rewritten(at); r.ID != "" {
		return r
	}
	declared := t.p.declares(s.id)
	if call == nil {
		return RootCause{}
	}
	for _, c := range t.q.calls(&t.q.messages[at]) {
		if !call.answer.has(c.id) {
			continue
		}
		// The group is of the same answer, but this call is not in it.
		if r := t.sanitized(s, call, -1); r.ID != "" {
			return r
		}
		if t.cutWithin(at, call.answer) {
			return because(Truncated, High, "head", "answer of exchange %s made %d calls, among them %s; the next request begins at %s %d with the last of them, and %s %d answers this one",
				call.Exchange, len(call.answer.calls), named(s.ToolCallID, call), t.item(), at, t.item(), s.Message)
		}
		return because(CallsDropped, High, "some", "answer of exchange %s made %d calls, among them %s; %s %d of the next request is its copy without this one, and %s %d answers it",
			call.Exchange, len(call.answer.calls), named(s.ToolCallID, call), t.item(), at, t.item(), s.Message)
	}
	return t.cutAway(s, call, declared)
}

// cutWithin reports whether all before message at is gone and with it the first calls of a, as where an agent keeps each
// call as an item of its own and sends the last items.
func (t *Turn) cutWithin(at int, a *answer) bool {
	calls := t.q.calls(&t.q.messages[at])
	gone := len(a.calls) - len(calls)
	if at != t.q.lead || t.fit.prefix > 0 || a.after == 0 || gone <= 0 {
		return false
	}
	for i, c := range calls {
		if a.calls[gone+i].id != c.id {
			return false
		}
	}
	return true
}

// caller is the message with calls whose group the reply in message i stands in; -1 when there is none.
func (t *Turn) caller(i int) int {
	at := t.q.owner(i)
	if at < 0 || t.q.messages[at].calls == 0 {
		return -1
	}
	return at
}

// rewritten explains a group whose calls and replies carry different ids: that of the calls in message at.
func (t *Turn) rewritten(at int) RootCause {
	m := &t.q.messages[at]
	end := t.groupEnd(at)
	var strange []int // replies that name none of the group's calls
	for i := at + 1; i < end; i++ {
		for _, id := range t.q.replyIDs(&t.q.messages[i]) {
			if id != 0 && !t.inGroup(at, end, id) {
				strange = append(strange, i)
			}
		}
	}
	if len(strange) == 0 {
		return RootCause{}
	}
	reply := &t.q.messages[strange[0]]
	var given *Call // the call that the first strange reply means by the answer's id
	for _, id := range t.q.replyIDs(reply) {
		if c := t.call(id); c != nil && !t.inGroup(at, end, id) {
			given = c
		}
	}
	if given != nil {
		if a := given.answer; t.renamed(m, a) && !t.knownCalls(m) {
			return because(IDRewritten, High, "call_side", "answer of exchange %s called %s; message %d of the request makes the same calls under other ids, and message %d replies to the answer's",
				a.exchange, named(given.CallID, given), at, strange[0])
		}
		return RootCause{}
	}
	// The calls are as the answer made them, and the replies name something else.
	for _, c := range t.q.calls(m) {
		call := t.call(c.id)
		if call == nil || t.q.replies(c.id) > 0 {
			continue
		}
		detail := t.replySide(strange[0], at)
		return because(IDRewritten, High, detail, "answer of exchange %s called %s, and message %d of the request keeps that id; the reply in message %d names another",
			call.Exchange, named(call.CallID, call), at, strange[0])
	}
	return RootCause{}
}

// inGroup reports whether one of the calls from message at to end has id.
func (t *Turn) inGroup(at, end int, id uint64) bool {
	for i := at; i < end; i++ {
		if t.q.calling(&t.q.messages[i], id) {
			return true
		}
	}
	return false
}

// renamed reports whether m makes the calls of a, none of them under its id.
func (t *Turn) renamed(m *message, a *answer) bool {
	calls := t.q.calls(m)
	if len(calls) != len(a.calls) {
		return false
	}
	for i, c := range calls {
		if a.has(c.id) || c.name != hashOrZero([]byte(a.calls[i].Name)) {
			return false
		}
	}
	return true
}
