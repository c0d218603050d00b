package session

import (
	"bytes"
	"slices"
)

// explainUnknownID explains a reply in an open group whose id matches none of the calls of the group.
func explainUnknownID(x *explainer) RootCause {
	if x.id == 0 || x.Message < 0 {
		return RootCause{}
	}
	if r := x.concurrent(); r.ID != "" {
		return r
	}
	at := x.q.caller(x.Message)
	if at < 0 {
		return RootCause{}
	}
	if x.q.lastCall(x.id) > x.Message {
		return explainEarly(x)
	}
	if r := x.unsaved(); r.ID != "" {
		return r
	}
	start, end := x.q.groupStart(at), x.q.groupEnd(at)
	for i := start; i <= at; i++ {
		if slices.ContainsFunc(x.q.callsOf(&x.q.messages[i]), func(c callMark) bool { return c.id == 0 }) {
			return x.lostID(i, "", -1) // the reply may belong to the call without an id
		}
	}
	if x.names && x.q.makesIn(start, at+1, x.id) {
		return x.sentUnderOtherID(start, at)
	}
	if r := x.rewrittenID(at); r.ID != "" {
		return r
	}
	if x.call == nil {
		return RootCause{}
	}
	a := x.call.answer
	for _, c := range x.q.callsIn(start, end) {
		if !a.has(c.id) {
			continue
		}
		// The group comes from the same answer, but lacks this call.
		alone := *x
		alone.declared = -1
		if r := alone.sanitized(); r.ID != "" {
			return r
		}
		if x.cutWithin(at, a) {
			return because(Truncated, High, "head", "answer of LLM call %s made %d calls, among them %s; the next request begins at %s %d with the last of them, and %s %d answers this one",
				x.call.Exchange, len(a.calls), x.callName(), x.item(), at, x.item(), x.Message)
		}
		return because(CallsDropped, High, "some", "answer of LLM call %s made %d calls, among them %s; %s %d of the next request is its copy without this one, and %s %d answers it",
			x.call.Exchange, len(a.calls), x.callName(), x.item(), at, x.item(), x.Message)
	}
	return x.cutAway()
}

// sentUnderOtherID explains a reply that names the function of a call in the messages from start to at, but has another id.
func (x *explainer) sentUnderOtherID(start, at int) RootCause {
	if x.call == nil {
		return RootCause{}
	}
	said := x.facts.Messages[x.Message].Replies[x.Part].ID
	for i := start; i <= at; i++ {
		for j, c := range x.q.callsOf(&x.q.messages[i]) {
			sent := x.facts.Messages[i].Calls[j].ID
			if c.id != x.id || len(sent) == 0 || string(sent) == string(said) {
				continue
			}
			side := "reply_side"
			if string(said) == x.call.CallID {
				side = "call_side"
			}
			return because(IDRewritten, High, side, "answer of LLM call %s called %s; message %d of the request has that call with the id %s, and its reply in message %d has the id %s",
				x.call.Exchange, callName(x.call.CallID, x.call), i, quote(string(sent)), x.Message, quote(string(said)))
		}
	}
	return RootCause{}
}

// cutWithin reports whether the history was cut between the calls of a, so that message at contains only the last ones. This
// happens if an agent stores each call as a separate item and sends only the newest items.
func (x *explainer) cutWithin(at int, a *answer) bool {
	calls := x.q.callsOf(&x.q.messages[at])
	gone := len(a.calls) - len(calls)
	if at != x.q.lead || x.aligned.prefix > 0 || a.after == 0 || gone <= 0 {
		return false
	}
	for i, c := range calls {
		if a.calls[gone+i].id != c.id {
			return false
		}
	}
	return true
}

// rewrittenID explains a group in which the calls, in message at, and the replies have different ids.
func (x *explainer) rewrittenID(at int) RootCause {
	from, end := x.q.groupStart(at), x.q.groupEnd(at)
	strange := -1 // index of the first message with a reply that matches none of the calls of the group
	for i := at + 1; i < end && strange < 0; i++ {
		for _, id := range x.q.repliesOf(&x.q.messages[i]) {
			if id != 0 && !x.q.makesIn(from, end, id) {
				strange = i
			}
		}
	}
	if strange < 0 {
		return RootCause{}
	}
	var answered *Call // call in an answer to which the strange message replies
	for _, id := range x.q.repliesOf(&x.q.messages[strange]) {
		if c := x.Turn.call(id); c != nil && !x.q.makesIn(from, end, id) {
			answered = c
		}
	}
	if answered != nil {
		if a := answered.answer; x.renamed(from, end, answered) {
			return because(IDRewritten, High, "call_side", "answer of LLM call %s called %s; message %d of the request makes the same calls under other ids, and message %d replies to the ids of the answer",
				a.exchange, callName(answered.CallID, answered), at, strange)
		}
		return RootCause{}
	}
	// The ids of the calls are unchanged, but the replies have other ids.
	for _, c := range x.q.callsIn(from, end) {
		call := x.Turn.call(c.id)
		if call == nil || x.q.countReplies(c.id) > 0 {
			continue
		}
		return because(IDRewritten, High, x.replySide(strange, at), "answer of LLM call %s called %s, and message %d of the request keeps that id; the reply in message %d names another",
			call.Exchange, callName(call.CallID, call), at, strange)
	}
	// Neither the calls nor the replies have the ids of the answer, but they are at its place.
	if a := x.before; a != nil && len(a.calls) > 0 && x.aligned.whole && from-x.q.lead >= a.after && len(x.q.callsIn(x.q.lead+a.after, from)) == 0 &&
		len(x.q.callsIn(from, end)) <= len(a.calls) && x.renamed(from, end, a.calls[0]) {
		return because(IDRewritten, High, "call_side", "answer of LLM call %s called %s; message %d of the request makes the same calls under other ids, and message %d replies to ids that neither has",
			a.exchange, callName(a.calls[0].CallID, a.calls[0]), at, strange)
	}
	return RootCause{}
}

