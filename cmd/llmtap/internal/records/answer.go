package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// Answer returns the messages of an answer as the next request should contain them: one message, or the output items of the
// Responses API. The messages of a unary answer are slices of body. Those of a stream are assembled: texts, reasoning and
// calls, without other fields. It returns nil if body contains no answer of dialect d.
func Answer(d wire.Dialect, body []byte) []json.RawMessage {
	body = bytes.TrimSpace(body)
	var whole Fields
	if json.Unmarshal(body, &whole) == nil {
		return unary(d, whole)
	}
	var s assembly
	for event := range events(body) {
		var f Fields
		if json.Unmarshal(event, &f) != nil {
			continue
		}
		if d == wire.OpenAIResponses {
			s.item(f)
			continue
		}
		s.event(d, f)
	}
	if d == wire.OpenAIResponses {
		return s.items
	}
	var r facts.Response
	if facts.ScanResponse(d, "", body, &r) != nil || r.Malformed {
		return nil
	}
	return []json.RawMessage{s.message(d, r.Calls)}
}

func unary(d wire.Dialect, f Fields) []json.RawMessage {
	first := func(key string) Fields {
		var all []Fields
		if json.Unmarshal(f[key], &all) != nil || len(all) == 0 {
			return nil
		}
		return all[0]
	}
	var message json.RawMessage
	switch d {
	case wire.OpenAIChat:
		if message = first("choices")["message"]; message == nil {
			message = f["message"] // Ollama
		}
	case wire.Cohere:
		message = f["message"]
	case wire.Gemini:
		message = first("candidates")["content"]
	case wire.Bedrock:
		message = f.Object("output")["message"]
	case wire.Anthropic:
		if f["content"] != nil {
			message = encode(map[string]any{"role": "assistant", "content": f["content"]})
		}
	case wire.OpenAIResponses:
		var items []json.RawMessage
		_ = json.Unmarshal(f["output"], &items) // another type has no items
		return items
	case wire.Other:
	}
	if len(message) == 0 || message[0] != '{' {
		return nil
	}
	return []json.RawMessage{message}
}

// events yields the JSON values of a stream: server-sent events, JSON lines, a JSON array, or AWS's event stream.
func events(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		var array []json.RawMessage
		switch {
		case sse.IsStream(body):
			for e := range sse.Events(body) {
				if !yield(e.Data) {
					return
				}
			}
		case json.Unmarshal(body, &array) == nil:
			for _, v := range array {
				if !yield(v) {
					return
				}
			}
		case eventstream.HasFrame(body):
			for m, err := range eventstream.Messages(body) {
				if err != nil || !yield(payload(m)) {
					return
				}
			}
		default:
			for line := range bytes.Lines(body) {
				if !yield(line) {
					return
				}
			}
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
	text, reasoning, signature strings.Builder
	reasoningKey               string // of a chat message
	items                      []json.RawMessage
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

// event reads an event of any other API.
func (s *assembly) event(d wire.Dialect, f Fields) {
	delta := f.Object("delta")
	switch {
	case d == wire.Gemini:
		for _, m := range unary(d, f) { // each fragment looks like a whole answer
			s.fragment(m)
		}
	case d == wire.OpenAIChat && f.Has("choices"):
		var choices []struct{ Delta json.RawMessage }
		_ = json.Unmarshal(f["choices"], &choices) // another type has no fragments
		if len(choices) > 0 {
			s.fragment(choices[0].Delta)
		}
	case d == wire.OpenAIChat:
		s.fragment(f["message"]) // Ollama
	case d == wire.Cohere:
		message := delta.Object("message")
		s.text.WriteString(message.Object("content").Text("text"))
		s.reasoning.WriteString(message.Text("tool_plan"))
	case d == wire.Anthropic:
		block := f.Object("content_block")
		s.text.WriteString(block.Text("text") + delta.Text("text"))
		s.reasoning.WriteString(block.Text("thinking") + delta.Text("thinking"))
		s.signature.WriteString(delta.Text("signature"))
	case d == wire.Bedrock:
		s.text.WriteString(delta.Text("text"))
		s.reasoning.WriteString(delta.Object("reasoningContent").Text("text"))
		s.signature.WriteString(delta.Object("reasoningContent").Text("signature"))
	}
}

// fragment reads a part of a chat message or of a Gemini content.
func (s *assembly) fragment(raw json.RawMessage) {
	var f Fields
	m, _ := ParseMessage(raw)
	_ = json.Unmarshal(raw, &f) // m is empty too
	for _, key := range []string{"reasoning_content", "reasoning"} {
		if f.Has(key) && s.reasoningKey == "" {
			s.reasoningKey = key
		}
	}
	for _, p := range m.Parts {
		switch {
		case p.Empty:
		case p.Kind == Text:
			s.text.WriteString(p.Text)
		case p.Kind == Reasoning:
			s.reasoning.WriteString(p.Text)
		}
	}
}

// message returns the assembled message.
func (s *assembly) message(d wire.Dialect, calls []facts.ResponseCall) json.RawMessage {
	type object = map[string]any
	text, reasoning := s.text.String(), s.reasoning.String()
	var parts, chatCalls []any
	add := func(ok bool, part object) {
		if ok {
			parts = append(parts, part)
		}
	}
	switch d {
	case wire.Anthropic:
		add(reasoning != "", object{"type": "thinking", "thinking": reasoning, "signature": s.signature.String()})
		add(text != "", object{"type": "text", "text": text})
	case wire.Bedrock:
		add(reasoning != "", object{"reasoningContent": object{"reasoningText": object{"text": reasoning, "signature": s.signature.String()}}})
		add(text != "", object{"text": text})
	default:
		add(reasoning != "", object{"text": reasoning, "thought": true})
		add(text != "", object{"text": text})
	}
	for _, c := range calls {
		var arguments any = c.Arguments
		if json.Valid([]byte(c.Arguments)) {
			arguments = json.RawMessage(c.Arguments)
		}
		switch d {
		case wire.Anthropic:
			add(true, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": arguments})
		case wire.Bedrock:
			add(true, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": arguments}})
		case wire.Gemini:
			call := object{"name": c.Name, "args": arguments}
			if c.ID != "" {
				call["id"] = c.ID
			}
			add(true, object{"functionCall": call})
		default:
			chatCalls = append(chatCalls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
	}
	switch d {
	case wire.Anthropic, wire.Bedrock:
		return encode(object{"role": "assistant", "content": parts})
	case wire.Gemini:
		return encode(object{"role": "model", "parts": parts})
	default:
	}
	m := object{"role": "assistant", "content": text}
	if s.reasoningKey != "" {
		m[s.reasoningKey] = reasoning
	}
	if chatCalls != nil {
		m["tool_calls"] = chatCalls
	}
	return encode(m)
}

// encode returns v as JSON without escaping <, > and &.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // no error: v contains strings, maps, lists and valid JSON
	return bytes.TrimSpace(b.Bytes())
}
