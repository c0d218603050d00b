package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends the decoded text of raw, a JSON string without its quotes. A lone surrogate becomes U+FFFD, as
// in encoding/json; invalid escapes are copied unchanged.
func AppendText(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
		r, w := Escape(raw)
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

// letters contains the characters of one-letter escapes; 0 for other letters.
var letters = [256]byte{'"': '"', '\\': '\\', '/': '/', 'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f'}

// Escape decodes the escape at the start of raw and returns its width; 0 if raw does not begin with an escape.
func Escape(raw []byte) (r rune, width int) {
	if len(raw) < 2 {
		return 0, 0
	}
	if c := letters[raw[1]]; c != 0 {
		return rune(c), 2
	}
	if r = Hex4(raw); r < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, Hex4(raw[6:])); pair != utf8.RuneError {
			return pair, 12
		}
		r = utf8.RuneError
	}
	return r, 6
}

// Hex4 returns the value of the \uXXXX at the start of raw, or -1.
func Hex4(raw []byte) (r rune) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	for _, c := range raw[2:6] {
		d := HexDigits[c]
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// HexDigits contains the values of hexadecimal digits; -1 for other bytes.
var HexDigits = func() (h [256]int8) {
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
