package facts

import (
	"bytes"

	"github.com/zeebo/xxh3"
)

// maxKept bounds the messages, and the calls, that one Request keeps: a hostile body of 64 MiB holds 32 million
// elements of two bytes, and each would take 250 bytes here.
const maxKept = 1 << 16

// ScanRequest reads a request body of dialect d into f, reusing f's memory. It allocates nothing once f has grown. A
// wrong type is a fact, not an error; of duplicate keys the last wins. The errors are ErrNotJSON, ErrTruncated and
// ErrDialect; f then holds what was read up to there, whole messages only.
func ScanRequest(d Dialect, body []byte, f *Request) error {
	if d != OpenAIChat {
		f.reset()
		return ErrDialect
	}
	return f.scan(body, '{')
}

// ScanMessages is ScanRequest for a bare array of messages.
func ScanMessages(d Dialect, body []byte, f *Request) error {
	if d != OpenAIChat {
		f.reset()
		return ErrDialect
	}
	return f.scan(body, '[')
}

func (f *Request) reset() {
	*f = Request{Messages: f.Messages[:0], calls: f.calls[:0], scratch: f.scratch[:0]}
}

// scan reads a body that must start with first: a request, or its messages alone.
func (f *Request) scan(body []byte, first byte) error {
	f.reset()
	s := scanner{b: body, scratch: f.scratch}
	s.space()
	if s.i >= len(body) || body[s.i] != first {
		return ErrNotJSON
	}
	if first == '{' {
		f.chat(&s)
	} else {
		f.chatMessages(&s)
	}
	s.end()
	f.scratch = s.scratch
	return s.err
}

func (f *Request) chat(s *scanner) {
	var limit, completionLimit int64
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "messages":
			f.chatMessages(s)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = string(s.raw(s.kind())) == "true"
		case "tools":
			f.tools(s)
		case "tool_choice":
			f.toolChoice(s)
		case "max_tokens":
			limit = s.number()
		case "max_completion_tokens":
			completionLimit = s.number()
		default:
			s.skip()
		}
	}
	if f.MaxTokens = completionLimit; completionLimit == 0 {
		f.MaxTokens = limit
	}
}

func (f *Request) tools(s *scanner) {
	f.ToolCount = 0
	if f.HasTools = s.kind() == Array; !f.HasTools {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		s.skip()
		f.ToolCount++
	}
}

func (f *Request) toolChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "function" {
			s.skip()
			continue
		}
		f.Forced = nil
		if s.kind() != Object {
			s.skip()
			continue
		}
		for more := s.open(); more; more = s.more('}') {
			if string(s.key()) == "name" {
				f.Forced, _ = s.text()
			} else {
				s.skip()
			}
		}
	}
}

func (f *Request) chatMessages(s *scanner) {
	// A second "messages" replaces the first. Scratch stays: the model's name may lie in it.
	f.Messages, f.calls, f.UnknownKeys, f.Dropped = f.Messages[:0], f.calls[:0], 0, 0
	if f.MessagesKind = s.kind(); f.MessagesKind != Array {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		if len(f.Messages) == maxKept {
			f.Dropped++
			s.skip()
			continue
		}
		start := s.i
		f.Messages = append(f.Messages, Message{})
		m := &f.Messages[len(f.Messages)-1]
		if m.Kind = s.kind(); m.Kind == Object {
			f.chatMessage(s, m)
		} else {
			s.skip()
		}
		if s.err != nil {
			f.Messages = f.Messages[:len(f.Messages)-1]
			return
		}
		m.Start, m.End = start, s.i
		m.Hash = xxh3.Hash(s.b[start:s.i])
	}
}

func (f *Request) chatMessage(s *scanner, m *Message) {
	var content []byte
	var reasoning [3]Kind
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "role":
			var role []byte
			role, m.RoleKind = s.text()
			m.Role = roleOf(role, m.RoleKind)
		case "content":
			content = chatContent(s, m)
		case "tool_calls":
			f.toolCalls(s, m)
		case "tool_call_id":
			m.ToolCallID, m.ReplyKind = s.text()
		case "reasoning_content":
			reasoning[0] = s.skip()
		case "reasoning":
			reasoning[1] = s.skip()
		case "reasoning_details":
			reasoning[2] = s.skip()
		case "name", "refusal", "audio", "function_call":
			s.skip()
		default:
			f.UnknownKeys++
			s.skip()
		}
	}
	m.Reasoning = firstReasoning(reasoning)
	// Only now the role is known: it may come after the content.
	if m.Role == RoleAssistant && m.Content == String && s.err == nil {
		m.ContentHash = s.hashText(content[1 : len(content)-1])
	}
}

