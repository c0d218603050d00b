package repair

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// missingReply gives a call the reply that it lacks: an error that says so.
func missingReply(e *edit) bool {
	c := e.call()
	if e.violation.Detail == "server_tool" {
		if c = e.callWith(func(c *check.PairedCall) bool { return c.Reply >= 0 }); c == nil {
			return false
		}
		return e.rename(c, e.newID(c.Call.ID), "an id of the agent's own")
	}
	if c == nil {
		return false
	}
	reply := e.errorReply(c)
	if reply == nil {
		return e.removeCall(c, "a call whose reply is missing")
	}
	e.placeReply(c, reply)
	e.say("adds an error as the reply to %s", quoteName(c.ID))
	return true
}

// placeReply adds a reply to c behind the replies of its group.
func (e *edit) placeReply(c *check.PairedCall, reply []byte) {
	end := e.pairs.Groups[c.Group].End
	switch at, ok := e.lastReply(c.Group); {
	case !e.dialect.Pairing.Blocks:
		e.add(e.message(end), reply)
	case e.splits(c):
		e.add(e.message(c.Message+1), e.userParts(reply))
	case ok:
		at.index++
		e.add(e.message(at.message)+"/"+e.dialect.Places.Parts+"/"+itoa(at.index), reply)
	case end < len(e.request.Messages) && e.request.Messages[end].Role == facts.RoleUser && e.prepend(end, reply):
	default:
		e.add(e.message(end), e.userParts(reply))
	}
}

// lastReply returns the place of the last reply that answers a call of the group in it.
func (e *edit) lastReply(group int) (at element, ok bool) {
	for i := range e.pairs.Replies {
		if r := &e.pairs.Replies[i]; r.Status == check.ReplyMatched && r.Group == group {
			if last, found := e.replyAt(r); found {
				at, ok = last, true
			}
		}
	}
	return at, ok
}

// prepend inserts parts at the beginning of message i; false if its content is neither parts nor a text.
func (e *edit) prepend(i int, parts ...[]byte) bool {
	content := e.raw(i, "/"+e.dialect.Places.Parts)
	switch {
	case len(content) == 0:
		return false
	case content[0] == '[':
		for n, part := range parts {
			e.add(e.message(i)+"/"+e.dialect.Places.Parts+"/"+itoa(n), part)
		}
	case content[0] == '"':
		e.replace(e.message(i)+"/"+e.dialect.Places.Parts, join(`[`, bytes.Join(parts, []byte(",")), `,{"type":"text","text":`, content, `}]`))
	default:
		return false
	}
	return true
}

// orphan gives a reply its call back if an answer contains it, and else removes the reply.
func orphan(e *edit) bool {
	if e.violation.Detail == "server_tool" {
		return e.removeServerResult(e.violation.Message)
	}
	r := e.reply()
	return r != nil && (e.restore(r) || e.removeReply(r, "a reply without its call"))
}

// removeServerResult removes the first result in message i of a tool that the provider ran, if its call is not before it.
func (e *edit) removeServerResult(i int) bool {
	if e.dialect.Pairing.Items {
		e.remove(e.message(i))
		e.say("removes the result of a tool that the provider ran, without its call")
		e.lose("the result in step %d", i)
		return true
	}
	var parts []struct {
		Type, ID     string
		ToolUseID    string               `json:"tool_use_id"`
		ToolCall     *struct{ ID string } `json:"toolCall"` // of Gemini
		ToolResponse *struct{ ID string } `json:"toolResponse"`
	}
	if json.Unmarshal(e.raw(i, "/"+e.dialect.Places.Parts), &parts) != nil {
		return false
	}
	uses := map[string]bool{}
	for n, p := range parts {
		kind, id := p.Type, p.ToolUseID
		switch {
		case p.ToolCall != nil:
			uses[p.ToolCall.ID] = true
			continue
		case strings.HasSuffix(kind, "_tool_use"):
			uses[p.ID] = true
			continue
		case p.ToolResponse != nil:
			kind, id = "toolResponse", p.ToolResponse.ID
		case !strings.HasSuffix(kind, "_tool_result"):
			continue
		}
		if uses[id] {
			continue
		}
		if at := e.message(i); len(parts) == 1 {
			e.remove(at)
		} else {
			e.remove(at + "/" + e.dialect.Places.Parts + "/" + itoa(n))
		}
		e.say("removes the result of a tool that the provider ran, without its call")
		e.lose("the %s %s in message %d", kind, quoteName([]byte(id)), i)
		return true
	}
	return false
}

