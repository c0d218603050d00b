package repair

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// calls returns the member of a message whose elements include its calls; "" if a call is a message.
func (f *fixing) calls() string {
	switch {
	case f.dialect.Pairing.Blocks:
		return f.dialect.Places.Parts
	case f.dialect.Pairing.Items:
		return ""
	}
	return f.dialect.Words.Call
}

// An element is the place of a call or reply.
type element struct {
	message int
	within  string // JSON pointer in the message; empty if it is the message
	index   int    // index among the parts of the message
}

// element finds the element of a member of message i that contains the byte at offset of the body.
func (e *edit) element(i int, member string, offset int) (at element, ok bool) {
	if member == "" {
		return element{message: i}, true
	}
	m := &e.request.Messages[i]
	raw := e.body[m.Start:m.End]
	list, _, ok := find(raw, "/"+member)
	if !ok {
		return at, false
	}
	n := 0
	for c := range children(raw, list.value) {
		if m.Start+c.start <= offset && offset < m.Start+c.end {
			return element{i, "/" + member + "/" + strconv.Itoa(n), n}, true
		}
		n++
	}
	return at, false
}

func (e *edit) callAt(c *check.PairedCall) (element, bool) {
	return e.element(c.Message, e.calls(), c.Start)
}

func (e *edit) replyAt(r *check.Reply) (element, bool) {
	if !e.dialect.Pairing.Blocks {
		return element{message: r.Message}, true
	}
	return e.element(r.Message, e.dialect.Places.Parts, r.Start)
}

// pointer returns the JSON pointer of an element.
func (e *edit) pointer(at element) string { return e.message(at.message) + at.within }

// member returns the pointer of a member of an element, such as /functionCall/id. Gemini also accepts function_call.
func (e *edit) member(at element, pointer string) string {
	if e.target.Dialect == wire.Gemini {
		camel, rest, _ := strings.Cut(pointer[1:], "/")
		snake := strings.NewReplacer("C", "_c", "R", "_r").Replace(camel)
		if e.raw(at.message, at.within+"/"+camel) == nil && e.raw(at.message, at.within+"/"+snake) != nil {
			pointer = "/" + snake + "/" + rest
		}
	}
	return at.within + pointer
}

// set replaces or adds a member of an element.
func (e *edit) set(at element, pointer string, v []byte) {
	within := e.member(at, pointer)
	if e.raw(at.message, within) != nil {
		e.replace(e.message(at.message)+within, v)
	} else {
		e.add(e.message(at.message)+within, v)
	}
}

// call returns the call that the violation is about.
func (e *edit) call() *check.PairedCall {
	for i := range e.pairs.Calls {
		if c := &e.pairs.Calls[i]; c.Message == e.violation.Message && c.Part == e.violation.Part {
			return c
		}
	}
	return nil
}

// callWith returns the call of the violation's message with the id and function of the violation, for rules that do not report
// its part. Several calls may have them: only one with the defect counts.
func (e *edit) callWith(defect func(c *check.PairedCall) bool) *check.PairedCall {
	for i := range e.pairs.Calls {
		c := &e.pairs.Calls[i]
		same := string(c.ID) == e.violation.ToolCallID || string(c.Call.ID) == e.violation.ToolCallID
		if c.Message == e.violation.Message && same && string(c.Name) == e.violation.ToolName && defect(c) {
			return c
		}
	}
	return nil
}

// reply returns the reply that the violation is about.
func (e *edit) reply() *check.Reply {
	for i := range e.pairs.Replies {
		if r := &e.pairs.Replies[i]; r.Message == e.violation.Message && r.Part == e.violation.Part {
			return r
		}
	}
	return nil
}

// replyWith is like callWith for a reply.
func (e *edit) replyWith(defect func(r *check.Reply) bool) *check.Reply {
	for i := range e.pairs.Replies {
		if r := &e.pairs.Replies[i]; r.Message == e.violation.Message && string(r.ID) == e.violation.ToolCallID && defect(r) {
			return r
		}
	}
	return nil
}

// textPart returns a text as a part of a user message.
func (f *fixing) textPart(text string) []byte { return fill(f.dialect.Texts.Part, "$text", text) }

// userMessage returns a user message with a text.
func (f *fixing) userMessage(text string) []byte {
	if f.dialect.Texts.Listed {
		return f.userParts(f.textPart(text))
	}
	return join(`{"role":"user","content":`, quote(text), `}`)
}

// userParts returns a user message with parts.
func (f *fixing) userParts(parts ...[]byte) []byte {
	return join(`{"role":"user","`, f.dialect.Places.Parts, `":[`, bytes.Join(parts, []byte(",")), `]}`)
}

// fill replaces names in a text of wire.Texts by strings; values follow their names.
func fill(text string, values ...string) []byte {
	for i := 1; i < len(values); i += 2 {
		values[i] = string(quote(values[i]))
	}
	return []byte(strings.NewReplacer(values...).Replace(text))
}

// noReply is the text of a reply that takes the place of a missing one.
const noReply = "Error: the result of this tool call is missing. It was not stored."

// errorReply returns a reply to c, as a part or as a message, that says that the result is missing; nil if the dialect has no
// such reply for the type of the call.
func (e *edit) errorReply(c *check.PairedCall) []byte {
	reply := e.dialect.Texts.Reply
	switch {
	case e.target.Native:
		reply = `{"role":"tool","tool_name":$name,"content":$text}`
	case e.dialect.Pairing.Items && c.Type == facts.TypeCustom:
		reply = strings.Replace(reply, "function_call", "custom_tool_call", 1)
	case e.dialect.Pairing.Items && c.Type != facts.TypeFunction:
		return nil
	case e.dialect.Pairing.Names && len(c.Call.ID) == 0:
		reply = strings.Replace(reply, `"id":$id,`, "", 1)
	}
	return fill(reply, "$id", string(c.Call.ID), "$name", string(c.Name), "$text", noReply)
}

// join concatenates strings and byte slices.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// quoteName returns an id or a name for a sentence.
func quoteName(b []byte) string {
	if len(b) == 0 {
		return "without id"
	}
	return strings.Trim(strconv.Quote(string(b[:min(len(b), 80)])), `"`)
}
