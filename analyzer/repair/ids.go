package repair

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func itoa(i int) string { return strconv.Itoa(i) }

// newID returns an id for a call that every provider of the target's dialect accepts, and that no call of the request has. It
// depends only on the old id and the request.
func (e *edit) newID(old []byte) string {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for n := uint64(0); ; n++ {
		h := xxh3.HashSeed(old, n)
		b := make([]byte, 9) // Mistral accepts only ids of 9 letters and digits
		for i := range b {
			b[i] = alphabet[h%uint64(len(alphabet))]
			h /= uint64(len(alphabet))
		}
		id := cmp.Or(e.dialect.Texts.CallID, "call_") + string(b)
		if e.target.Variant == wire.Mistral {
			id = string(b)
		}
		if !e.used(id) {
			return id
		}
	}
}

func (e *edit) used(id string) bool {
	for i := range e.pairs.Calls {
		if string(e.pairs.Calls[i].Call.ID) == id {
			return true
		}
	}
	for i := range e.pairs.Replies {
		if string(e.pairs.Replies[i].Reply.ID) == id {
			return true
		}
	}
	return false
}

// rename changes the id of a call and of the replies that name it. They must have been found in pairing, which is by id.
func (e *edit) rename(c *check.PairedCall, id, why string) bool {
	index := -1
	for i := range e.pairs.Calls {
		if &e.pairs.Calls[i] == c {
			index = i
		}
	}
	for i := len(e.pairs.Replies) - 1; i >= 0; i-- {
		if r := &e.pairs.Replies[i]; r.Call == index {
			e.renameReply(r, id)
		}
	}
	return e.renameCall(c, id, why)
}

func (e *edit) renameReply(r *check.Reply, id string) {
	if at, ok := e.replyAt(r); ok && !e.dialect.Pairing.Names {
		e.set(at, e.dialect.Places.ReplyID, quote(id))
	}
}

func (e *edit) renameCall(c *check.PairedCall, id, why string) bool {
	at, ok := e.callAt(c)
	if !ok {
		return false
	}
	e.set(at, e.dialect.Places.CallID, quote(id))
	e.say("gives the call %s %s: %s", quoteName(c.Call.ID), why, id)
	return true
}

// idFormat gives a call an id in the format of the provider, and removes the id of an item that has a foreign one.
func idFormat(e *edit) bool {
	if e.violation.Detail == "item_prefix" {
		e.remove(e.message(e.violation.Message) + "/id")
		e.say("removes the id of the item, which is not the provider's own")
		return true
	}
	c := e.callWith(func(*check.PairedCall) bool { return true })
	return c != nil && e.rename(c, e.newID(c.Call.ID), "an id in the provider's format")
}

// misnamedID moves the id of a call, in the Interactions API, from call_id to id, and that of a reply from id to call_id. A call that
// has both keeps its id.
func misnamedID(e *edit) bool {
	i, from, to := e.violation.Message, e.dialect.Places.ReplyID, e.dialect.Places.CallID
	if e.target.Dialect != wire.Interactions {
		return false
	}
	reply := e.request.Messages[i].Item == facts.ItemReply
	if reply {
		from, to = to, from
	}
	id, other := e.raw(i, from), e.raw(i, to)
	switch {
	case id == nil:
		return false
	case reply && (other != nil || !slices.ContainsFunc(e.pairs.Calls, func(c check.PairedCall) bool { return bytes.Equal(id, quote(c.Call.ID)) })):
		return false // the id of the reply itself
	case other != nil:
		e.remove(e.message(i) + from)
		e.say("removes %s, because the call has an %s", from[1:], to[1:])
		if !bytes.Equal(id, other) {
			e.lose("%s of message %d", from[1:], i)
		}
	default:
		e.move(e.message(i)+from, e.message(i)+to)
		e.say("renames %s to %s", from[1:], to[1:])
	}
	return true
}