// unknownID gives a reply the id of the call that it answers if that is certain.
func unknownID(e *edit) bool {
	r := e.reply()
	if r == nil {
		return false
	}
	c := e.unanswered(r)
	if a := e.answerWith(e.key(r.Reply)); a != nil {
		if c != nil && a.made(c, e.key(r.Reply)) { // the call has lost its id, not the reply
			return e.renameCall(c, string(r.ID), "the id that it has in the model's answer")
		}
		if e.restore(r) {
			return true
		}
	}
	if c == nil {
		return e.removeReply(r, "a reply without its call")
	}
	at, ok := e.replyAt(r)
	if !ok {
		return false
	}
	if e.dialect.Pairing.Names {
		e.set(at, "/functionResponse/name", quote(c.Name))
	} else {
		e.set(at, e.dialect.Places.ReplyID, quote(c.Call.ID))
	}
	e.say("sets the id of the reply to %s, the call that it answers", quoteName(c.ID))
	return true
}

// unanswered returns the call that r answers: if the group has as many calls without a reply as it has replies that match no
// call, they belong together in their order.
func (e *edit) unanswered(r *check.Reply) *check.PairedCall {
	if r.Group < 0 {
		return nil
	}
	g := &e.pairs.Groups[r.Group]
	var open []*check.PairedCall
	for i := g.First; i < g.Last; i++ {
		if c := &e.pairs.Calls[i]; c.Reply < 0 && (len(c.Call.ID) > 0 || e.dialect.Pairing.Names) {
			open = append(open, c)
		}
	}
	n, index := 0, -1
	for i := range e.pairs.Replies {
		x := &e.pairs.Replies[i]
		if x.Group != r.Group || x.Status != check.ReplyUnknown && x.Status != check.ReplyWithoutID {
			continue
		}
		if x == r {
			index = n
		}
		n++
	}
	if n != len(open) || index < 0 {
		return nil
	}
	return open[index]
}

// removeReply removes a reply, and an empty assistant message before it that says nothing without the call.
func (e *edit) removeReply(r *check.Reply, what string) bool {
	at, ok := e.replyAt(r)
	if !ok {
		return false
	}
	if e.dialect.Pairing.Blocks && e.request.Messages[r.Message].PartCount > 1 {
		e.remove(e.pointer(at))
	} else {
		e.remove(e.message(r.Message))
		alone := r.After == r.Message-1 && (r.Message+1 == len(e.request.Messages) || len(e.request.Messages[r.Message+1].Replies) == 0)
		if alone && r.After > 0 && e.saysNothing(r.After) {
			e.remove(e.message(r.After))
		}
	}
	e.say("removes %s", what)
	e.lose("the reply %s in message %d (%d bytes)", quoteName(r.ID), r.Message, r.ContentBytes)
	return true
}

// saysNothing reports whether message i is an assistant message without text, calls and reasoning.
func (e *edit) saysNothing(i int) bool {
	m := &e.request.Messages[i]
	empty := m.Content <= facts.Null || m.Content == facts.String && m.ContentBytes == 0 || m.Content == facts.Array && m.PartCount == 0
	return m.Role == facts.RoleAssistant && m.Item == facts.NoItem && empty && len(m.Calls) == 0 && m.Reasoning <= facts.Null
}

