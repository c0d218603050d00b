package dialect

import (
	"encoding/json"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Object is a JSON object of a body.
type Object = map[string]any

// A Dialect composes and locates the parts of bodies.
type Dialect struct {
	Name wire.Dialect
	SDK  SDK

	Path     func(provider, model string) string      // URL path of a call
	System   func(text string) (member string, v any) // system prompt of a request; nil if it is a message
	Response func(r *Response) Object                 // body of an answer
	Chunk    func(response Object)                    // changes a response to the only event of its stream; nil if it has several

	message func(m *Message, answer bool) []Object // nil if messages consist of the following parts
	said    func(text string) Object               // a text as SDKs require it; nil if message returns that
	text    func(text string) Object
	thought func(text, signature string) Object
	call    func(id any, name string, arguments any) Object // nil is no id
	reply   func(id, text string) Object

	Answers   []string // JSON pointers of the message in an answer, the first that exists; nil if the answer is the message
	Fragments []string // the same for the message in an event of a stream, if an event has a message
	Items     string   // JSON pointer of the messages in an answer with several
	// JSON pointers of the texts in an event of a stream.
	Texts, Thoughts, Signatures []string
}

// SDK is how official clients find the provider: variables with its URL and key, and the path that the URL contains.
type SDK struct{ URL, Key, Path string }

// A Message is a message of a request or an answer. A reply to a tool call is a message of its own.
type Message struct {
	Role    string
	Text    *string // nil if it is unknown
	Calls   []Call
	ReplyTo string // tool call id; "" if the message is no reply
	IsReply bool
}

// A Call is a call in a message. Its arguments are JSON, or "" if they are unknown.
type Call struct{ ID, Name, Args string }

// A Response is the data of an answer.
type Response struct {
	ID, Model, Finish string // "" if unknown
	Messages          []any  // the first only, in dialects whose answer is one message
	Tokens            *Tokens
	Example           bool // has no id, model and tokens of its own, but what SDKs require
}

// Tokens are the tokens of an exchange. Input includes Cached.
type Tokens struct{ Input, Cached, Output int64 }

var rows = [...]*Dialect{&chat, &responses, &anthropic, &gemini, &bedrock, &cohere, &interactions}

// Of returns the row of d; nil for other dialects.
func Of(d wire.Dialect) *Dialect {
	for _, row := range rows {
		if row.Name == d {
			return row
		}
	}
	return nil
}

// Message returns m as messages of a request, or of an answer.
func (d *Dialect) Message(m *Message, answer bool) []Object {
	if d.message != nil {
		return d.message(m, answer)
	}
	parts, calls := []Object{}, m.Calls
	if m.IsReply {
		parts, calls = append(parts, d.reply(m.ReplyTo, m.Said())), nil
	} else if m.Text != nil {
		parts = append(parts, d.text(*m.Text))
	}
	for _, c := range calls {
		var v Object
		if json.Unmarshal([]byte(c.Args), &v) != nil || v == nil {
			v = Object{}
		}
		parts = append(parts, d.call(c.ID, c.Name, v))
	}
	if answer || m.model() {
		return []Object{d.model(parts)}
	}
	return []Object{{"role": "user", d.Name.Descriptor().Places.Parts: parts}}
}

// Answer returns the messages of an answer with a text.
func (d *Dialect) Answer(text string) []any {
	if d.said != nil {
		return []any{d.said(text)}
	}
	return d.Answered(Message{Text: &text})
}

// Answered returns the messages of an answer.
func (d *Dialect) Answered(messages ...Message) []any {
	all := []any{}
	for i := range messages {
		for _, m := range d.Message(&messages[i], true) {
			all = append(all, m)
		}
	}
	return all
}

// model returns a message of the model with parts.
func (d *Dialect) model(parts []Object) Object {
	return Object{"role": d.Name.Descriptor().Words.Assistant, d.Name.Descriptor().Places.Parts: parts}
}

// An Assembly is what a stream contains of a message.
type Assembly struct {
	Text, Thought, Signature strings.Builder
	ThoughtKey               string // member of a chat message with the thought; "" if it has none
	Calls                    []Call
}

// Assemble returns the message of a stream.
func (d *Dialect) Assemble(a *Assembly) Object {
	text, thought := a.Text.String(), a.Thought.String()
	if d.call == nil {
		m := Object{"role": "assistant", "content": text}
		if a.ThoughtKey != "" {
			m[a.ThoughtKey] = thought
		}
		var calls []Object
		for _, c := range a.Calls {
			calls = append(calls, Object{"id": c.ID, "type": "function", "function": Object{"name": c.Name, "arguments": c.Args}})
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		return m
	}
	var parts []Object
	if thought != "" {
		parts = append(parts, d.thought(thought, a.Signature.String()))
	}
	if text != "" {
		parts = append(parts, d.text(text))
	}
	for _, c := range a.Calls {
		var id, arguments any = c.ID, c.Args
		if c.ID == "" && d.Name.Descriptor().Pairing.Names {
			id = nil
		}
		if json.Valid([]byte(c.Args)) {
			arguments = json.RawMessage(c.Args)
		}
		parts = append(parts, d.call(id, c.Name, arguments))
	}
	return d.model(parts)
}

func (m *Message) model() bool { return m.Role == "assistant" || m.Role == "model" }

// Said returns the text of m; "" if it is unknown.
func (m *Message) Said() string {
	if m.Text == nil {
		return ""
	}
	return *m.Text
}

// head returns a response with id and model.
func (r *Response) head(example string) Object {
	if r.Example {
		return Object{"id": example, "model": "m"}
	}
	return optional(Object{}, "id", r.ID, "model", r.Model)
}

// message returns the only message.
func (r *Response) message() any {
	if len(r.Messages) == 0 {
		return nil
	}
	return r.Messages[0]
}

// optional adds the members to b that are not "".
func optional(b Object, members ...string) Object {
	for ; len(members) > 1; members = members[2:] {
		if members[1] != "" {
			b[members[0]] = members[1]
		}
	}
	return b
}