func roleOf(role []byte, k Kind) Role {
	if k != String {
		return RoleNone
	}
	switch string(role) {
	case "system":
		return RoleSystem
	case "developer":
		return RoleDeveloper
	case "user":
		return RoleUser
	case "assistant":
		return RoleAssistant
	case "tool":
		return RoleTool
	case "function":
		return RoleFunction
	}
	return RoleOther
}

// firstReasoning is the first kind that is neither absent nor null, else null if any is there.
func firstReasoning(kinds [3]Kind) Kind {
	best := Absent
	for _, k := range kinds {
		if k > Null {
			return k
		}
		best = max(best, k)
	}
	return best
}

// chatContent reads a content value and returns its bytes.
func chatContent(s *scanner, m *Message) []byte {
	m.Parts, m.PartCount = 0, 0
	start := s.i
	m.Content = s.kind()
	if m.Content == Array {
		for more := s.open(); more; more = s.more(']') {
			m.Parts |= chatPart(s)
			m.PartCount++
		}
	} else {
		s.raw(m.Content)
	}
	m.ContentBytes = s.i - start
	if m.Content == String {
		m.ContentBytes -= 2
	}
	return s.b[start:s.i]
}

func chatPart(s *scanner) Parts {
	if s.kind() != Object {
		s.skip()
		return PartBad
	}
	part := PartBad
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "type" {
			s.skip()
			continue
		}
		if name, k := s.text(); k == String {
			part = partOf(name)
		} else {
			part = PartBad
		}
	}
	return part
}

func partOf(name []byte) Parts {
	switch string(name) {
	case "text":
		return PartText
	case "image_url":
		return PartImage
	case "input_audio":
		return PartAudio
	case "file":
		return PartFile
	case "refusal":
		return PartRefusal
	}
	return PartOther
}

func (f *Request) toolCalls(s *scanner, m *Message) {
	first := len(f.calls)
	m.Calls = nil
	if m.ToolCalls = s.kind(); m.ToolCalls != Array {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		if len(f.calls) == maxKept {
			f.Dropped++
			s.skip()
			continue
		}
		f.calls = append(f.calls, Call{})
		c := &f.calls[len(f.calls)-1]
		c.Start = s.i
		if c.Kind = s.kind(); c.Kind == Object {
			chatCall(s, c)
		} else {
			s.skip()
		}
		c.End = s.i
	}
	// When calls grows, earlier messages keep the old array: their calls are final.
	m.Calls = f.calls[first:len(f.calls):len(f.calls)]
}

func chatCall(s *scanner, c *Call) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			c.ID, c.IDKind = s.text()
		case "type":
			c.TypeKind = s.skip()
		case "function":
			chatFunction(s, c)
		case "index":
			s.skip()
		default:
			c.HasMoreKeys = true
			s.skip()
		}
	}
}

func chatFunction(s *scanner, c *Call) {
	c.Name, c.NameKind = nil, Absent
	c.ArgsKind, c.Args, c.ArgsHash, c.ArgsBytes = Absent, ArgsUnknown, 0, 0
	if c.FuncKind = s.kind(); c.FuncKind != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "name":
			c.Name, c.NameKind = s.text()
		case "arguments":
			c.ArgsKind, c.Args = s.kind(), ArgsUnknown
			raw := s.raw(c.ArgsKind)
			if s.err != nil {
				return
			}
			if c.ArgsKind == String {
				raw = raw[1 : len(raw)-1]
				c.Args = checkArgs(raw)
			}
			c.ArgsHash, c.ArgsBytes = xxh3.Hash(raw), len(raw)
		default:
			s.skip()
		}
	}
}

// modelOf finds the model named in a request body; "" if there is none.
func modelOf(body []byte) string {
	s := scanner{b: bytes.TrimSpace(body)}
	if len(s.b) == 0 || s.b[0] != '{' {
		return ""
	}
	var model []byte
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "model" {
			model, _ = s.text()
		} else {
			s.skip()
		}
	}
	return string(model)
}