// removeCall removes a call, and its message if nothing else is in it.
func (e *edit) removeCall(c *check.PairedCall, what string) bool {
	m := &e.request.Messages[c.Message]
	at, ok := e.callAt(c)
	if !ok {
		return false
	}
	nothing := m.Content <= facts.Null || m.Content == facts.String && m.ContentBytes == 0
	switch {
	case e.dialect.Pairing.Items, e.dialect.Pairing.Blocks && m.PartCount == 1, !e.dialect.Pairing.Blocks && len(m.Calls) == 1 && nothing:
		e.remove(e.message(c.Message))
	case !e.dialect.Pairing.Blocks && len(m.Calls) == 1:
		e.remove(e.message(c.Message) + "/tool_calls")
	default:
		e.remove(e.pointer(at))
	}
	e.say("removes %s", what)
	e.lose("the call %s (%s) in message %d", quoteName(c.ID), quoteName(c.Name), c.Message)
	return true
}

// moveReply moves a reply that is late, or precedes its call, behind the other replies of its call's group. In dialects with
// blocks, it also moves the other replies of its message that belong there.
func moveReply(e *edit) bool {
	r := e.reply()
	if r == nil || r.Call < 0 {
		return false
	}
	c := &e.pairs.Calls[r.Call]
	next := e.pairs.Groups[c.Group].End // index after the group
	split := e.splits(c)
	if split {
		next = c.Message + 1
	}
	end := next
	if r.Message < next {
		end-- // without the message, the indices after it are one less
	}
	e.say("moves the reply behind its call %s", quoteName(r.ID))
	from := e.message(r.Message)
	if !e.dialect.Pairing.Blocks {
		e.move(from, e.message(end))
		return true
	}
	parts := e.repliesWith(r)
	if len(parts) == 0 {
		return false
	}
	var texts [][]byte
	for _, at := range parts {
		texts = append(texts, e.raw(at.message, at.within))
	}
	alone := e.request.Messages[r.Message].PartCount == len(parts)
	takeOut := func() {
		for _, at := range slices.Backward(parts) {
			e.remove(e.pointer(at))
		}
	}
	switch last, found := e.lastReply(c.Group); {
	case found && !split:
		for i, at := range parts {
			at.index -= i // those before it are gone
			e.move(from+"/"+e.dialect.Places.Parts+"/"+itoa(at.index), e.message(last.message)+"/"+e.dialect.Places.Parts+"/"+itoa(last.index+1+i))
		}
	case next < len(e.request.Messages) && next != r.Message && e.request.Messages[next].Role == facts.RoleUser && e.prepend(next, texts...):
		if !alone {
			takeOut()
		}
	case alone:
		e.move(from, e.message(end))
		return true
	case r.Message < next:
		e.add(e.message(next), e.userParts(texts...))
		takeOut()
	default:
		takeOut()
		e.add(e.message(next), e.userParts(texts...))
	}
	if alone {
		e.remove(from)
	}
	return true
}

// splits reports whether another assistant message of the turn follows the message of c. Most providers join the two, but not
// all, so replies to c belong between them.
func (e *edit) splits(c *check.PairedCall) bool {
	next := c.Message + 1
	return e.dialect.Pairing.Blocks && next < len(e.request.Messages) && e.request.Messages[next].Role == facts.RoleAssistant
}

// repliesWith returns the places of r and of the other replies in its message that are as late, or as early, as r and belong to
// the same place.
func (e *edit) repliesWith(r *check.Reply) (all []element) {
	c := &e.pairs.Calls[r.Call]
	for i := range e.pairs.Replies {
		x := &e.pairs.Replies[i]
		if x.Message != r.Message || x.Status != r.Status || x.Call < 0 {
			continue
		}
		if y := &e.pairs.Calls[x.Call]; y.Group != c.Group || e.splits(c) && y.Message != c.Message {
			continue
		}
		if at, ok := e.replyAt(x); ok {
			all = append(all, at)
		}
	}
	return all
}

// duplicateReply removes the second reply to a call, or the first if only that is an error.
func duplicateReply(e *edit) bool {
	r := e.reply()
	if r == nil || r.Call < 0 {
		return false
	}
	if i := e.pairs.Calls[r.Call].Reply; i >= 0 && e.pairs.Replies[i].IsError && !r.IsError {
		return e.removeReply(&e.pairs.Replies[i], "the first reply, which is an error")
	}
	return e.removeReply(r, "the second reply")
}

