package shape

import (
	"encoding/binary"
	"hash/crc32"
)

// An AWS event stream is a sequence of frames:
//
//	4 bytes  length of the frame        big endian, as all numbers
//	4        length of the headers
//	4        CRC-32 of the 8 bytes before
//	…        headers: length of the name, name, type, value
//	…        payload
//	4        CRC-32 of all before
const (
	prelude     = 12
	minFrame    = prelude + 4
	maxFrame    = 16 << 20
	headerText  = 7 // the type of a string: two bytes of length and the text
	maxHeader   = 4 << 10
	frameHeader = 8 // the part of the prelude that its checksum covers
)

// A frame says where the headers and the payload of a frame end in out.
type frame struct{ headers, payload int32 }

// isFrame reports whether b begins with the prelude of a frame.
func isFrame(b []byte) bool {
	if len(b) < minFrame || crc32.ChecksumIEEE(b[:frameHeader]) != binary.BigEndian.Uint32(b[frameHeader:]) {
		return false
	}
	size, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	return size >= minFrame && size <= maxFrame && headers <= size-minFrame
}

// frames shapes an AWS event stream as far as its frames are whole. reframe makes frames of the result.
func (s *Shaper) frames(t *table) {
	for at := 0; isFrame(s.body[at:]) && len(s.out) <= s.limit; {
		size := int(binary.BigEndian.Uint32(s.body[at:]))
		if size > len(s.body)-at {
			break
		}
		f := s.body[at : at+size]
		if crc32.ChecksumIEEE(f[:size-4]) != binary.BigEndian.Uint32(f[size-4:]) {
			break
		}
		payload := prelude + int(binary.BigEndian.Uint32(f[4:]))
		s.headers(f[prelude:payload])
		headers := len(s.out)
		if text := f[payload : size-4]; len(text) > 0 && !s.events(t, text, at+payload) {
			s.out = s.appendBad(s.out, text)
		}
		s.framed = append(s.framed, frame{int32(headers), int32(len(s.out))})
		at += size
	}
	if len(s.framed) == 0 {
		s.out = s.appendBad(s.out[:0], s.body)
	}
}

// headers copies the headers that stay.
func (s *Shaper) headers(h []byte) {
	for len(h) > 0 {
		n := 1 + int(h[0])
		if n >= len(h) {
			return
		}
		name, size := h[1:n], valueSize(h[n:])
		if size < 0 {
			return
		}
		switch string(name) {
		case ":event-type", ":message-type", ":exception-type", ":content-type", ":error-code", ":error-message":
			if h[n] == headerText && size <= maxHeader {
				s.out = append(s.out, h[:n+size]...)
			}
		}
		h = h[n+size:]
	}
}

// valueSize is the length of a header's value with its type, which it begins with; -1 if it is cut short or unknown.
func valueSize(v []byte) int {
	size := -1
	switch v[0] {
	case 0, 1: // true, false
		size = 1
	case 2:
		size = 2
	case 3:
		size = 3
	case 4:
		size = 5
	case 5, 8: // 64 bits, a time stamp
		size = 9
	case 6, headerText:
		if len(v) >= 3 {
			size = 3 + int(binary.BigEndian.Uint16(v[1:]))
		}
	case 9: // a UUID
		size = 17
	}
	if size > len(v) {
		return -1
	}
	return size
}

// reframe makes frames of what frames wrote, patched.
func (s *Shaper) reframe() {
	dst, patches, from := s.whole[:0], s.patches, 0
	for _, f := range s.framed {
		start := len(dst)
		dst = append(dst, make([]byte, prelude)...)
		dst = append(dst, s.out[from:f.headers]...)
		headers := len(dst) - start - prelude
		dst, patches = s.patched(dst, int(f.headers), int(f.payload), patches)
		from = int(f.payload)
		p := dst[start:]
		binary.BigEndian.PutUint32(p, uint32(len(p)+4))
		binary.BigEndian.PutUint32(p[4:], uint32(headers))
		binary.BigEndian.PutUint32(p[frameHeader:], crc32.ChecksumIEEE(p[:frameHeader]))
		dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(p))
	}
	s.whole = dst
}
