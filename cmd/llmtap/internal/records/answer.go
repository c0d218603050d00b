package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// Answer returns the messages of an answer as the next request should contain them: one message, or the output items of the
// Responses API. The messages of a unary answer are slices of body. Those of a stream are assembled: texts, reasoning and
// calls, without other fields. It returns nil if body contains no answer of dialect d.
func Answer(d wire.Dialect, body []byte) []json.RawMessage {
	row := dialect.Of(d)
	if row == nil {
		return nil
	}
	body = bytes.TrimSpace(body)
	var whole Fields
	if json.Unmarshal(body, &whole) == nil {
		return unary(row, whole)
	}
	var s assembly
	events(body, func(event []byte) {
		var f Fields
		switch {
		case json.Unmarshal(event, &f) != nil:
		case f.Has("event_type"):
			s.step(f)
		case row.Items != "":
			s.item(f)
		default:
			s.event(row, f)
		}
	})
	for i, step := range s.steps {
		if text, ok := step["arguments"].(string); ok && json.Valid([]byte(text)) {
			step["arguments"] = json.RawMessage(text)
		}
		s.items = append(s.items, encode(s.steps[i]))
	}
	if row.Items != "" {
		return s.items
	}
	var r facts.Response
	if facts.ScanResponse(d, "", body, &r) != nil || r.Malformed {
		return nil
	}
	for _, c := range r.Calls {
		s.Calls = append(s.Calls, dialect.Call{ID: c.ID, Name: c.Name, Args: c.Arguments})
	}
	return []json.RawMessage{encode(row.Assemble(&s.Assembly))}
}

func unary(d *dialect.Dialect, f Fields) []json.RawMessage {
	var message json.RawMessage
	switch {
	case d.Items != "":
		var items []json.RawMessage
		_ = json.Unmarshal(f.at(d.Items), &items) // another type has no items
		return items
	case d.Answers != nil:
		message = f.first(d.Answers)
	case f["content"] != nil:
		message = encode(map[string]any{"role": "assistant", "content": f["content"]})
	}
	if len(message) == 0 || message[0] != '{' {
		return nil
	}
	return []json.RawMessage{message}
}

// first returns the first value that one of the pointers finds.
func (f Fields) first(pointers []string) json.RawMessage {
	for _, p := range pointers {
		if v := f.at(p); v != nil {
			return v
		}
	}
	return nil
}

// at returns the value at a JSON pointer, in which 0 is the only index; nil if there is none.
func (f Fields) at(pointer string) json.RawMessage {
	key, rest, deeper := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if !deeper {
		return f[key]
	}
	if inner, ok := strings.CutPrefix(rest, "0/"); ok {
		var all []Fields
		if json.Unmarshal(f[key], &all) != nil || len(all) == 0 {
			return nil
		}
		return all[0].at(inner)
	}
	return f.Object(key).at(rest)
}

// events calls do with the JSON values of a stream: server-sent events, JSON lines, a JSON array, or AWS's event stream.
func events(body []byte, do func(event []byte)) {
	var array []json.RawMessage
	switch {
	case sse.IsStream(body):
		for e := range sse.Events(body) {
			do(e.Data)
		}
	case json.Unmarshal(body, &array) == nil:
		for _, v := range array {
			do(v)
		}
	case eventstream.HasFrame(body):
		for m, err := range eventstream.Messages(body) {
			if err != nil {
				return
			}
			do(payload(m))
		}
	default:
		for line := range bytes.Lines(body) {
			do(line)
		}
	}
}

// payload returns the event in a frame: its payload, which on Bedrock may contain an event of another API in base64.
func payload(m eventstream.Message) []byte {
	var f struct{ Bytes string }
	if json.Unmarshal(m.Payload, &f) == nil && f.Bytes != "" {
		if inner, err := base64.StdEncoding.DecodeString(f.Bytes); err == nil {
			return inner
		}
	}
	return m.Payload
}

// An assembly collects the texts of a stream. The calls are collected by package facts.
type assembly struct {
	dialect.Assembly
	items []json.RawMessage
	steps []map[string]any // of the Interactions API, in order of their index
}

// item reads an event of the Responses API.
func (s *assembly) item(f Fields) {
	switch f.Text("type") {
	case "response.output_item.done":
		s.items = append(s.items, f["item"])
	case "response.completed", "response.incomplete":
		var all []json.RawMessage
		if json.Unmarshal(f.Object("response")["output"], &all) == nil && len(all) >= len(s.items) {
			s.items = all
		}
	}
}

// step reads an event of the Interactions API. A fragment extends a member of the step with its index, whose first part is in the
// event that starts it.
func (s *assembly) step(f Fields) {
	if f.Text("event_type") == "step.start" {
		var step map[string]any
		_ = json.Unmarshal(f["step"], &step) // another type has no members
		s.steps = append(s.steps, step)
		return
	}
	var index int
	if d := f.Object("delta"); d != nil && json.Unmarshal(f["index"], &index) == nil && index >= 0 && index < len(s.steps) && s.steps[index] != nil {
		extend(s.steps[index], d)
	}
}

func extend(step map[string]any, d Fields) {
	content := map[string]any{"type": "text", "text": d.Text("text")}
	switch d.Text("type") {
	case "text":
		list, _ := step["content"].([]any)
		if n := len(list); n > 0 {
			if last, _ := list[n-1].(map[string]any); last != nil && last["type"] == "text" {
				before, _ := last["text"].(string)
				last["text"] = before + d.Text("text")
				return
			}
		}
		step["content"] = append(list, content)
	case "thought_summary":
		list, _ := step["summary"].([]any)
		step["summary"] = append(list, d["content"])
	case "thought_signature":
		step["signature"] = d.Text("signature")
	case "arguments_delta":
		before, _ := step["arguments"].(string) // an object until the first fragment
		step["arguments"] = before + d.Text("arguments")
	}
}

// event reads an event of any other API.
func (s *assembly) event(d *dialect.Dialect, f Fields) {
	s.fragment(f.first(d.Fragments))
	add := func(b *strings.Builder, pointers []string) {
		for _, p := range pointers {
			b.WriteString(text(f.at(p)))
		}
	}
	add(&s.Text, d.Texts)
	add(&s.Thought, d.Thoughts)
	add(&s.Signature, d.Signatures)
}

// fragment reads a part of a chat message or of a Gemini content.
func (s *assembly) fragment(raw json.RawMessage) {
	var f Fields
	m, _ := ParseMessage(raw)
	_ = json.Unmarshal(raw, &f) // m is empty too
	for _, key := range []string{"reasoning_content", "reasoning"} {
		if f.Has(key) && s.ThoughtKey == "" {
			s.ThoughtKey = key
		}
	}
	for _, p := range m.Parts {
		switch {
		case p.Empty:
		case p.Kind == Text:
			s.Text.WriteString(p.Text)
		case p.Kind == Reasoning:
			s.Thought.WriteString(p.Text)
		}
	}
}

// encode returns v as JSON without escaping <, > and &.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // no error: v contains strings, maps, lists and valid JSON
	return bytes.TrimSpace(b.Bytes())
}
