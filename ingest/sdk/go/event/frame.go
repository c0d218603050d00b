package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// HeaderFrame is the version of the format of a frame, FrameVersion.
const HeaderFrame = "Llmtap-Frame"

// FrameVersion is the only version of the format of frames.
const FrameVersion = "1"

// MaxFrameEvents is the maximum number of events in a frame.
const MaxFrameEvents = 32

// FrameKind is the kind in the subject of a frame.
const FrameKind = "frame"

// MayFollow reports whether e may follow before in a frame: both are of one service and of one user's conversation or, without one,
// of one exchange. An erasure of a conversation, a user or exchanges thus concerns all events of a frame or none.
func (e *Event) MayFollow(before *Event) bool {
	a, b := &e.Labels, &before.Labels
	return a.Service == b.Service && a.Conversation == b.Conversation && a.User == b.User && (a.Conversation != "" || e.Exchange == before.Exchange && e.Shard() == before.Shard())
}

// A Message is a message of NATS: an event, a part of one, or a frame.
type Message struct {
	Subject string
	Header  Header
	Data    []byte
}

// Pack yields the messages of events, which have the same service and shard, and for each the index of its first event and the
// number of its events. Events become frames of at most partBytes where frames is set and several fit, and else messages of
// their own, in parts if their bodies are longer. Bodies in frames are copied.
func Pack(events []*Event, partBytes int, frames bool) iter.Seq2[Message, [2]int] {
	return func(yield func(Message, [2]int) bool) {
		for i := 0; i < len(events); {
			if frames {
				if m, n := frameOf(events[i:min(len(events), i+MaxFrameEvents)], partBytes); n > 0 {
					if !yield(m, [2]int{i, n}) {
						return
					}
					i += n
					continue
				}
			}
			for part := range events[i].Messages(partBytes) {
				if !yield(Message{part.Subject(), part.Encode(), part.Body}, [2]int{i, 1}) {
					return
				}
			}
			i++
		}
	}
}

