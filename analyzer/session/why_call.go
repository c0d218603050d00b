package session

import (
	"encoding/json"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// calledTwice explains an id that two calls have.
func (t *Turn) calledTwice(s *Symptom) RootCause {
	if s.id == 0 || s.Message < 0 {
		return RootCause{}
	}
	had, now := t.p.called(s.id), t.q.called(s.id)
	if had >= now {
		return RootCause{} // the request before had it already, or the history was shortened
	}
	made := 0
	if a := t.before; a != nil {
		made = a.gave(s.id)
		if i := t.q.declares(s.id); made == 0 && len(a.calls) > 0 && i-t.q.lead >= a.after && t.renamed(&t.q.messages[i], a) && t.copyOfCalls(a) < 0 {
			return because(IDRewritten, High, "call_side", "answer of exchange %s called %s; message %d of the request makes the same calls under ids that earlier calls have",
				a.exchange, named(a.calls[0].CallID, a.calls[0]), i)
		}
	}
	if now > had+made {
		if t.twin(s.Message) < 0 || had+made == 0 {
			return RootCause{}
		}
		if r := t.concurrent(s, t.call(s.id)); r.ID != "" {
			return r
		}
		return because(TurnAppendedTwice, High, "", "%s %d and %d of the request are the same calls; the answer and the request before it have them once",
			t.item(), t.twin(s.Message), s.Message)
	}
	if made == 0 {
		return RootCause{}
	}
	if made > 1 {
		return because(DuplicateIDFromModel, High, "", "answer of exchange %s itself gave %d calls the id %s", t.before.exchange, made, quote(s.ToolCallID))
	}
	return because(DuplicateIDFromModel, High, "", "answer of exchange %s gave its call the id %s, which a call in the request before it had already",
		t.before.exchange, quote(s.ToolCallID))
}

// gave counts the calls of a with id.
func (a *answer) gave(id uint64) int {
	n := 0
	for _, c := range a.calls {
		if c.id == id {
			n++
		}
	}
	return n
}

// copyOfCalls is a message of the request with a call of a; -1 when there is none.
func (t *Turn) copyOfCalls(a *answer) int {
	for _, c := range a.calls {
		if i := t.q.declares(c.id); i >= 0 && c.id != 0 {
			return i
		}
	}
	return -1
}

// twin is another message with the calls and the text of message i; -1 when there is none.
func (t *Turn) twin(i int) int {
	m := &t.q.messages[i]
	for j := range t.q.messages {
		o := &t.q.messages[j]
		if j == i || o.calls != m.calls || o.calls == 0 || !sameText(o.text, o.noText, m.text, m.noText) {
			continue
		}
		same := true
		for k, c := range t.q.calls(o) {
			same = same && c == t.q.calls(m)[k]
		}
		if same {
			return j
		}
	}
	return -1
}

// itemTwice explains an item that stands twice in an input.
func (t *Turn) itemTwice(s *Symptom) RootCause {
	if s.Message < 0 || t.q.messages[s.Message].item == facts.ItemReply {
		return RootCause{}
	}
	id := string(t.facts.Messages[s.Message].ID)
	for i := range s.Message {
		if string(t.facts.Messages[i].ID) == id && t.q.messages[i].hash == t.q.messages[s.Message].hash && i-t.q.lead >= t.fit.prefix-1 {
			return because(TurnAppendedTwice, High, "", "items %d and %d of the request are the same; the answer has it once", i, s.Message)
		}
	}
	return RootCause{}
}

// made is the call of an answer that call j of message i repeats: by its id, else by its place in the copy of the answer
// before.
func (t *Turn) made(i, j int) *Call {
	m := &t.q.messages[i]
	calls := t.q.calls(m)
	if j < len(calls) {
		if c := t.call(calls[j].id); c != nil {
			return c
		}
	}
	a := t.before
	if a == nil || i-t.q.lead < a.after || len(calls) != len(a.calls) || j >= len(calls) {
		return nil
	}
	// Its neighbours, or the place after the request before, tell that it is a copy.
	for k, c := range calls {
		if k != j && a.calls[k].id != 0 && c.id == a.calls[k].id {
			return a.calls[j]
		}
	}
	if t.fit.whole && i-t.q.lead == a.after && sameText(a.text, a.noText, m.text, m.noText) {
		return a.calls[j]
	}
	return nil
}

// callAt is the index, in message i, of the call that the symptom is about.
func (t *Turn) callAt(s *Symptom) int {
	calls := t.facts.Messages[s.Message].Calls
	for j := range calls {
		if s.ToolCallID != "" && string(calls[j].ID) == s.ToolCallID {
			return j
		}
	}
	for j := range calls {
		c := &calls[j]
		if s.ToolCallID == "" && (len(c.ID) == 0 || len(c.Name) == 0) {
			return j
		}
	}
	return -1
}

// malformed explains a call that lacks its id, its name or more.
func (t *Turn) malformed(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	return t.idGone(s.Message, s.Detail, -1)
}

// idGone explains a call of message at, or the reply to it, that lacks id or name: the answer had them, or not.
func (t *Turn) idGone(at int, detail string, reply int) RootCause {
	calls := t.facts.Messages[at].Calls
	for j := range calls {
		c := &calls[j]
		noID, noName := len(c.ID) == 0, len(c.Name) == 0
		if reply < 0 && !noID && !noName && detail != "no_type" {
			continue
		}
		made := t.made(at, j)
		if made == nil {
			continue
		}
		a := made.answer
		switch {
		case noID && made.CallID == "" && !t.names || noName && made.Name == "":
			id, how := StreamAssembly, "as assembled from the stream"
			if !a.streamed {
				id, how = MalformedByModel, "which came whole"
			}
			return because(id, High, "", "answer of exchange %s, %s, has no %s in its call %d; message %d of the request repeats that", a.exchange, how, lacks(noID), made.Position+1, at)
		case reply >= 0 && !noID:
			if t.q.replies(t.q.calls(&t.q.messages[at])[j].id) > 0 {
				continue // this one has its reply
			}
			return because(IDDroppedOnSave, High, "", "answer of exchange %s called %s, and message %d of the request repeats it; the reply in message %d names no call",
				a.exchange, named(made.CallID, made), at, reply)
		case noID || noName:
			return because(IDDroppedOnSave, High, "", "answer of exchange %s called %s; message %d of the request repeats that call without its %s",
				a.exchange, named(made.CallID, made), at, lacks(noID))
		}
	}
	return RootCause{}
}

func lacks(noID bool) string {
	if noID {
		return "id"
	}
	return "function name"
}

// argumentsKind explains arguments that are no string: the answer's were one.
func (t *Turn) argumentsKind(s *Symptom) RootCause {
	call, value := t.sentArguments(s)
	if call == nil || call.kind != facts.String || len(value) == 0 || call.meaning == 0 || call.meaning != canonical(value) {
		return RootCause{}
	}
	return because(ArgumentsAsObject, High, s.Detail, "answer of exchange %s called %s with its arguments as a string; message %d of the request has the same arguments as JSON",
		call.Exchange, named(s.ToolCallID, call), s.Message)
}

// argumentsText explains an arguments string that is no JSON object: as the model wrote it, or not.
func (t *Turn) argumentsText(s *Symptom) RootCause {
	call, value := t.sentArguments(s)
	if call == nil || len(value) == 0 {
		return RootCause{}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return RootCause{}
	}
	a := call.answer
	who := "answer of exchange " + a.exchange
	what := named(s.ToolCallID, call)
	asMade := hashName(text) == call.raw
	switch {
	case asMade && a.end != endedWhole:
		detail, how := "length", "ended at its token limit"
		if a.end == endedCut {
			detail, how = "cut", "broke off"
		}
		return because(ArgumentsTruncated, High, detail, "%s %s inside the arguments of %s; message %d of the request repeats the call", who, how, what, s.Message)
	case s.Detail == "concatenated" && (!asMade || a.joined || a.streamed):
		return because(StreamAssembly, High, "", "the arguments of %s in message %d of the request are several JSON values; %s made %d calls", what, s.Message, who, len(a.calls))
	case asMade && a.end == endedWhole:
		return because(MalformedByModel, High, "", "%s is whole and has these arguments in its call %s; message %d of the request repeats them unchanged", who, what, s.Message)
	}
	return RootCause{}
}

// sentArguments is the answer's call that the symptom is about, and the arguments that the request has for it, as JSON.
func (t *Turn) sentArguments(s *Symptom) (*Call, []byte) {
	if s.Message < 0 {
		return nil, nil
	}
	j := t.callAt(s)
	if j < 0 {
		return nil, nil
	}
	call := t.made(s.Message, j)
	if call == nil {
		return nil, nil
	}
	type function struct{ Arguments json.RawMessage }
	var sent struct {
		Function  function
		Arguments json.RawMessage // of a Responses item
	}
	c := &t.facts.Messages[s.Message].Calls[j]
	if json.Unmarshal(t.bytesOf(c.Start, c.End), &sent) != nil {
		return nil, nil
	}
	if len(sent.Function.Arguments) > 0 {
		return call, sent.Function.Arguments
	}
	return call, sent.Arguments
}
