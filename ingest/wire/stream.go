package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A Framing is how the body of a stream is divided into events.
type Framing uint8

// The framings. Bodies that are no stream, or one of an unknown content type, have NoFraming.
const (
	NoFraming   Framing = iota
	SSE                 // server-sent events
	JSONLines           // Ollama's own API
	EventStream         // AWS
)

// FramingOf returns the framing that a content type announces.
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
	// Feed reads the next chunk. It returns how many bytes of p belong to the stream up to the end of its last event, -1
	// before that event is complete.
	Feed(p []byte) int

	// Near reports whether the last event has arrived, though perhaps not its last line end.
	Near() bool
}

// NewStreamEnd returns the StreamEnd for a content type, nil if bodies of that type end with the connection only.
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

// lastData, lastEvents and lastMembers are those of all descriptors.
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

// typePrefix is how providers begin the data of events that have a type, perhaps without an event line.
const typePrefix = `{"type":"`

// An sseEnd finds the blank line behind the last event of server-sent events.
type sseEnd struct {
	line [48]byte // the first bytes of the line so far: all that a line of a last event needs
	n    int      // bytes of the line so far
	last bool     // the event so far is a last one
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

// endLine evaluates the line and begins the next one. It reports whether the line ended a last event.
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

// isLastLine reports whether a line belongs to a last event. Of a line that is not whole only the start is known.
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

// maxLastLine bounds the lines that a linesEnd reads, in bytes; a last line is short because it has no text.
const maxLastLine = 16 << 10

// A linesEnd finds the last line of a stream of JSON lines.
type linesEnd struct {
	line []byte // the line so far
	long bool   // the line exceeds maxLastLine, so it is not the last one
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
	if e.long || !bytes.Contains(e.line, []byte("true")) { // spares parsing nearly every line
		return false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(e.line, &object) != nil {
		return false
	}
	return slices.ContainsFunc(lastMembers, func(m string) bool { return string(object[m]) == "true" })
}
