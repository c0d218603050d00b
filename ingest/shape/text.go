package shape

import (
	"bytes"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	hashDigits = 16
	knownBits  = 11 // of the number of texts that are remembered
	maxKnown   = 40 // bytes of a text that is remembered
)

// A knownText is a short text and its hash: keys and the words of schemas come again and again.
type knownText struct {
	n    int // length; 0: none
	text [maxKnown]byte
	hash [hashDigits]byte
}

// appendShape appends ~<bytes>:<hash>.
func (s *Shaper) appendShape(dst, text []byte) []byte {
	dst = append(dst, '~')
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(dst, ':')
	return s.appendHash(dst, text)
}

// appendHash appends the first 16 hex digits of the text's HMAC.
func (s *Shaper) appendHash(dst, text []byte) []byte {
	if len(text) == 0 || len(text) > maxKnown {
		var digits [hashDigits]byte
		s.sum(text, &digits)
		return append(dst, digits[:]...)
	}
	k := &s.known[maphash.Bytes(s.seed, text)>>(64-knownBits)]
	if string(k.text[:k.n]) != string(text) {
		s.sum(text, &k.hash)
		k.n = copy(k.text[:], text)
	}
	return append(dst, k.hash[:]...)
}

func (s *Shaper) sum(text []byte, digits *[hashDigits]byte) {
	s.mac.Reset()
	_, _ = s.mac.Write(text) // a hash takes everything
	hex.Encode(digits[:], s.mac.Sum(s.digest[:0])[:hashDigits/2])
}

// decode returns the text of what is between the quotes of a string. It is valid until the next call.
func (s *Shaper) decode(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	s.scratch = appendText(s.scratch[:0], raw)
	return s.scratch
}

// appendText appends the text that raw, the inside of a JSON string, stands for. A lone surrogate becomes U+FFFD; an
// escape that JSON does not know stays as it is.
func appendText(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
		r, w := escape(raw)
		switch {
		case w == 0:
			dst, w = append(dst, '\\'), 1
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		default:
			dst = utf8.AppendRune(dst, r)
		}
		raw = raw[w:]
	}
}

// plain holds what the one letter of an escape stands for; 0: it is none.
var plain = [256]byte{'"': '"', '\\': '\\', '/': '/', 'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f'}

// escape decodes the escape at the start of raw and returns its width, 0 if it is none.
func escape(raw []byte) (r rune, width int) {
	if len(raw) < 2 {
		return 0, 0
	}
	if c := plain[raw[1]]; c != 0 {
		return rune(c), 2
	}
	if r = hex4(raw); r < 0 {
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

// hex4 is the value of the \uXXXX at the start of raw, or -1.
func hex4(raw []byte) (r rune) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	for _, c := range raw[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}
