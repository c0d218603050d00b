package session

import (
	"encoding/json"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A Rewrite is a change that the agent made to an answer when it saved it.
type Rewrite struct {
	Message int   // 0-based index of the copy
	Call    *Call // call with changed arguments; nil if the text changed
}

// Rewritten compares the previous answer with its copy in the request. It finds arguments whose meaning as JSON changed, and
// a changed text that is not shorter. A shorter text may be only a part of the answer, such as the text without white space or
// without the model's thoughts. Rewritten returns false if the two cannot be compared: the answer is incomplete, has several
// choices, or exists more than once because its request was repeated, or other requests were in flight.
func (t *Turn) Rewritten() (Rewrite, bool) {
	a := t.before
	if a == nil || a.exchange != t.previous || a.end != endedWhole || a.joined || a.several || t.branch.concurrent || t.repeated || t.names || loose(a.source, t.source) {
		return Rewrite{}, false
	}
	i := t.q.copyOf(a)
	if i < 0 {
		// The message at the position of the answer may be the copy with a changed text.
		i = t.q.lead + a.after
		if !t.aligned.whole || t.items || i >= len(t.q.messages) || t.q.messages[i].role != facts.RoleAssistant || t.q.messages[i].calls > 0 {
			return Rewrite{}, false
		}
	}
	m, sent := &t.q.messages[i], &t.facts.Messages[i]
	if !t.items && !a.noText && !m.noText && a.text != 0 && m.text != a.text && sent.ContentBytes >= a.bytes && t.textLength(sent) >= a.bytes {
		return Rewrite{Message: i}, true
	}
	for j, k := range t.q.callsOf(m) {
		call := a.call(k.id)
		if call == nil || call.meaning == 0 || call.reused || a.count(k.id) > 1 {
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

// textLength returns the length of the decoded text of a message; -1 if it is unknown.
func (t *Turn) textLength(m *facts.Message) int {
	if t.source.shaped {
		if m.Content == facts.String {
			return m.ContentBytes // the shape contains the length
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

// arguments returns the JSON of the arguments of a call in any dialect; nil if there are none.
func arguments(call []byte) []byte {
	raw := rawArguments(call)
	var text string
	if len(raw) > 0 && json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}

// rawArguments returns the value of the arguments of a call in any dialect; nil if there is none.
func rawArguments(call []byte) []byte {
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
			if len(raw) > 0 {
				return raw
			}
		}
	}
	return nil
}

// hashSent returns the facts.Call.ArgsHash of arguments that are sent back unchanged in a JSON string with minimal escaping.
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

// maxEscaped bounds the buffer that hashSent reuses.
const maxEscaped = 64 << 10
