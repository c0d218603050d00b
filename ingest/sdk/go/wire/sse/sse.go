package sse

import (
	"bytes"
	"iter"
)

// An Event is one server-sent event that has data.
type Event struct {
	Name []byte // value of the event field; empty if there is none
	Data []byte
}

// Events yields the events of a stream. Their slices are valid as long as body.
func Events(body []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		l := NewLines(body)
		var e Event
		var has, joined bool
		for {
			line, _, ok := l.Next()
			if len(line) == 0 {
				if has && !yield(e) || !ok {
					return
				}
				e, has, joined = Event{}, false, false
				continue
			}
			switch name, value := Field(line); string(name) {
			case "event":
				e.Name = value
			case "data":
				switch {
				case !has:
					e.Data, has = value, true
				case !joined:
					e.Data, joined = append(append(bytes.Clone(e.Data), '\n'), value...), true
				default:
					e.Data = append(append(e.Data, '\n'), value...)
				}
			}
		}
	}
}

// IsStream reports whether the first line of body shows that it is an event stream.
func IsStream(body []byte) bool {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, bom), "\r\n")
	name, _, ok := bytes.Cut(body[:min(len(body), 16)], []byte(":"))
	if !ok {
		return false
	}
	switch string(name) {
	case "", "data", "event", "id", "retry":
		return true
	}
	return false
}

// Field splits a line into the name and value of a field. The name of a comment is empty.
func Field(line []byte) (name, value []byte) {
	before, after, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return line, nil
	}
	if name, value = before, after; len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

var bom = []byte("\ufeff")

// Lines splits a body at \n, \r\n and \r. It skips the byte order mark.
type Lines struct {
	b    []byte
	i    int
	feed int // index of the next line feed at or after i, or len(b); stored so that bodies with \r only take linear time
}

// NewLines returns the lines of a body.
func NewLines(body []byte) Lines {
	l := Lines{b: body, feed: -1}
	if bytes.HasPrefix(body, bom) {
		l.i = len(bom)
	}
	return l
}

// Next returns the next line and the index of its end in the body. ok is false after the last line.
func (l *Lines) Next() (line []byte, end int, ok bool) {
	if l.i >= len(l.b) {
		return nil, len(l.b), false
	}
	if l.feed < l.i {
		n := bytes.IndexByte(l.b[l.i:], '\n')
		if l.feed = l.i + n; n < 0 {
			l.feed = len(l.b)
		}
	}
	start, end := l.i, l.feed
	if n := bytes.IndexByte(l.b[start:end], '\r'); n >= 0 {
		end = start + n
		if l.i = end + 1; l.i == l.feed {
			l.i++
		}
		return l.b[start:end], end, true
	}
	l.i = end + 1
	return l.b[start:end], end, true
}
