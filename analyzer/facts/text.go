package facts

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// appendText appends the text that raw, the inside of a JSON string, stands for. Lone surrogates become U+FFFD, as in
// encoding/json; an escape that JSON does not know stays as it is.
func appendText(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
		r, w := escape(raw)
		if w == 0 {
			dst = append(dst, '\\')
			raw = raw[1:]
			continue
		}
		dst = utf8.AppendRune(dst, r)
		raw = raw[w:]
	}
}

// escape decodes the escape at the start of raw and returns its width, 0 if it is none.
func escape(raw []byte) (r rune, width int) {
	if len(raw) < 2 {
		return 0, 0
	}
	switch raw[1] {
	case '"', '\\', '/':
		return rune(raw[1]), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r = hex4(raw)
		if r < 0 {
			return 0, 0
		}
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, hex4(raw[6:])); pair != utf8.RuneError {
				return pair, 12
			}
			r = utf8.RuneError
		}
		return r, 6
	}
	return 0, 0
}

// hex4 is the value of the \uXXXX at the start of raw, or -1.
func hex4(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range raw[2:6] {
		d := hexDigits[c]
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// hexDigits is the value of a hexadecimal digit, -1 for other bytes.
var hexDigits = func() (h [256]int8) {
	for i := range h {
		h[i] = -1
	}
	for i, c := range []byte("0123456789abcdef") {
		h[c] = int8(i)
	}
	for i, c := range []byte("ABCDEF") {
		h[c] = int8(10 + i)
	}
	return h
}()

// hashText is the hash of the text that raw stands for: the same however a client escapes it.
func (s *scanner) hashText(raw []byte) uint64 {
	if bytes.IndexByte(raw, '\\') < 0 {
		return xxh3.Hash(raw)
	}
	n := len(s.scratch)
	s.scratch = appendText(s.scratch, raw)
	h := xxh3.Hash(s.scratch[n:])
	s.scratch = s.scratch[:n]
	return h
}

// textBytes is the length of a text from the raw bytes between its quotes. A text that capture mode "shape" replaced by
// ~<bytes>:<hash> says its length itself.
func textBytes(raw []byte) int {
	if n, ok := shaped(raw); ok {
		return n
	}
	return len(raw)
}

// shaped reads ~<bytes>:<16 hex digits>, perhaps followed by a colon and a verdict.
func shaped(raw []byte) (bytes int, ok bool) {
	if len(raw) < len("~0:0123456789abcdef") || raw[0] != '~' {
		return 0, false
	}
	i := 1
	for ; i < len(raw) && i < 12 && raw[i] >= '0' && raw[i] <= '9'; i++ {
		bytes = bytes*10 + int(raw[i]-'0')
	}
	if i == 1 || len(raw) < i+17 || raw[i] != ':' || len(raw) > i+17 && raw[i+17] != ':' {
		return 0, false
	}
	for _, c := range raw[i+1 : i+17] {
		if hexDigits[c] < 0 {
			return 0, false
		}
	}
	return bytes, true
}

// typeAndName reads an object and returns these two members of it: a tool, or a choice of one.
func (s *scanner) typeAndName() (typ, name []byte) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			typ, _ = s.text()
		case "name":
			name, _ = s.text()
		default:
			s.skip()
		}
	}
	return typ, name
}
