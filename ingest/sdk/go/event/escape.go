package event

import (
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// plain reports whether s[i] needs no escape in a header value. Only printable ASCII needs none, except for the
// percent sign and for spaces at either end, which NATS clients trim.
func plain(s string, i int) bool {
	c := s[i]
	return c > ' ' && c < 0x7f && c != '%' || c == ' ' && i > 0 && i < len(s)-1
}

// escape percent-encodes the bytes of s that are not plain. It truncates the result to MaxHeaderValue bytes, never
// inside an escape or a UTF-8 sequence, and then removes trailing spaces.
func escape(s string) string {
	i := 0
	for i < len(s) && plain(s, i) {
		i++
	}
	if i == len(s) && i <= MaxHeaderValue {
		return s
	}
	b := make([]byte, 0, min(MaxHeaderValue, 3*len(s)))
	for i := 0; i < len(s); {
		size := 1
		if s[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(s[i:]) // 1 for an invalid byte, which is encoded too
		}
		if plain(s, i) {
			if len(b) == MaxHeaderValue {
				return trimRight(b)
			}
			b = append(b, s[i])
			i++
			continue
		}
		if len(b)+3*size > MaxHeaderValue {
			return trimRight(b)
		}
		for end := i + size; i < end; i++ {
			b = append(b, '%', upperHex[s[i]>>4], upperHex[s[i]&15])
		}
	}
	return string(b)
}

func trimRight(b []byte) string { return strings.TrimRight(string(b), " ") }

// unescape is the inverse of escape. It copies invalid escapes and unescaped bytes unchanged, and truncates s to
// MaxHeaderValue bytes.
func unescape(s string) string {
	s = s[:min(len(s), MaxHeaderValue)]
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	b := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, ok1 := nibble(s[i+1])
			lo, ok2 := nibble(s[i+2])
			if ok1 && ok2 {
				b = append(b, hi<<4|lo)
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func nibble(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
