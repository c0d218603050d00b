package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A Framing is a format that divides the body of a stream into events.
type Framing uint8

// The framings. Bodies that are not streams, or whose content type is unknown, have NoFraming.
const (
	NoFraming   Framing = iota
	SSE                 // server-sent events (text/event-stream)
	JSONLines           // Ollama's own API
	EventStream         // AWS
)

// FramingOf returns the framing of a content type.
func FramingOf(contentType string) Framing {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		return SSE
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return JSONLines
	case "application/vnd.amazon.eventstream":
		return EventStream
	}
	return NoFraming
}

// A StreamEnd finds the end of a stream that arrives in chunks of any size.
type StreamEnd interface {
	// Feed reads the next chunk. It returns the number of bytes of p up to the end of the stream's last event, or -1
	// if that event is not complete yet.
	Feed(p []byte) int

	// Near reports whether the last event has arrived, possibly without its final line end.
	Near() bool
}

// NewStreamEnd returns the StreamEnd for a content type; nil if bodies of that type do not mark the end of the
// stream.
func NewStreamEnd(contentType string) StreamEnd {
	switch FramingOf(contentType) {
	case SSE:
		return new(sseEnd)
	case JSONLines:
		return new(linesEnd)
	case EventStream, NoFraming:
	}
	return nil
}

// lastData, lastEvents and lastMembers contain LastData, LastEvents and LastMember of all descriptors.
var lastData, lastEvents, lastMembers = func() (data, events, members []string) {
	for i := range Descriptors {
		d := &Descriptors[i]
		if d.LastData != "" {
			data = append(data, d.LastData)
		}
		if d.LastMember != "" {
			members = append(members, d.LastMember)
		}
		events = append(events, d.LastEvents...)
	}
	return data, events, members
}()

// typePrefix is the start of the data of events with a type, which may lack an event line.
const typePrefix = `{"type":"`

// An sseEnd finds the blank line after the last server-sent event.
type sseEnd struct {
	line [48]byte // first bytes of the current line; enough to recognize a line of a last event
	n    int      // length of the current line so far
	last bool     // the current event is a last one
}

func (e *sseEnd) Near() bool { return e.last }

func (e *sseEnd) Feed(p []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			e.add(p[at:])
			return -1
		}
		e.add(p[at : at+i])
		at += i + 1
		if e.endLine() {
			return at
		}
	}
}

func (e *sseEnd) add(p []byte) {
	if e.n < len(e.line) {
		copy(e.line[e.n:], p)
	}
	e.n += len(p)
}

// endLine evaluates the current line and begins the next one. It reports whether the line ended a last event.
func (e *sseEnd) endLine() bool {
	whole := e.n <= len(e.line)
	line := e.line[:min(e.n, len(e.line))]
	if whole {
		line = bytes.TrimSuffix(line, []byte{'\r'})
	}
	e.n = 0
	if whole && len(line) == 0 {
		return e.last
	}
	e.last = e.last || isLastLine(line, whole)
	return false
}

// isLastLine reports whether a line belongs to a last event. If whole is false, line is only the start of a line.
func isLastLine(line []byte, whole bool) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		return whole && slices.Contains(lastEvents, string(value))
	case "data":
		if whole && slices.Contains(lastData, string(value)) {
			return true
		}
		typ, ok := bytes.CutPrefix(value, []byte(typePrefix))
		n := bytes.IndexByte(typ, '"')
		return ok && n >= 0 && slices.Contains(lastEvents, string(typ[:n]))
	}
	return false
}

// maxLastLine is the maximum length in bytes of a line that a linesEnd examines. A last line is short because it has
// no text.
const maxLastLine = 16 << 10

// A linesEnd finds the last line of a stream of JSON lines.
type linesEnd struct {
	line []byte // the current line so far
	long bool   // the current line exceeds maxLastLine, so it is not the last one
}

func (e *linesEnd) Near() bool { return e.last() }

func (e *linesEnd) Feed(p []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			e.add(p[at:])
			return -1
		}
		e.add(p[at : at+i])
		at += i + 1
		last := e.last()
		e.line, e.long = e.line[:0], false
		if last {
			return at
		}
	}
}

func (e *linesEnd) add(p []byte) {
	if e.long = e.long || len(e.line)+len(p) > maxLastLine; !e.long {
		e.line = append(e.line, p...)
	}
}

func (e *linesEnd) last() bool {
	if e.long || !bytes.Contains(e.line, []byte("true")) { // avoids parsing nearly every line
		return false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(e.line, &object) != nil {
		return false
	}
	return slices.ContainsFunc(lastMembers, func(m string) bool { return string(object[m]) == "true" })
}
