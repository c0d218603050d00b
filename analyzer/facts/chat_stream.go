package facts

import (
	"bytes"
	"errors"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// maxAnswerCalls limits the calls of one answer, because each fragment is compared with them. Providers allow 128 tools.
const maxAnswerCalls = 1024

// stream assembles an answer from an event stream; it calls object for each object in the events.
func (a *answer) stream(body []byte, object func(*answer, *scanner)) {
	a.streamed = true
	var seen, done, cut bool
	var s scanner
	for e := range sse.Events(body) {
		s = scanner{b: bytes.TrimSpace(e.Data), scratch: s.scratch[:0]}
		seen, cut = true, false
		// There is usually one value, but several if a server omits the empty line between events.
		for s.space(); s.i < len(s.b) && !done; s.space() {
			switch {
			case s.isDone():
				done = true
			case s.b[s.i] == '{':
				start := s.i
				object(a, &s)
				if string(e.Name) == "error" && len(a.r.Error) == 0 {
					a.r.Error = s.b[start:]
				}
			default:
				if string(e.Name) == "error" && len(a.r.Error) == 0 {
					a.r.Error = s.b[s.i:]
				}
				s.fail(ErrNotJSON)
			}
		}
		if done {
			break
		}
		cut = errors.Is(s.err, ErrTruncated)
		if s.err != nil && !cut && string(e.Name) != "error" {
			a.r.Malformed = true
		}
	}
	ended := done || a.ended || a.r.FinishReason != "" || len(a.r.Error) > 0 || len(a.failed) > 0
	a.r.Cut = cut || !ended
	if seen && !a.answered && len(a.r.Error) == 0 && len(a.failed) == 0 {
		a.r.Malformed = true
	}
}

// otherChoice reads a choice other than the first. This is necessary because z.ai ends a stream with a chunk that has the
// finish reason, an empty delta and index 1.
func (a *answer) otherChoice(s *scanner) {
	if a.others++; !a.streamed || a.others > 1 {
		s.skip()
		return
	}
	empty := true
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "finish_reason":
			a.finishReason(s, &a.stray)
		case "delta":
			empty = s.emptyDelta()
		default:
			s.skip()
		}
	}
	if !empty {
		a.stray = ""
	}
}

// emptyDelta steps over a delta and reports whether it is empty except for the role.
func (s *scanner) emptyDelta() bool {
	empty := true
	for more := s.enter(Object); more; more = s.more('}') {
		role := string(s.key()) == "role"
		k := s.kind()
		raw := s.raw(k)
		empty = empty && (role || k == Null || string(raw) == `""`)
	}
	return empty
}

// finishReason reads a finish reason into v. On some servers, the finish reason is the only sign of a failure.
func (a *answer) finishReason(s *scanner, v *string) {
	start, n := s.i, len(s.scratch)
	reason, k := s.text()
	if k == String && s.err == nil {
		*v = string(reason)
		switch *v {
		case "error", "network_error", "ERROR", "TIMEOUT":
			a.failed = s.b[start:s.i]
		}
	}
	s.scratch = s.scratch[:n]
}

// A fragment is one element of a tool_calls array: a complete call or, in a stream, a part of a call. Its slices are valid
// until the scanner's scratch is truncated.
type fragment struct {
	id, name []byte
	args     []byte // decoded if argsKind is String, else raw
	argsKind Kind
	index    int64
	indexed  bool
	custom   bool // args are free text
	signed   bool
}

func readFragment(s *scanner) fragment {
	var f fragment
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "index":
			f.indexed = s.kind() == Number
			f.index = s.number()
		case "id":
			f.id, _ = s.text()
		case "function":
			f.called(s, "arguments")
		case "custom":
			f.called(s, "input")
		case "extra_content":
			f.signed = signature(s) == String
		default:
			s.skip()
		}
	}
	return f
}

// called reads the target of a call: a function or a custom tool. Snowflake sends both, one of them empty.
func (f *fragment) called(s *scanner, arguments string) {
	if s.kind() != Object {
		s.skip()
		return
	}
	var c fragment
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "name":
			c.name, _ = s.text()
		case arguments:
			c.args, c.argsKind = s.textOrRaw()
		default:
			s.skip()
		}
	}
	custom := arguments == "input"
	if len(c.name)+len(c.args) == 0 && (custom || len(f.name) > 0) {
		return
	}
	f.name, f.args, f.argsKind, f.custom = c.name, c.args, c.argsKind, custom
}

// A partialCall is a tool call assembled from the fragments so far.
type partialCall struct {
	id, name string
	args     []byte
	argsKind Kind
	index    int64
	indexed  bool
	custom   bool
	signed   bool
}