// duplicateID gives the second of two calls with one id an id of its own, and removes it if it is the same call without a
// reply of its own.
func duplicateID(e *edit) bool {
	var c *check.PairedCall
	for i := range e.pairs.Calls { // the last one, because several may have the id
		if x := &e.pairs.Calls[i]; x.Message == e.violation.Message && string(x.ID) == e.violation.ToolCallID && x.Again >= 0 {
			c = x
		}
	}
	if c == nil {
		return false
	}
	earlier := 0 // calls of the group with the id before c
	same := false
	g := &e.pairs.Groups[c.Group]
	for i := g.First; i < g.Last && &e.pairs.Calls[i] != c; i++ {
		if x := &e.pairs.Calls[i]; bytes.Equal(x.ID, c.ID) {
			earlier++
			same = same || bytes.Equal(x.Name, c.Name) && x.ArgsHash == c.ArgsHash && x.ArgsBytes == c.ArgsBytes
		}
	}
	var own *check.Reply // the reply of the group at the same place as c among those with the id
	for i := range e.pairs.Replies {
		r := &e.pairs.Replies[i]
		if r.Group != c.Group || !bytes.Equal(r.ID, c.ID) {
			continue
		}
		if earlier--; earlier == -1 {
			own = r
		}
	}
	if own == nil && same {
		return e.removeCall(c, "a call that is there twice")
	}
	id := e.newID(c.Call.ID)
	if own != nil {
		e.renameReply(own, id)
	}
	return e.renameCall(c, id, "an id of its own")
}

// duplicateItem removes an item that is there twice, and only its id if the items differ.
func duplicateItem(e *edit) bool {
	i := e.violation.Message
	m := &e.request.Messages[i]
	for j := range i {
		x := &e.request.Messages[j]
		if !bytes.Equal(x.ID, m.ID) {
			continue
		}
		call := len(m.Calls) == 1 && len(x.Calls) == 1 && bytes.Equal(m.Calls[0].ID, x.Calls[0].ID)
		if m.Hash == x.Hash || call || m.Item == facts.ItemReasoning {
			e.remove(e.message(i))
			e.say("removes the second copy of item %s", quoteName(m.ID))
			return true
		}
	}
	e.remove(e.message(i) + "/id")
	e.say("removes the id %s, which another item has", quoteName(m.ID))
	return true
}

// functionName replaces the characters of a function name that the provider refuses.
func functionName(e *edit) bool {
	name := []byte(e.violation.ToolName)
	legal := bytes.Clone(name[:min(len(name), 64)])
	for i, c := range legal {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			legal[i] = '_'
		}
	}
	gemini := e.target.Dialect == wire.Gemini || e.target.Dialect == wire.Interactions || e.target.Variant == wire.GeminiOpenAI
	if len(legal) == 0 || gemini && (legal[0] < 'A' || legal[0] == '-') {
		legal = append([]byte("_"), legal[:min(len(legal), 63)]...)
	}
	if e.violation.Message < 0 {
		return e.renameTool(name, legal)
	}
	changed := false
	for i := len(e.pairs.Calls) - 1; i >= 0; i-- {
		c := &e.pairs.Calls[i]
		if c.Message != e.violation.Message || !bytes.Equal(c.Name, name) {
			continue
		}
		for j := range e.pairs.Replies {
			if r := &e.pairs.Replies[j]; r.Call == i && e.dialect.Pairing.Names {
				if at, ok := e.replyAt(r); ok {
					e.set(at, "/functionResponse/name", quote(legal))
				}
			}
		}
		if at, ok := e.callAt(c); ok {
			e.set(at, e.dialect.Places.Function, quote(legal))
			changed = true
		}
	}
	e.say("writes the function's name as %s", legal)
	return changed
}

// renameTool renames a declared tool.
func (e *edit) renameTool(name, legal []byte) bool {
	for pointer, tool := range e.tools() {
		for _, member := range [...]string{"/function/name", "/name", "/toolSpec/name"} {
			if v := value(tool, member); string(v) == string(quote(name)) {
				e.replace(pointer+member, quote(legal))
				e.say("declares the function as %s; the agent must map the name back when the model calls it", legal)
				return true
			}
		}
	}
	return false
}
