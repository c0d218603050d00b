package records

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// A Message is a message of any dialect.
type Message struct {
	Role  string // the type of an item of the Responses API without a role
	Parts []Part // texts, reasoning, calls and replies in the order of the message; the calls of a chat message are last
}

// A PartKind is the kind of a Part.
type PartKind string

// Kinds of parts.
const (
	Text      PartKind = "text"
	Reasoning PartKind = "reasoning"
	Call      PartKind = "call"
	Reply     PartKind = "reply"
	Other     PartKind = "other" // an image, a document, a part of an unknown type
)

// A Part is one part of a message.
type Part struct {
	Kind PartKind
	ID   string // id of the call, in a call and in a reply; "" if the dialect has none
	Name string // function name of a call, type of another part
	Text string // text, arguments of a call, content of a reply; JSON unless it was a string

	Empty  bool // the text is null, an empty string or an empty list; Text is its JSON
	String bool // Text was a string
}

// Model reports whether the message was written by a model rather than by the agent.
func (m *Message) Model() bool {
	switch m.Role {
	case "assistant", "model", "function_call", "custom_tool_call", "reasoning", "thought":
		return true
	}
	return false
}

// Calls returns the calls of the message.
func (m *Message) Calls() []Part { return m.kind(Call) }

// Replies returns the replies of the message.
func (m *Message) Replies() []Part { return m.kind(Reply) }

func (m *Message) kind(k PartKind) (all []Part) {
	for _, p := range m.Parts {
		if p.Kind == k {
			all = append(all, p)
		}
	}
	return all
}