// call returns the complete call. The arguments are checked like the text inside a JSON string.
func (p *partialCall) call() ResponseCall {
	c := ResponseCall{ID: p.id, Name: p.name, ArgsKind: p.argsKind, Arguments: string(p.args), Signature: p.signed}
	switch {
	case p.custom:
	case p.argsKind == String:
		c.Args = checkText(p.args)
	case p.argsKind == Object:
		c.Args = ArgsObject
	}
	return c
}

// add adds a fragment to its call, or starts a new call with it.
func (a *answer) add(f fragment) {
	i := -1
	if a.streamed {
		i = a.find(f)
	}
	if i < 0 {
		if len(a.calls) == maxAnswerCalls {
			a.r.Malformed = true
			return
		}
		a.calls = append(a.calls, partialCall{index: f.index, indexed: f.indexed})
		i = len(a.calls) - 1
	}
	p := &a.calls[i]
	p.custom, p.signed = p.custom || f.custom, p.signed || f.signed
	if p.id == "" {
		p.id = string(f.id)
	}
	if p.name == "" {
		p.name = string(f.name)
	}
	switch {
	case f.argsKind <= Null:
		p.argsKind = max(p.argsKind, f.argsKind)
	case f.argsKind == String && (p.argsKind <= Null || p.argsKind == String):
		p.args = append(p.args, f.args...)
		p.argsKind = String
	default: // values other than strings arrive whole
		p.args = append(p.args[:0], f.args...)
		p.argsKind = f.argsKind
	}
}

// find returns the position in a.calls of the call that f continues, or -1 if f starts a new call. A known ID takes
// precedence over a new ID with a name, which takes precedence over the index: some servers give every call index 0, others
// send the end of a call with another index, and others generate a new ID for each fragment.
func (a *answer) find(f fragment) int {
	if len(a.calls) == 0 {
		return -1
	}
	at, last := a.indexed(f), len(a.calls)-1
	if i := a.named(f, at); i >= 0 {
		switch {
		case at < 0 && f.indexed && a.calls[i].another(f): // the model gave two calls the same ID
			return -1
		case at != i:
			a.r.BadIndex = a.r.BadIndex || at >= 0
		case a.calls[i].another(f):
			a.r.BadIndex = true
			return -1
		}
		return i
	}
	if len(f.name) > 0 {
		switch {
		case at < 0 && f.indexed:
			return -1
		case at < 0: // no index: Gemini sends whole calls one after another
			at = last
		}
		p := &a.calls[at]
		switch {
		case p.name == "" && (p.id == "" || len(f.id) == 0):
			return at // the ID or the first arguments of the call preceded its name
		case len(f.id) > 0 && p.id == "" && len(p.args) == 0:
			return at // the name of the call preceded its ID
		case len(f.id) > 0:
			a.r.BadIndex = a.r.BadIndex || f.indexed
			return -1
		case !f.indexed:
			return -1
		case p.another(f):
			a.r.BadIndex = true // another complete call with the same index and without an ID
			return -1
		}
		return at // the server repeats the name
	}
	if at >= 0 {
		return at
	}
	if len(f.id) > 0 {
		return -1 // a new call whose name follows
	}
	a.r.BadIndex = a.r.BadIndex || f.indexed
	return last
}

// another reports whether f belongs to a call other than p, because it names another function, or because p has complete
// arguments and f begins new ones, or names the function again under another index.
func (p *partialCall) another(f fragment) bool {
	if len(f.name) == 0 || p.name == "" {
		return false
	}
	if p.name != string(f.name) {
		return true
	}
	begins := bytes.HasPrefix(f.args, []byte("{")) || len(f.args) == 0 && f.indexed && f.index != p.index
	return begins && bytes.HasSuffix(p.args, []byte("}"))
}

// named returns the position of a call with the ID of f, preferably at, or -1 if there is none.
func (a *answer) named(f fragment, at int) int {
	if len(f.id) == 0 {
		return -1
	}
	if at >= 0 && a.calls[at].id == string(f.id) {
		return at
	}
	for i := range a.calls {
		if a.calls[i].id == string(f.id) {
			return i
		}
	}
	return -1
}

// indexed returns the position of the latest call with the index of f, or -1 if there is none.
func (a *answer) indexed(f fragment) int {
	for i := len(a.calls) - 1; i >= 0 && f.indexed; i-- {
		if a.calls[i].indexed && a.calls[i].index == f.index {
			return i
		}
	}
	return -1
}

// appendQuoted appends text as the inside of a JSON string, with quotes, backslashes and control characters escaped.
func appendQuoted(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
