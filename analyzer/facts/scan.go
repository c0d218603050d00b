package facts

import (
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A format contains the functions that read the bodies of one dialect.
type format struct {
	request  func(*Request, *scanner) // reads the members of a request
	messages func(*Request, *scanner) // reads an array of messages
	response func(contentType string, body []byte, r *Response)
	traits   traits // traits of the dialect's requests; 0 if none are specific to it
}

// formats has one row per dialect that this package can scan.
var formats = map[wire.Dialect]format{
	wire.OpenAIChat:      {(*Request).chat, (*Request).chatMessages, scanChatResponse, traitChat},
	wire.OpenAIResponses: {(*Request).responses, (*Request).responsesInput, scanResponsesResponse, traitResponses},
	wire.Anthropic:       {(*Request).anthropic, (*Request).anthropicMessages, scanAnthropicResponse, traitAnthropic},
	wire.Gemini:          {(*Request).gemini, (*Request).geminiContents, scanGeminiResponse, traitGemini},
	wire.Bedrock:         {(*Request).bedrock, (*Request).bedrockMessages, scanBedrockResponse, traitBedrock},
	wire.Cohere:          {(*Request).chat, (*Request).chatMessages, scanCohereResponse, 0}, // only tool_plan differs from chat
	wire.Interactions:    {(*Request).interactions, (*Request).interactionInput, scanInteractionsResponse, traitInteractions},
}

// maxKept limits the messages, calls, replies and tools in one Request, each separately. A hostile body of 64 MiB may have
// 32 million elements of two bytes, each of which would need some 300 bytes here.
const maxKept = 1 << 16

// ScanRequest reads a request body of dialect d into f and reuses the memory of f. It does not allocate once f is large
// enough. A value of the wrong type is a fact, not an error; the last of several duplicate keys wins. The errors are
// ErrNotJSON, ErrTruncated and ErrDialect; after an error, f contains the facts read before it, from complete messages only.
func ScanRequest(d wire.Dialect, body []byte, f *Request) error {
	return f.scan(body, '{', formats[d].request)
}

// ScanMessages is like ScanRequest for a bare array of messages, contents or input items.
func ScanMessages(d wire.Dialect, body []byte, f *Request) error {
	return f.scan(body, '[', formats[d].messages)
}

// ScanResponse reads an answer of dialect d into r: a unary body, an error body of any shape, or a stream (server-sent
// events, JSON lines, AWS event stream), which it assembles. The body determines which of these it is; contentType is used
// only if the body is ambiguous. Unreadable bodies are reported in r.Malformed, r.Cut and r.Error; the only error is
// ErrDialect.
func ScanResponse(d wire.Dialect, contentType string, body []byte, r *Response) error {
	*r = Response{}
	f, ok := formats[d]
	if !ok {
		return ErrDialect
	}
	f.response(contentType, body, r)
	if input := max(r.InputTokens, 0); r.CachedTokens < 0 || r.CachedTokens > input { // Azure counts what it adds to prompts of Grok only as cached
		r.CachedTokens, r.CacheReported = min(max(r.CachedTokens, 0), input), false
	}
	r.CacheWritten = max(min(r.CacheWritten, r.InputTokens-r.CachedTokens), 0)
	r.CacheHour = max(min(r.CacheHour, r.CacheWritten), 0)
	return nil
}

func (f *Request) reset() {
	*f = Request{
		Messages: f.Messages[:0], Tools: f.Tools[:0], Spaced: f.Spaced[:0], calls: f.calls[:0], replies: f.replies[:0], scratch: f.scratch[:0],
		joined: f.joined[:0], serverUses: f.serverUses[:0], recall: f.recall, setup: Setup{Parameters: f.setup.Parameters[:0], Each: f.setup.Each[:0]},
		cache: Cache{Marks: f.cache.Marks[:0]},
	}
}

// scan reads a body that must start with first: '{' for a request, '[' for an array of messages.
func (f *Request) scan(body []byte, first byte, read func(*Request, *scanner)) error {
	f.reset()
	if read == nil {
		return ErrDialect
	}
	f.Bare = first == '['
	s := &f.s
	*s = scanner{b: body, scratch: f.scratch}
	if s.space(); s.i >= len(body) || body[s.i] != first {
		return ErrNotJSON
	}
	read(f, s)
	s.end()
	err := s.err
	f.scratch, f.s = s.scratch, scanner{}
	return err
}

// messages reads a value that should be an array of messages. It calls read for objects only. A second array in the same
// body replaces the first.
func (f *Request) messages(s *scanner, read func(*Request, *scanner, *Message)) {
	// The scratch buffer is not reset, because it may contain the model's name.
	f.Messages, f.calls, f.replies = f.Messages[:0], f.calls[:0], f.replies[:0]
	f.unmark(InMessages)
	f.recall.rewind()
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
		if f.recalled(s, m) {
			continue
		}
		// Stored and OpenTools are determined separately for each message, because the Memo stores them per message.
		calls, replies, dropped, stored, openTools := len(f.calls), len(f.replies), f.Dropped, f.Stored, f.OpenTools
		marks := len(f.cache.Marks)
		f.Stored, f.OpenTools = false, false
		if m.Kind = s.kind(); m.Kind == Object {
			read(f, s, m)
		} else {
			s.skip()
		}
		ownStored, ownTools := f.Stored, f.OpenTools
		f.Stored, f.OpenTools = ownStored || stored, ownTools || openTools
		if s.err != nil {
			f.unmarkMessage()
			f.Messages = f.Messages[:len(f.Messages)-1]
			return
		}
		m.Start, m.End = start, s.i
		m.Hash = xxh3.Hash(s.b[start:s.i])
		f.remember(s, m, f.cache.Marks[marks:], calls, replies, dropped, ownStored, ownTools)
	}
}