// Said returns the texts of the message, joined by line feeds.
func (m *Message) Said() string {
	var all []string
	for _, p := range m.kind(Text) {
		if !p.Empty {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

// ParseMessage reads a message or an item of any dialect; ok is false if raw is not an object.
func ParseMessage(raw []byte) (m Message, ok bool) {
	var f Fields
	if json.Unmarshal(raw, &f) != nil || f == nil {
		return m, false
	}
	if m.Role = f.Text("role"); m.Role == "" {
		m.Role = f.Text("type")
	}
	for _, key := range []string{"reasoning_content", "reasoning"} {
		if f[key] != nil {
			m.add(Reasoning, "", "", f[key])
		}
	}
	if m.item(f) || m.step(f, raw) {
		return m, true
	}
	switch id := f.Label("tool_call_id"); {
	case id != "" || m.Role == "tool" || m.Role == "function":
		m.reply(id, f.Text("name"), f["content"])
	default:
		m.content(f["content"])
	}
	m.content(f["parts"])
	var calls []Fields
	_ = json.Unmarshal(f["tool_calls"], &calls) // another type has no calls
	for _, c := range calls {
		called, arguments := c.Object("function"), "arguments"
		if c.Has("custom") {
			called, arguments = c.Object("custom"), "input"
		}
		m.add(Call, c.Label("id"), called.Text("name"), called[arguments])
	}
	if c := f.Object("function_call"); c != nil {
		m.add(Call, "", c.Text("name"), c["arguments"])
	}
	return m, true
}

// item reads an item of the Responses API that is not a message, and reports whether f is one.
func (m *Message) item(f Fields) bool {
	switch t := f.Text("type"); {
	case t == "function_call":
		m.add(Call, cmp.Or(f.Label("call_id"), f.Label("id")), f.Text("name"), f["arguments"])
	case t == "custom_tool_call":
		m.add(Call, f.Label("call_id"), f.Text("name"), f["input"])
	case strings.HasSuffix(t, "_call_output"):
		m.reply(f.Label("call_id"), "", f["output"])
	case t == "reasoning" && f.Text("role") == "":
		m.texts(Reasoning, f["summary"])
		m.texts(Reasoning, f["content"])
		if len(m.Parts) == 0 {
			m.Parts = append(m.Parts, Part{Kind: Reasoning, Text: "(encrypted)"})
		}
	default:
		return false
	}
	return true
}

// step reads a step of the Interactions API that is no item, and reports whether f is one.
func (m *Message) step(f Fields, raw []byte) bool {
	if f.Text("role") != "" {
		return false
	}
	switch f.Text("type") {
	case "user_input":
		m.Role = "user"
		m.content(f["content"])
	case "model_output":
		m.Role = "model"
		m.content(f["content"])
	case "function_result":
		m.reply(f.Label("call_id"), f.Text("name"), f["result"])
	case "thought":
		if m.texts(Reasoning, f["summary"]); len(m.Parts) == 0 {
			m.Parts = append(m.Parts, Part{Kind: Reasoning, Text: "(encrypted)"})
		}
	case "text", "image", "audio", "document", "video": // a content in place of a step
		m.Role = "user"
		m.part(raw)
	default:
		return false
	}
	return true
}

// content reads a string or a list of parts.
func (m *Message) content(raw json.RawMessage) {
	if raw == nil {
		return
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		m.add(Text, "", "", raw)
		return
	}
	for _, p := range parts {
		m.part(p)
	}
}

// part reads one part of a content list.
func (m *Message) part(raw json.RawMessage) {
	var p Fields
	if json.Unmarshal(raw, &p) != nil || p == nil {
		m.add(Text, "", "", raw)
		return
	}
	switch t := p.Text("type"); {
	case p.Has("functionCall"):
		c := p.Object("functionCall")
		m.add(Call, c.Label("id"), c.Text("name"), c["args"])
	case p.Has("functionResponse"):
		r := p.Object("functionResponse")
		m.add(Reply, r.Label("id"), r.Text("name"), r["response"])
	case p.Object("toolUse").Text("type") == "server_tool_use": // the provider runs the tool
		m.Parts = append(m.Parts, Part{Kind: Other, Name: p.Object("toolUse").Text("name"), Text: string(raw)})
	case p.Has("toolUse"):
		c := p.Object("toolUse")
		m.add(Call, c.Label("toolUseId"), c.Text("name"), c["input"])
	case p.Has("toolResult"):
		r := p.Object("toolResult")
		m.reply(r.Label("toolUseId"), "", r["content"])
	case p.Has("reasoningContent"):
		m.add(Reasoning, "", "", p.Object("reasoningContent").Object("reasoningText")["text"])
	case t == "tool_use":
		m.add(Call, p.Label("id"), p.Text("name"), p["input"])
	case t == "tool_result":
		m.reply(p.Label("tool_use_id"), "", p["content"])
	case t == "thinking":
		m.add(Reasoning, "", "", p["thinking"])
	case p["text"] != nil && string(p["thought"]) == "true":
		m.add(Reasoning, "", "", p["text"])
	case p["text"] != nil:
		m.add(Text, "", "", p["text"])
	case p["refusal"] != nil:
		m.add(Text, "", "", p["refusal"])
	default:
		if t == "" {
			for key := range p {
				t = max(t, key) // such as inlineData
			}
		}
		m.Parts = append(m.Parts, Part{Kind: Other, Name: t, Text: string(raw)})
	}
}

// texts adds a part for each text in a list.
func (m *Message) texts(kind PartKind, raw json.RawMessage) {
	var parts []Fields
	_ = json.Unmarshal(raw, &parts) // another type has no texts
	for _, p := range parts {
		m.add(kind, "", "", p["text"])
	}
}

// reply adds a reply whose content is a string, any other value, or a list of parts, whose texts are joined.
func (m *Message) reply(id, name string, content json.RawMessage) {
	var parts []Fields
	if json.Unmarshal(content, &parts) != nil || len(parts) == 0 || parts[0] == nil {
		m.add(Reply, id, name, content)
		return
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		switch {
		case p["text"] != nil:
			texts[i] = string(Unquote(p["text"]))
		case p["json"] != nil:
			texts[i] = string(p["json"])
		default:
			texts[i] = "[" + p.Text("type") + "]"
		}
	}
	m.Parts = append(m.Parts, Part{Kind: Reply, ID: id, Name: name, Text: strings.Join(texts, "\n"), String: true})
}

func (m *Message) add(kind PartKind, id, name string, value json.RawMessage) {
	p := Part{Kind: kind, ID: id, Name: name}
	switch v := string(bytes.TrimSpace(value)); v {
	case "", "null", `""`, "[]":
		p.Text, p.Empty = v, true
	default:
		p.String = v[0] == '"'
		p.Text = string(Unquote(value))
	}
	m.Parts = append(m.Parts, p)
}
