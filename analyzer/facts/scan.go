package facts

import (
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/wire"
	"github.com/llmtap/llmtap/ingest/wire/jsonscan"
)

// maxKept bounds the messages, and the calls, replies and tools, that one Request keeps: a hostile body of 64 MiB holds
// 32 million elements of two bytes, and each would take some 300 bytes here.
const maxKept = 1 << 16

// ScanRequest reads a request body of dialect d into f, reusing f's memory. It allocates nothing once f has grown. A
// wrong type is a fact, not an error; of duplicate keys the last wins. The errors are ErrNotJSON, ErrTruncated and
// ErrDialect; f then holds what was read up to there, whole messages only.
func ScanRequest(d wire.Dialect, body []byte, f *Request) error {
	switch d {
	case wire.OpenAIChat, wire.Cohere:
		return f.scan(body, '{', (*Request).chat)
	case wire.OpenAIResponses:
		return f.scan(body, '{', (*Request).responses)
	case wire.Anthropic:
		return f.scan(body, '{', (*Request).anthropic)
	case wire.Gemini:
		return f.scan(body, '{', (*Request).gemini)
	case wire.Bedrock:
		return f.scan(body, '{', (*Request).bedrock)
	default:
		f.reset()
		return ErrDialect
	}
}

// ScanMessages is ScanRequest for a bare array of messages, contents or input items.
func ScanMessages(d wire.Dialect, body []byte, f *Request) error {
	switch d {
	case wire.OpenAIChat, wire.Cohere:
		return f.scan(body, '[', (*Request).chatMessages)
	case wire.OpenAIResponses:
		return f.scan(body, '[', (*Request).responsesInput)
	case wire.Anthropic:
		return f.scan(body, '[', (*Request).anthropicMessages)
	case wire.Gemini:
		return f.scan(body, '[', (*Request).geminiContents)
	case wire.Bedrock:
		return f.scan(body, '[', (*Request).bedrockMessages)
	default:
		f.reset()
		return ErrDialect
	}
}

func (f *Request) reset() {
	*f = Request{
		Messages: f.Messages[:0], Tools: f.Tools[:0], calls: f.calls[:0], replies: f.replies[:0], scratch: f.scratch[:0],
		joined: f.joined[:0], recall: f.recall,
	}
}

// scan reads a body that must start with first: a request, or its messages alone.
func (f *Request) scan(body []byte, first byte, read func(*Request, *scanner)) error {
	f.reset()
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

// messages reads a value that should be an array of messages, each by read, which is called for objects only. A second
// such array replaces the first.
func (f *Request) messages(s *scanner, read func(*Request, *scanner, *Message)) {
	// Scratch stays: the model's name may lie in it.
	f.Messages, f.calls, f.replies = f.Messages[:0], f.calls[:0], f.replies[:0]
	f.recall.again()
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
		// What the message itself says of the request.
		calls, replies, dropped, stored, open := len(f.calls), len(f.replies), f.Dropped, f.Stored, f.OpenTools
		f.Stored, f.OpenTools = false, false
		if m.Kind = s.kind(); m.Kind == Object {
			read(f, s, m)
		} else {
			s.skip()
		}
		says, opens := f.Stored, f.OpenTools
		f.Stored, f.OpenTools = says || stored, opens || open
		if s.err != nil {
			f.Messages = f.Messages[:len(f.Messages)-1]
			return
		}
		m.Start, m.End = start, s.i
		m.Hash = xxh3.Hash(s.b[start:s.i])
		f.remember(s, m, calls, replies, dropped, says, opens)
	}
}

// newCall is a call to fill; nil, and counted, when there are too many. All calls of a message are the end of f.calls:
// whoever reads the message takes them from there, as ownCalls does, when it is read.
func (f *Request) newCall() *Call {
	if len(f.calls) == maxKept {
		f.Dropped++
		return nil
	}
	f.calls = append(f.calls, Call{})
	return &f.calls[len(f.calls)-1]
}

// newReply is newCall for replies.
func (f *Request) newReply() *Reply {
	if len(f.replies) == maxKept {
		f.Dropped++
		return nil
	}
	f.replies = append(f.replies, Reply{})
	return &f.replies[len(f.replies)-1]
}

// own gives m the calls and replies that were made since there were so many. When their backing grows later, m keeps
// the old array: its calls are final.
func (f *Request) own(m *Message, calls, replies int) {
	m.Calls = f.calls[calls:len(f.calls):len(f.calls)]
	m.Replies = f.replies[replies:len(f.replies):len(f.replies)]
}

// tool keeps the name of a declared function; nil is a tool without one.
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

// roleOf is the role of chat completions, and of all dialects that use its words.
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

// texts joins the text parts of one assistant message, for its hash.
type texts struct {
	first  []byte // raw, between the quotes; nil when there is none
	joined bool   // there are more; all of them, decoded, are in Request.joined
}

func (t *texts) add(f *Request, raw []byte) {
	if t.first == nil {
		t.first = raw
		return
	}
	if !t.joined {
		f.joined = jsonscan.AppendText(f.joined[:0], t.first)
		t.joined = true
	}
	f.joined = jsonscan.AppendText(f.joined, raw)
}

// hash is that of the joined texts; 0 when there is none.
func (t *texts) hash(f *Request, s *scanner) uint64 {
	switch {
	case t.first == nil:
		return 0
	case t.joined:
		return xxh3.Hash(f.joined)
	}
	return s.hashText(t.first)
}

func (c *Call) noArguments() { c.ArgsKind, c.Args, c.ArgsHash, c.ArgsBytes = Absent, ArgsUnknown, 0, 0 }

// arguments reads the arguments of a call: a string that should hold JSON, or the JSON itself.
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
	default: // never right
	}
	c.ArgsHash, c.ArgsBytes = xxh3.Hash(raw), len(raw)
}