// newCall adds a call for the caller to fill in. If there are already maxKept calls, it returns nil and counts the call as
// dropped.
func (f *Request) newCall() *Call {
	if len(f.calls) == maxKept {
		f.Dropped++
		return nil
	}
	f.calls = append(f.calls, Call{})
	return &f.calls[len(f.calls)-1]
}

// newReply is like newCall for replies.
func (f *Request) newReply() *Reply {
	if len(f.replies) == maxKept {
		f.Dropped++
		return nil
	}
	f.replies = append(f.replies, Reply{})
	return &f.replies[len(f.replies)-1]
}

// own assigns to m the calls and replies of f from the given indexes on. If the backing arrays grow later, m refers to the
// old arrays, which is safe because its calls and replies are final.
func (f *Request) own(m *Message, calls, replies int) {
	m.Calls = f.calls[calls:len(f.calls):len(f.calls)]
	m.Replies = f.replies[replies:len(f.replies):len(f.replies)]
}

// enterTools steps into the array of declared tools and reports whether there is a first element. It resets the facts of
// previously declared tools, except OpenTools.
func (f *Request) enterTools(s *scanner) bool {
	f.forgetTools()
	f.HasTools = s.kind() == Array
	return s.enter(Array)
}

// forgetTools resets the facts of declared tools, except OpenTools.
func (f *Request) forgetTools() {
	f.Tools, f.Spaced, f.setup.Each = f.Tools[:0], f.Spaced[:0], f.setup.Each[:0]
	f.unmark(InTools)
	f.ToolCount, f.HasTools, f.HasFunctions, f.Builtins = 0, false, false, false
}

// declare counts a declared tool, the current value from start on.
func (f *Request) declare(s *scanner, start int, m cacheMark) {
	if len(f.setup.Each) < maxKept && s.err == nil {
		f.mark(m, InTools, len(f.setup.Each), 0)
		f.setup.Each = append(f.setup.Each, Span{start, s.i})
	}
	f.ToolCount++
}

// tool stores the name of a declared function; name is nil for a tool without a name.
func (f *Request) tool(name []byte) {
	switch {
	case name == nil:
		f.OpenTools = true
	case len(f.Tools) == maxKept:
		f.Dropped++
	default:
		f.Tools = append(f.Tools, name)
	}
}

// roleOf returns the role in chat completions and in all dialects that use the same role names.
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

// role reads the role of a message in a dialect that uses the role names of chat completions.
func (m *Message) role(s *scanner) {
	m.RoleName, m.RoleKind = s.text()
	m.Role = roleOf(m.RoleName, m.RoleKind)
}

func (c *Call) noArguments() { c.ArgsKind, c.Args, c.ArgsHash, c.ArgsBytes = Absent, ArgsUnknown, 0, 0 }

// arguments reads the arguments of a call: a string that should contain JSON, or the JSON itself.
func (c *Call) arguments(s *scanner) {
	c.noArguments()
	c.ArgsKind = s.kind()
	raw := s.raw(c.ArgsKind)
	if s.err != nil {
		return
	}
	switch c.ArgsKind {
	case String:
		raw = raw[1 : len(raw)-1]
		c.Args = checkArgs(raw)
	case Object:
		c.Args = ArgsObject
	default: // no API accepts other kinds
	}
	c.ArgsHash, c.ArgsBytes = xxh3.Hash(raw), len(raw)
}

// field records a key, steps over its value and returns the kind of the value.
func (m *Message) field(s *scanner, field Fields) Kind {
	k := s.kind()
	raw := s.raw(k)
	m.note(field, k == Null || string(raw) == "false")
	return k
}

// text is like field, and also returns the value decoded if it is a string.
func (m *Message) text(s *scanner, field Fields) (text []byte, k Kind) {
	start := s.i
	text, k = s.text()
	m.note(field, k == Null || k == Bool && s.i == start+len("false"))
	return text, k
}

// note records a key; null reports whether its value is null or false. If several keys share a bit, the bit is in
// NullFields only if all their values are null or false.
func (m *Message) note(field Fields, null bool) {
	switch {
	case !null:
		m.NullFields &^= field
	case m.Fields&field == 0:
		m.NullFields |= field
	}
	m.Fields |= field
}

// unknown records the current member, whose key is not in the dialect's schema.
func (m *Message) unknown(s *scanner, key []byte) Kind {
	m.other(s, key)
	return m.field(s, FieldUnknown)
}

// other stores key in OtherField if it is the first unknown key.
func (m *Message) other(s *scanner, key []byte) {
	if m.OtherField == nil {
		m.OtherField = s.keep(key)
	}
}

// addPart adds a part to the content of m.
func (m *Message) addPart(part Parts) {
	if m.PartCount == 0 {
		m.FirstPart = part
	}
	m.Parts |= part
	m.PartCount++
}

// firstReasoning returns the first kind that is neither Absent nor Null. If there is none, it returns Null if any kind is
// Null, else Absent.
func firstReasoning(kinds ...Kind) Kind {
	best := Absent
	for _, k := range kinds {
		if k > Null {
			return k
		}
		best = max(best, k)
	}
	return best
}
