package shape

import (
	"bytes"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

const maxField = 256 // maximum length of a retained event name or comment

// An sseEvent is the state of the current event.
type sseEvent struct {
	isError bool
	lines   int // number of stored data lines, which are not JSON one by one
	start   int // start of these lines, joined by line feeds, in extra
}

// sse shapes server-sent events. All line ends become line feeds.
func (s *Shaper) sse(t *table) {
	var e sseEvent
	for lines := sse.NewLines(s.body); len(s.out) <= s.limit; {
		line, end, ok := lines.Next()
		if !ok {
			break
		}
		if len(line) == 0 {
			s.endEvent(t, &e, false)
			s.out = append(s.out, '\n')
		} else {
			s.line(t, &e, line, end)
		}
	}
	s.endEvent(t, &e, true)
}

// line shapes one line, which ends at s.body[end].
func (s *Shaper) line(t *table, e *sseEvent, line []byte, end int) {
	name, value := sse.Field(line)
	switch string(name) {
	case "data":
		s.data(t, e, value, end-len(value))
		return
	case "event":
		e.isError = string(value) == "error"
		s.field("event: ", value)
	case "retry":
		s.field("retry: ", value)
	case "":
		s.field(": ", value)
	default:
		if len(name) > 8 {
			name = []byte("field")
		}
		s.out = append(append(s.out, name...), ": "...)
		s.out = append(s.appendShape(s.out, value), '\n')
	}
}

func (s *Shaper) field(name string, value []byte) {
	s.out = append(s.out, name...)
	if len(value) > maxField {
		s.out = s.appendShape(s.out, value)
	} else {
		s.out = append(s.out, value...)
	}
	s.out = append(s.out, '\n')
}

// data shapes a data line, or stores it until the event ends, because its JSON may continue on the next line.
func (s *Shaper) data(t *table, e *sseEvent, value []byte, base int) {
	if e.lines == 0 && len(bytes.TrimSpace(value)) == 0 {
		s.out = append(s.out, "data:\n"...)
		return
	}
	if e.lines == 0 {
		mark := len(s.out)
		s.out = append(s.out, "data: "...)
		if s.events(t, value, base) {
			s.out = append(s.out, '\n')
			return
		}
		s.out = s.out[:mark]
		e.start = len(s.extra)
	} else {
		s.extra = append(s.extra, '\n')
	}
	e.lines++
	s.extra = append(s.extra, value...)
}

// endEvent shapes the stored data; last is set at the end of the body, which may be inside an event.
func (s *Shaper) endEvent(t *table, e *sseEvent, last bool) {
	lines, isError := e.lines, e.isError
	e.lines, e.isError = 0, false
	if lines == 0 {
		return
	}
	text, mark := s.extra[e.start:], len(s.out)
	s.out = append(s.out, "data: "...)
	switch {
	case lines > 1 && s.events(t, text, len(s.body)+e.start):
	case isError && !looksLikeJSON(text):
		s.out = append(s.out, bytes.ReplaceAll(text[:min(len(text), maxText)], []byte("\n"), []byte(" "))...)
	case last && looksLikeJSON(text):
		s.out = s.out[:mark]
		return
	default:
		s.out = s.appendBad(s.out, text)
	}
	s.out = append(s.out, '\n')
}

// appendBad appends the shape of a text that should be an event but is not.
func (s *Shaper) appendBad(dst, text []byte) []byte {
	return append(s.appendShape(dst, text), verdictBad...)
}

// lines shapes an answer that consists of JSON lines. Otherwise it returns false.
func (s *Shaper) lines(t *table) bool {
	if s.over() {
		return false
	}
	some := false
	for at := 0; at < len(s.body) && len(s.out) <= s.limit; {
		n := bytes.IndexByte(s.body[at:], '\n')
		last := n < 0
		if last {
			n = len(s.body) - at
		}
		line := s.body[at : at+n]
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case s.events(t, line, at):
			s.out, some = append(s.out, '\n'), true
		case !some:
			return false
		case last && looksLikeJSON(line):
		default:
			s.out = append(s.appendBad(s.out, line), '\n')
		}
		at += n + 1
	}
	return some
}
