package sse

import (
	"bytes"
	"iter"
)

// An Event is one server-sent event that has data.
type Event struct {
	Name []byte // of its event field; empty for a plain message
	Data []byte
}

// Events yields the events of a stream's body. Their slices are valid as long as the body.
func Events(body []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		body = bytes.TrimPrefix(body, []byte("\ufeff"))
		l := lines{b: body, feed: -1}
		var e Event
		var has, joined bool
		for {
			line, ok := l.next()
			if len(line) == 0 {
				if has && !yield(e) || !ok {
					return
				}
				e, has, joined = Event{}, false, false
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
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

// HasField reports whether body starts with a line that only an event stream starts with.
func HasField(body []byte) bool {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), "\r\n")
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

// lines cuts b at \n, \r\n and \r.
type lines struct {
	b    []byte
	i    int
	feed int // index of the next line feed at or after i, len(b) if none; found once per line feed, so \r alone is linear
}

// next returns the next line; after the last one an empty line and false.
func (l *lines) next() ([]byte, bool) {
	if l.i >= len(l.b) {
		return nil, false
	}
	if l.feed < l.i {
		n := bytes.IndexByte(l.b[l.i:], '\n')
		if l.feed = l.i + n; n < 0 {
			l.feed = len(l.b)
		}
	}
	line := l.b[l.i:l.feed]
	if n := bytes.IndexByte(line, '\r'); n >= 0 {
		line = line[:n]
		if l.i += n + 1; l.i == l.feed {
			l.i++
		}
		return line, true
	}
	l.i = l.feed + 1
	return line, true
}