// frameOf returns a frame of the first n events, or 0 if it would have fewer than two.
func frameOf(events []*Event, limit int) (m Message, n int) {
	size := 0
	for _, e := range events {
		if size += len(e.Body); size > limit {
			break
		}
		n++
	}
	if n < 2 {
		return Message{}, 0
	}
	f := frame{data: make([]byte, 0, min(limit, size+n*512))}
	for n = 0; n < len(events) && f.add(events[n], limit); n++ {
	}
	if n < 2 {
		return Message{}, 0
	}
	id := headerMessageID(events[0].MessageID()) + "." + itoa(n) + "." + headerMessageID(events[n-1].MessageID())
	if len(id) > MaxHeaderValue {
		sum := sha256.Sum256([]byte(id))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return Message{events[0].subject(FrameKind), Header{HeaderMsgID: {id}, HeaderFrame: {FrameVersion}}, f.data}, n
}

// A frame is a frame to which events are added.
type frame struct {
	data    []byte
	kinds   [len(kindNames)]writer // headers of the newest event of each kind
	unused  writer
	changes []line
}

// add appends e, unless the frame would be longer than limit.
func (f *frame) add(e *Event, limit int) bool {
	w := f.unused[:0]
	w.headers(e)
	f.unused = f.kinds[e.Kind]
	return f.addHeaders(e.Kind, w, e.Body, limit)
}

// addHeaders is add for an event with the headers w.
func (f *frame) addHeaders(kind Kind, w writer, body []byte, limit int) bool {
	f.compare(f.kinds[kind], w)
	f.kinds[kind] = w
	size := 0
	for _, l := range f.changes {
		size += len(l.name) + len(":") + len(l.value) + len("\n")
	}
	before := len(f.data)
	f.data = append(append(f.data, kind.String()...), ' ')
	f.data = append(strconv.AppendInt(f.data, int64(size), 10), ' ')
	f.data = append(strconv.AppendInt(f.data, int64(len(body)), 10), '\n')
	if len(f.data)+size+len(body) > limit {
		f.data = f.data[:before]
		return false
	}
	for _, l := range f.changes {
		f.data = append(append(append(append(f.data, l.name...), ':'), l.value...), '\n')
	}
	f.data = append(f.data, body...)
	return true
}

// compare sets changes to the headers that differ between two events of a kind, in the order of names. Most have the same names
// in the same order.
func (f *frame) compare(before, now writer) {
	f.changes = f.changes[:0]
	common, next := 0, 0
	for _, l := range now {
		if next == len(before) || before[next].name != l.name {
			next = before.index(l.name)
		}
		if next < 0 {
			f.changes, next = append(f.changes, l), 0
			continue
		}
		if before[next].value != l.value {
			f.changes = append(f.changes, l)
		}
		common++
		next++
	}
	for i := 0; common < len(before); i++ {
		if now.index(before[i].name) < 0 {
			f.changes = append(f.changes, line{name: before[i].name})
			common++
		}
	}
	slices.SortFunc(f.changes, func(a, b line) int { return strings.Compare(a.name, b.name) })
}

func (w writer) index(name string) int {
	return slices.IndexFunc(w, func(l line) bool { return l.name == name })
}

// IsFrame reports whether the subject is that of a frame.
func IsFrame(subject string) bool {
	kind, _, _, err := parseSubject(subject)
	return err == nil && kind == FrameKind
}

// A Framed is an event of a frame, or an error that wraps ErrMalformed.
type Framed struct {
	Event *Event
	Err   error
}

// DecodeFrame decodes the events of a frame, as Decode does. The bodies share the memory of data. If the frame itself is
// malformed, it returns an error that wraps ErrMalformed, and the events before the defect.
func DecodeFrame(subject string, h Header, data []byte) ([]Framed, error) {
	var entries [MaxFrameEvents]entry
	service, n, err := parseFrame(subject, h, data, &entries)
	events, framed := make([]Event, n), make([]Framed, n)
	var kinds [len(kindNames)]*decoder
	for i, e := range entries[:n] {
		kind := ParseKind(e.kind)
		if kind == KindUnknown {
			framed[i].Err = fmt.Errorf("%w: unknown kind %q", ErrMalformed, e.kind)
			continue
		}
		d := kinds[kind]
		if d == nil {
			d = &decoder{Event: Event{Kind: kind}}
			kinds[kind] = d
		}
		for name, value := range e.lines() {
			d.set(name, value)
		}
		if framed[i].Err = d.decode(&events[i], service, e.body); framed[i].Err == nil {
			framed[i].Event = &events[i]
		}
	}
	return framed, err
}

// DecodeAll decodes a message that is an event or a frame. It returns the first error.
func DecodeAll(subject string, h Header, data []byte) (events []*Event, err error) {
	if !IsFrame(subject) {
		e, err := Decode(subject, h, data)
		return []*Event{e}, err
	}
	framed, err := DecodeFrame(subject, h, data)
	for _, f := range framed {
		if err == nil {
			err = f.Err
		}
		events = append(events, f.Event)
	}
	return events, err
}

// SplitFrame returns each event of a frame as a message of its own, without a message id. If the frame is malformed, it returns
// an error that wraps ErrMalformed, and the messages before the defect.
func SplitFrame(subject string, h Header, data []byte) ([]Message, error) {
	var entries [MaxFrameEvents]entry
	_, n, err := parseFrame(subject, h, data, &entries)
	rest, kinds, messages := strings.TrimPrefix(subject, SubjectPrefix+FrameKind), map[string]Header{}, make([]Message, n)
	for i, e := range entries[:n] {
		h := maps.Clone(kinds[e.kind])
		if h == nil {
			h = Header{}
		}
		for name, value := range e.lines() {
			if h[name] = []string{value}; value == "" {
				delete(h, name)
			}
		}
		kinds[e.kind] = h
		messages[i] = Message{SubjectPrefix + e.kind + rest, h, e.body}
	}
	return messages, err
}

// JoinFrame is the inverse of SplitFrame: it returns the payload of a frame of messages, except those of unknown kinds.
func JoinFrame(messages []Message) []byte {
	var f frame
	for _, m := range messages {
		kind, _, _, err := ParseSubject(m.Subject)
		if err != nil {
			continue
		}
		var w writer
		for name, v := range m.Header {
			if len(v) > 0 && v[0] != "" {
				w.token(name, v[0])
			}
		}
		f.addHeaders(kind, w, m.Data, math.MaxInt)
	}
	return f.data
}

// An entry is an encoded event of a frame.
type entry struct {
	kind    string
	changes []byte // lines of headers
	body    []byte
}

// parseFrame splits a frame into entries. It returns the service of the subject and the number of entries before the first defect.
func parseFrame(subject string, h Header, data []byte, entries *[MaxFrameEvents]entry) (service string, n int, err error) {
	kind, service, _, err := parseSubject(subject)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	case kind != FrameKind:
		return "", 0, fmt.Errorf("%w: %s is not the subject of a frame", ErrMalformed, subject)
	case h.get(HeaderFrame) != FrameVersion:
		return "", 0, fmt.Errorf("%w: header %s is %q, not %s", ErrMalformed, HeaderFrame, h.get(HeaderFrame), FrameVersion)
	}
	if len(data) == 0 {
		return service, 0, fmt.Errorf("%w: a frame without events", ErrMalformed)
	}
	for at := 0; at < len(data); n++ {
		e, size := parseEntry(data[at:])
		switch {
		case size == 0:
			return service, n, fmt.Errorf("%w: event %d of the frame is malformed at byte %d", ErrMalformed, n, at)
		case n == MaxFrameEvents:
			return service, n, fmt.Errorf("%w: a frame of more than %d events", ErrMalformed, MaxFrameEvents)
		}
		entries[n] = e
		at += size
	}
	return service, n, nil
}

// parseEntry parses the entry at the start of data. It returns its size, or 0 if it is malformed.
func parseEntry(data []byte) (e entry, size int) {
	const longest = len("response 1048576 1048576\n") + 32
	end := bytes.IndexByte(data[:min(len(data), longest)], '\n')
	if end < 0 {
		return entry{}, 0
	}
	kind, sizes, _ := strings.Cut(string(data[:end]), " ")
	a, b, _ := strings.Cut(sizes, " ")
	lines, err1 := strconv.ParseUint(a, 10, 31)
	body, err2 := strconv.ParseUint(b, 10, 31)
	rest := data[end+1:]
	if err1 != nil || err2 != nil || kind == "" || strings.ContainsAny(kind, ".*>\t\r") || lines+body > uint64(len(rest)) || lines > 0 && rest[lines-1] != '\n' {
		return entry{}, 0
	}
	e = entry{kind: kind, changes: rest[:lines:lines], body: rest[lines : lines+body : lines+body]}
	return e, end + 1 + int(lines+body)
}

// lines yields the names and values of e.changes. A line without a colon has no value.
func (e *entry) lines() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for s := string(e.changes); s != ""; { // a copy, so that the strings do not retain the frame
			l, rest, _ := strings.Cut(s, "\n")
			name, value, _ := strings.Cut(l, ":")
			if s = rest; !yield(name, value) {
				return
			}
		}
	}
}