// renamed reports whether the calls of the messages in [from, to) are those of the answer that made the call, under ids that
// neither an answer nor the previous request has. An answer whose calls are items of their own may be spread over several
// groups, because the replies may be between them.
func (x *explainer) renamed(from, to int, call *Call) bool {
	calls, made := x.q.callsIn(from, to), call.answer.calls
	for _, c := range calls {
		if x.conv.calls[c.id] != nil || x.p.lastCall(c.id) >= 0 {
			return false
		}
	}
	if !x.items {
		return renames(calls, made)
	}
	for i := max(0, call.Position+1-len(calls)); i <= call.Position && i+len(calls) <= len(made); i++ {
		if renames(calls, made[i:i+len(calls)]) {
			return true
		}
	}
	return false
}

// replySide returns the detail of IDRewritten for a reply in message i to a call in message at.
func (x *explainer) replySide(i, at int) string {
	for _, r := range x.facts.Messages[i].Replies {
		id := hashOrZero(r.ID)
		if x.q.makesIn(at, x.q.groupEnd(at), id) {
			continue
		}
		for _, c := range x.q.callsOf(&x.q.messages[at]) {
			if c.name == id {
				return "hardcoded_id"
			}
		}
		if x.q.countReplies(id) > 1 || x.p.countReplies(id) > 0 {
			return "hardcoded_id"
		}
		if content := x.bytesOf(r.Start, r.End); len(r.ID) > 3 && bytes.Count(content, r.ID) > 1 {
			return "result_used_as_id"
		}
	}
	return "reply_side"
}

// explainReplyWithoutID explains a reply without a call id.
func explainReplyWithoutID(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	at := x.q.caller(x.Message)
	if at < 0 {
		return RootCause{}
	}
	return x.lostID(at, "", x.Message)
}

// explainMalformed explains a call without an id, a name or another required field.
func explainMalformed(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	if x.Detail == "no_namespace" && x.call != nil { // the model can call the function only in its namespace
		return because(FieldLost, Medium, "namespace", "answer of LLM call %s called %s, a function of a namespace; item %d of the request repeats that call without the namespace",
			x.call.Exchange, callName(x.call.CallID, x.call), x.Message)
	}
	return x.lostID(x.Message, x.Detail, -1)
}

// lostID explains an id or name that is missing in a call of message at or in its reply, by whether the answer had the id or
// name. reply is the message of the reply, or -1 if the call is defective.
func (x *explainer) lostID(at int, detail string, reply int) RootCause {
	calls := x.facts.Messages[at].Calls
	for j := range calls {
		c := &calls[j]
		noID, noName := len(c.ID) == 0, len(c.Name) == 0
		if reply < 0 && !noID && !noName && detail != "no_type" {
			continue
		}
		made := x.made(at, j)
		if made == nil {
			continue
		}
		lacks := "function name"
		if noID {
			lacks = "id"
		}
		a := made.answer
		switch {
		case noID && made.CallID == "" && !x.names || noName && made.Name == "":
			id, how := StreamAssembly, "as assembled from the stream"
			if !a.streamed {
				id, how = MalformedByModel, "which was not streamed"
			}
			return because(id, High, "", "answer of LLM call %s, %s, has no %s in its call %d; message %d of the request repeats that", a.exchange, how, lacks, made.Position+1, at)
		case reply >= 0 && !noID:
			if x.q.countReplies(x.q.callsOf(&x.q.messages[at])[j].id) > 0 {
				continue // another message replies to this call
			}
			return because(IDDroppedOnSave, High, "", "answer of LLM call %s called %s, and message %d of the request repeats it; the reply in message %d names no call",
				a.exchange, callName(made.CallID, made), at, reply)
		case noID || noName:
			return because(IDDroppedOnSave, High, "", "answer of LLM call %s called %s; message %d of the request repeats that call without its %s",
				a.exchange, callName(made.CallID, made), at, lacks)
		}
	}
	return RootCause{}
}

// explainIDFormat explains a call id that the target does not accept.
func explainIDFormat(x *explainer) RootCause {
	if x.call == nil {
		if x.ToolCallID == "" && x.Message >= 0 {
			if r := x.lostID(x.Message, "", -1); r.ID != "" {
				return r
			}
		}
		return explainSwitched(x)
	}
	if r := x.from(x.call.answer); r.ID != "" && r.Detail != "model" {
		return r
	}
	return because(IDFromGateway, Low, "", "answer of LLM call %s itself gave the call the id %s, and the request repeats it", x.call.Exchange, quote(x.ToolCallID))
}
