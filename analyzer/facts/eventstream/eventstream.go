package eventstream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"iter"
)

var (
	// ErrTruncated reports a body that ends inside a frame.
	ErrTruncated = errors.New("event stream is truncated")
	// ErrFrame reports a frame whose lengths, checksums or headers are wrong.
	ErrFrame = errors.New("no event stream frame")
)

// A Message is one frame. Its slices lie in the body it was read from. Of the headers it has those that say what the
// payload is, if they are strings; others are skipped.
type Message struct {
	Type          []byte // :message-type: event, exception or error
	EventType     []byte // :event-type of an event, such as contentBlockDelta
	ExceptionType []byte // :exception-type of an exception, such as throttlingException
	ErrorCode     []byte // :error-code of an error, which has no payload
	ErrorMessage  []byte // :error-message of an error
	ContentType   []byte // :content-type of the payload
	Payload       []byte
}

const (
	preludeBytes  = 12                                   // both lengths and their checksum
	checksumBytes = 4                                    // the checksum of the frame
	minFrame      = uint32(preludeBytes + checksumBytes) // no headers, no payload
)

// Messages yields the messages of a body. A frame that cannot be read is an error, ErrTruncated or ErrFrame, and ends
// the sequence: nothing says where the next frame would start.
func Messages(body []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for len(body) > 0 {
			m, n, err := next(body)
			if !yield(m, err) || err != nil {
				return
			}
			body = body[n:]
		}
	}
}

// HasFrame reports whether body starts with the prelude of a frame: 32 bits of checksum say so.
func HasFrame(body []byte) bool {
	_, _, err := prelude(body)
	return err == nil
}

// prelude reads the lengths at the start of a frame; they fit each other.
func prelude(b []byte) (frame, headers uint32, err error) {
	if len(b) < preludeBytes {
		return 0, 0, ErrTruncated
	}
	frame, headers = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || frame < minFrame || headers > frame-minFrame {
		return 0, 0, ErrFrame
	}
	return frame, headers, nil
}

// next reads the frame at the start of b and says how long it is.
func next(b []byte) (m Message, n int, err error) {
	frame, headers, err := prelude(b)
	if err != nil {
		return Message{}, 0, err
	}
	if uint64(frame) > uint64(len(b)) {
		return Message{}, 0, ErrTruncated
	}
	n = int(frame)
	end := n - checksumBytes
	if crc32.ChecksumIEEE(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return Message{}, 0, ErrFrame
	}
	payload := preludeBytes + int(headers)
	if !m.headers(b[preludeBytes:payload:payload]) {
		return Message{}, 0, ErrFrame
	}
	m.Payload = b[payload:end:end]
	return m, n, nil
}

// The types of a header's value.
const (
	typeTrue = iota
	typeFalse
	typeByte
	typeShort
	typeInt
	typeLong
	typeBytes
	typeString
	typeTimestamp
	typeUUID
)

// headers reads the headers of a frame and reports whether they fill b exactly.
func (m *Message) headers(b []byte) bool {
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 {
			return false
		}
		name, kind := b[1:n], b[n]
		b = b[n+1:]
		size := 0
		switch kind {
		case typeTrue, typeFalse:
		case typeByte:
			size = 1
		case typeShort:
			size = 2
		case typeInt:
			size = 4
		case typeLong, typeTimestamp:
			size = 8
		case typeUUID:
			size = 16
		case typeBytes, typeString:
			if len(b) < 2 {
				return false
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		default:
			return false
		}
		if len(b) < size {
			return false
		}
		if field := m.field(name); field != nil && kind == typeString {
			*field = b[:size:size]
		}
		b = b[size:]
	}
	return true
}

// field is where the header of this name goes, nil if nowhere.
func (m *Message) field(name []byte) *[]byte {
	switch string(name) {
	case ":message-type":
		return &m.Type
	case ":event-type":
		return &m.EventType
	case ":exception-type":
		return &m.ExceptionType
	case ":error-code":
		return &m.ErrorCode
	case ":error-message":
		return &m.ErrorMessage
	case ":content-type":
		return &m.ContentType
	}
	return nil
}
