package eventstream

import (
	"encoding/binary"
	"iter"
	"math"
)

// A Message is one frame. Its slices are parts of the body that contains the frame. It has only the headers that
// describe the payload; others are skipped.
type Message struct {
	Type          []byte // :message-type: event, exception or error
	EventType     []byte // :event-type of an event, such as contentBlockDelta
	ExceptionType []byte // :exception-type of an exception, such as throttlingException
	ErrorCode     []byte // :error-code of an error, which has no payload
	ErrorMessage  []byte // :error-message of an error
	ContentType   []byte // :content-type of the payload
	Payload       []byte
}

// names are the headers of a Message in the order of its fields.
var names = [...]string{":message-type", ":event-type", ":exception-type", ":error-code", ":error-message", ":content-type"}

// fieldOf returns the index of a header in names, or -1.
func fieldOf(name []byte) int {
	for i := range names {
		if string(name) == names[i] {
			return i
		}
	}
	return -1
}

func (m *Message) fields() [len(names)]*[]byte {
	return [...]*[]byte{&m.Type, &m.EventType, &m.ExceptionType, &m.ErrorCode, &m.ErrorMessage, &m.ContentType}
}

// Messages yields the messages of a body. If a frame cannot be read, the sequence ends with the error ErrTruncated or
// ErrFrame.
func Messages(body []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for len(body) > 0 {
			f, n, err := Next(body)
			m := Message{Payload: f.Payload}
			if err == nil && !m.headers(f.Headers) {
				m, err = Message{}, ErrFrame
			}
			if !yield(m, err) || err != nil {
				return
			}
			body = body[n:]
		}
	}
}

// headers reads the headers of a frame, b, and reports whether they are valid and fill b exactly.
func (m *Message) headers(b []byte) bool {
	for len(b) > 0 {
		h, ok := NextHeader(b)
		if !ok {
			return false
		}
		if h.Describes() {
			*m.fields()[fieldOf(h.Name)] = h.Value
		}
		b = b[len(h.Raw):]
	}
	return true
}

// Append appends m as a frame. Empty headers are omitted. Values are truncated to 65,535 bytes, the maximum of the
// format.
func Append(dst []byte, m Message) []byte {
	start := len(dst)
	dst = Begin(dst)
	headers := len(dst)
	for i, field := range m.fields() {
		if value := *field; len(value) > 0 {
			value = value[:min(len(value), math.MaxUint16)]
			dst = append(append(append(dst, byte(len(names[i]))), names[i]...), typeString)
			dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(value))), value...)
		}
	}
	headers = len(dst) - headers
	return End(append(dst, m.Payload...), start, headers)
}