// repliesFirst moves the replies of a message before its other parts, or to the message with the other replies of the turn.
func repliesFirst(e *edit) bool {
	r := e.replyWith(func(r *check.Reply) bool { return r.Reply.After != 0 || e.violation.Detail == "spread" })
	if r == nil {
		return false
	}
	if e.violation.Detail == "spread" {
		first, ok := e.lastReplyBefore(r)
		at, found := e.replyAt(r)
		if !ok || !found {
			return false
		}
		e.move(e.pointer(at), e.message(first.message)+"/"+e.dialect.Places.Parts+"/"+itoa(first.index+1))
		if e.request.Messages[r.Message].PartCount == 1 {
			e.remove(e.message(r.Message))
		}
		e.say("moves the reply to the other replies of its turn")
		return true
	}
	n := 0
	for i := range e.pairs.Replies {
		x := &e.pairs.Replies[i]
		if x.Message != r.Message {
			continue
		}
		if at, ok := e.replyAt(x); ok {
			e.move(e.pointer(at), e.message(x.Message)+"/"+e.dialect.Places.Parts+"/"+itoa(n))
			n++
		}
	}
	e.say("moves the replies to the beginning of their message")
	return true
}

// lastReplyBefore returns the last reply of r's group in the first message that has replies of the group.
func (e *edit) lastReplyBefore(r *check.Reply) (at element, ok bool) {
	for i := range e.pairs.Replies {
		x := &e.pairs.Replies[i]
		if x.Group != r.Group || x.Message >= r.Message || ok && x.Message != at.message {
			continue
		}
		if found, is := e.replyAt(x); is {
			at, ok = found, true
		}
	}
	return at, ok
}

// An answer is a message of the model that Options.Answers contains.
type answer struct {
	raw      []byte
	facts    *facts.Request
	restored bool
}

// legacy converts a call and its reply from before tools.
func legacy(e *edit) bool {
	i := e.violation.Message
	if i < 0 {
		return false
	}
	switch m := &e.request.Messages[i]; {
	case e.violation.Detail == "null_function_call":
		e.remove(e.message(i) + "/function_call")
		e.say("removes function_call, which is null")
	case m.Role == facts.RoleFunction && i > 0 && e.legacyCall(i-1):
		e.convertLegacy(i-1, true)
	case m.Role == facts.RoleFunction:
		e.remove(e.message(i))
		e.say("removes a reply without its call")
		e.lose("the reply of %s in message %d", quoteName(m.Name), i)
	case !e.legacyCall(i):
		return false
	default:
		e.convertLegacy(i, i+1 < len(e.request.Messages) && e.request.Messages[i+1].Role == facts.RoleFunction)
	}
	return true
}

// legacyCall reports whether message i has a function_call.
func (e *edit) legacyCall(i int) bool {
	m := &e.request.Messages[i]
	return m.Fields&^m.NullFields&facts.FieldFunctionCall != 0 && len(m.Calls) == 0
}

// convertLegacy converts the function_call of message i to tool_calls, and the message after it to its reply.
func (e *edit) convertLegacy(i int, replied bool) {
	id := e.newID([]byte("call_" + itoa(i)))
	if replied {
		next := element{message: i + 1}
		e.replace(e.message(i+1)+"/role", quote("tool"))
		e.set(next, "/tool_call_id", quote(id))
		if e.raw(i+1, "/name") != nil {
			e.remove(e.message(i+1) + "/name")
		}
	}
	call := e.raw(i, "/function_call")
	e.remove(e.message(i) + "/function_call")
	e.set(element{message: i}, "/tool_calls", join(`[{"id":`, quote(id), `,"type":"function","function":`, call, `}]`))
	if m := &e.request.Messages[i]; m.Content == facts.Null && e.target.Variant != wire.OpenAI {
		e.replace(e.message(i)+"/content", quote(""))
	}
	e.say("converts function_call to tool_calls, and the function message to a tool message")
}
