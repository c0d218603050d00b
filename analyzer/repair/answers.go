package repair

import (
	"bytes"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// restore gives a reply its call back from the newest answer with the call.
func (e *edit) restore(r *check.Reply) bool {
	a := e.answerWith(e.key(r.Reply))
	if a == nil || a.restored {
		return false // what was restored and removed again is beyond repair
	}
	e.restores = a
	m := &a.facts.Messages[0]
	e.say("restores the call %s from the model's answer", quoteName(r.ID))
	if e.dialect.Pairing.Items {
		item := a.raw
		if e.dialect.Places.CallID != "/id" { // with its id, the item would need its reasoning item
			if bare, err := apply(item, Operation{Op: "remove", Path: "/id"}); err == nil {
				item = bare
			}
		}
		e.add(e.message(r.Message), item)
		return true
	}
	first := r.Message // the first of the replies to this answer
	for first > 0 && e.repliesTo(a, first-1) {
		first--
	}
	if p := first - 1; p >= 0 && e.isCopy(p, m) {
		member := e.dialect.Places.Parts
		if !e.dialect.Pairing.Blocks {
			member = "tool_calls"
		}
		e.set(element{message: p}, "/"+member, value(a.raw, "/"+member))
		return true
	}
	e.add(e.message(first), a.raw)
	return true
}

// repliesTo reports whether message i contains only replies to calls of a.
func (e *edit) repliesTo(a *answer, i int) bool {
	m := &e.request.Messages[i]
	if len(m.Replies) == 0 {
		return false
	}
	for j := range m.Replies {
		if !a.calls(e.key(&m.Replies[j])) {
			return false
		}
	}
	return true
}

// key returns what a reply refers to: the id of a call, or its function.
func (f *fixing) key(r *facts.Reply) []byte {
	if f.dialect.Pairing.Names && len(r.ID) == 0 {
		return r.Name
	}
	return r.ID
}

// isCopy reports whether message i is the answer m without its calls.
func (e *edit) isCopy(i int, m *facts.Message) bool {
	c := &e.request.Messages[i]
	return c.Role == facts.RoleAssistant && len(c.Calls) == 0 && (c.ContentHash == m.ContentHash || e.saysNothing(i))
}

// made reports whether the answer has a call with an id that calls the same function with the same arguments as c.
func (a *answer) made(c *check.PairedCall, id []byte) bool {
	for i := range a.facts.Messages[0].Calls {
		x := &a.facts.Messages[0].Calls[i]
		if bytes.Equal(x.ID, id) && bytes.Equal(x.Name, c.Name) && x.ArgsHash == c.ArgsHash {
			return true
		}
	}
	return false
}

// calls reports whether the answer has a call with an id or, in Gemini, of a function.
func (a *answer) calls(key []byte) bool {
	for i := range a.facts.Messages[0].Calls {
		c := &a.facts.Messages[0].Calls[i]
		if len(key) > 0 && (bytes.Equal(c.ID, key) || len(c.ID) == 0 && bytes.Equal(c.Name, key)) {
			return true
		}
	}
	return false
}

// answerWith returns the answer with a call, or nil. If several answers have calls with this id that differ, it is not known
// which one is meant. A function is called again and again: the newest call that the history lacks counts.
func (f *fixing) answerWith(key []byte) *answer {
	f.scanAnswers()
	var found *answer
	for i := range f.answers {
		a := &f.answers[i]
		switch {
		case !a.calls(key):
		case f.dialect.Pairing.Names:
			if !a.restored && !f.has(a) {
				found = a
			}
		case found != nil && a.facts.Messages[0].Hash != found.facts.Messages[0].Hash:
			return nil
		default:
			found = a
		}
	}
	return found
}

// has reports whether the history has the calls of an answer.
func (f *fixing) has(a *answer) bool {
	c := &a.facts.Messages[0].Calls[0]
	for i := range f.pairs.Calls {
		if x := f.pairs.Calls[i].Call; bytes.Equal(x.Name, c.Name) && x.ArgsHash == c.ArgsHash {
			return true
		}
	}
	return false
}

// answerOf returns the answer that message m repeats: with the same first call, or else the same text. It returns nil if there is
// none, or if it is not certain which one.
func (f *fixing) answerOf(m *facts.Message) *facts.Message {
	if m.Role != facts.RoleAssistant {
		return nil
	}
	if len(m.Calls) > 0 {
		if a := f.answerWith(m.Calls[0].ID); a != nil {
			return &a.facts.Messages[0]
		}
		return nil
	}
	f.scanAnswers()
	var found *facts.Message
	for i := range f.answers {
		a := &f.answers[i].facts.Messages[0]
		if m.ContentHash == 0 || a.ContentHash != m.ContentHash || len(a.Calls) > 0 {
			continue
		}
		if found != nil {
			return nil
		}
		found = a
	}
	return found
}

func (f *fixing) scanAnswers() {
	if f.scanned {
		return
	}
	f.scanned = true
	for _, raw := range f.options.Answers {
		a := answer{raw: raw, facts: new(facts.Request)}
		if facts.ScanMessages(f.target.Dialect, join(`[`, raw, `]`), a.facts) == nil && len(a.facts.Messages) == 1 {
			f.answers = append(f.answers, a)
		}
	}
}
