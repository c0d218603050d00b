package eventstream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

var (
	// ErrTruncated means that a body ends inside a frame.
	ErrTruncated = errors.New("event stream is truncated")
	// ErrFrame means that the lengths, a checksum or the headers of a frame are wrong.
	ErrFrame = errors.New("not an event stream frame")
)

const (
	preludeBytes  = 12                                   // both lengths and their checksum
	checksumBytes = 4                                    // the checksum of the frame
	minFrame      = uint32(preludeBytes + checksumBytes) // no headers, no payload
)

// A Frame is the content of a frame; its slices are parts of the body.
type Frame struct {
	Headers, Payload []byte
	Offset           int // offset of the payload in the frame
}

// HasFrame reports whether body begins with the prelude of a frame, whose 32-bit checksum is correct.
func HasFrame(body []byte) bool {
	_, _, err := prelude(body)
	return err == nil
}

// Next reads the frame at the start of b and returns its length. The error is ErrTruncated or ErrFrame. After an
// error the start of the next frame cannot be found.
func Next(b []byte) (f Frame, n int, err error) {
	size, headers, err := prelude(b)
	if err != nil {
		return Frame{}, 0, err
	}
	if uint64(size) > uint64(len(b)) {
		return Frame{}, 0, ErrTruncated
	}
	n = int(size)
	end := n - checksumBytes
	if crc32.ChecksumIEEE(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return Frame{}, 0, ErrFrame
	}
	payload := preludeBytes + int(headers)
	return Frame{b[preludeBytes:payload:payload], b[payload:end:end], payload}, n, nil
}

// prelude reads the lengths at the start of a frame and checks that they are consistent.
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

// Begin appends room for the prelude of a frame. The caller appends the headers and the payload, then calls End.
func Begin(dst []byte) []byte { return append(dst, make([]byte, preludeBytes)...) }

// End completes the frame that begins at dst[start:]. headers is the length of its headers in bytes. A frame must be
// shorter than 4 GiB.
func End(dst []byte, start, headers int) []byte {
	frame := dst[start:]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)+checksumBytes))
	binary.BigEndian.PutUint32(frame[4:], uint32(headers))
	binary.BigEndian.PutUint32(frame[8:], crc32.ChecksumIEEE(frame[:8]))
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(frame))
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

// A Header is one header of a frame.
type Header struct {
	Name  []byte
	Value []byte // string value; not set for other types
	Raw   []byte // encoded header

	kind byte
}

// Describes reports whether h is a string header that corresponds to a field of Message.
func (h *Header) Describes() bool { return h.kind == typeString && fieldOf(h.Name) >= 0 }

// NextHeader reads the header at the start of b. ok is false if the header is incomplete or of an unknown type.
func NextHeader(b []byte) (h Header, ok bool) {
	if len(b) == 0 {
		return Header{}, false
	}
	at := 1 + int(b[0])
	if len(b) < at+1 {
		return Header{}, false
	}
	h.Name, h.kind = b[1:at], b[at]
	at++
	size := 0
	switch h.kind {
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
		if len(b) < at+2 {
			return Header{}, false
		}
		size = int(binary.BigEndian.Uint16(b[at:]))
		at += 2
	default:
		return Header{}, false
	}
	end := at + size
	if len(b) < end {
		return Header{}, false
	}
	h.Value, h.Raw = b[at:end:end], b[:end]
	return h, true
}
