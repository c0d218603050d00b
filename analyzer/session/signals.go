package session

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A Trouble is the defect that each request of a history has shown since its requests began to fail.
type Trouble struct {
	Defect   [16]byte
	Exchange string // the first that failed with it
	Since    time.Time
	Failed   int // requests
	Length   int // of the first, in messages
	Now      int // of the newest
	Told     int // how many had failed when it was reported
}

// Trouble is what the caller noted last of the history of t; nil when its newest request was fine.
func (t *Turn) Trouble() *Trouble { return t.line.trouble }

// Note makes tr the trouble of the history of t; nil says that a request was fine.
func (t *Turn) Note(tr *Trouble) { t.line.trouble = tr }

// Key names the request of t by how long its history is and how it ends, so that a request that is sent again has the
// same one.
func (t *Turn) Key() string { return strconv.FormatUint(mix(t.last, uint64(t.length)), 16) }

// An Overtaker is a request that was sent into a history before the answer to the request before it had ended.
type Overtaker struct {
	Exchange, Instance string
	Sent               time.Time // by the clock of its process
}

// Overtaken is the first other request that went into the history of t while t was under way, or nil. Of conversations
// without a given id it says nothing.
func (t *Turn) Overtaken() *Overtaker { return t.overtaken }

// overtakes notes that the request of in, which follows l as f says, was sent while another one of l was under way.
func (l *line) overtakes(in *In, f fit, same bool) {
	before := l.newest
	if in.Conversation == "" || before == nil || before.ended || before.overtaken != nil || f.whole && same {
		return
	}
	before.overtaken = &Overtaker{Exchange: in.Exchange, Instance: in.Instance, Sent: in.Sent}
}

// Shrunk reports whether the history lost more messages than it gained since the answer before: from and to are its
// lengths without the leading system messages. A request that goes back to an earlier point of the history has not shrunk
// it, nor has one that takes out what was refused.
func (t *Turn) Shrunk() (from, to int, ok bool) {
	return t.was, t.length, t.shrunk
}

// A Rewrite is what the agent changed of the answer when it saved it.
type Rewrite struct {
	Message int   // 0-based, of the copy
	Call    *Call // whose arguments differ; nil when the text does
}

// Rewritten compares the copy of the answer before the request with that answer. It tells other arguments, by what they
// mean as JSON, and another text that is not shorter: a shorter one may be a part of it, such as a text without its
// space or without the model's thoughts. It is false where the two cannot be compared: the answer did not end, had
// several choices, or was given more than once, or other requests were under way.
func (t *Turn) Rewritten() (Rewrite, bool) {
	a := t.before
	if a == nil || a.exchange != t.previous || a.end != endedWhole || a.joined || a.several || t.line.raced || t.twice || t.names || loose(a.source, t.source) {
		return Rewrite{}, false
	}
	i := t.copyOf(a)
	if i < 0 {
		// At the place of the answer stands another text.
		i = t.q.lead + a.after
		if !t.fit.whole || t.items || i >= len(t.q.messages) || t.q.messages[i].role != facts.RoleAssistant || t.q.messages[i].calls > 0 {
			return Rewrite{}, false
		}
	}
	m, sent := &t.q.messages[i], &t.facts.Messages[i]
	if !t.items && !a.noText && !m.noText && a.text != 0 && m.text != a.text && sent.ContentBytes >= a.bytes && t.textLength(sent) >= a.bytes {
		return Rewrite{Message: i}, true
	}
	for j, k := range t.q.calls(m) {
		call := a.call(k.id)
		if call == nil || call.meaning == 0 || call.again || a.gave(k.id) > 1 {
			continue
		}
		c := &sent.Calls[j]
		if c.Type == facts.TypeCustom || c.Args != facts.ArgsObject || c.ArgsHash == call.sent || c.ArgsHash == call.raw {
			continue
		}
		if got := canonical(arguments(t.bytesOf(c.Start, c.End))); got != 0 && got != call.meaning {
			return Rewrite{Message: i, Call: call}, true
		}
	}
	return Rewrite{}, false
}

// textLength is the length of a message's decoded text; -1 when it cannot be told.
func (t *Turn) textLength(m *facts.Message) int {
	if t.source.shaped {
		if m.Content == facts.String {
			return m.ContentBytes // the shape says it
		}
		return -1
	}
	var sent struct{ Content json.RawMessage }
	if json.Unmarshal(t.bytesOf(m.Start, m.End), &sent) != nil {
		return -1
	}
	var text string
	if json.Unmarshal(sent.Content, &text) == nil {
		return len(text)
	}
	var parts []struct{ Text string }
	if json.Unmarshal(sent.Content, &parts) != nil {
		return -1
	}
	n := 0
	for _, p := range parts {
		n += len(p.Text)
	}
	return n
}

// arguments are the arguments of a call as JSON, however its dialect wraps them; nil when there are none.
func arguments(call []byte) []byte {
	type fields struct{ Arguments, Input, Args json.RawMessage }
	var sent struct {
		fields
		Function, FunctionCall, ToolUse fields
	}
	if json.Unmarshal(call, &sent) != nil {
		return nil
	}
	for _, f := range [...]fields{sent.Function, sent.FunctionCall, sent.ToolUse, sent.fields} {
		for _, raw := range [...]json.RawMessage{f.Arguments, f.Input, f.Args} {
			var text string
			switch {
			case len(raw) == 0:
			case json.Unmarshal(raw, &text) == nil:
				return []byte(text)
			default:
				return raw
			}
		}
	}
	return nil
}

// hashSent is facts.Call.ArgsHash of arguments that are sent back as they came, in a JSON string that escapes no more
// than it must.
func (s *Store) hashSent(arguments string) uint64 {
	b := s.escaped[:0]
	for i := range len(arguments) {
		switch c := arguments[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, c)
		}
	}
	if s.escaped = b; cap(b) > maxEscaped {
		s.escaped = nil
	}
	return xxh3.Hash(b)
}

// maxEscaped bounds the memory that is kept for the arguments of the next call.
const maxEscaped = 64 << 10

// New is the first message that the request before did not have; 0 when none is known.
func (t *Turn) New() int {
	if !t.fit.known {
		return 0
	}
	return t.q.lead + t.fit.prefix
}
