package explain

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// byteOrder returns the byte order of UTF-16 input, which PowerShell writes when it redirects; nil for other encodings. It is
// detected by the byte order mark or by two ASCII characters.
func byteOrder(br *bufio.Reader) binary.ByteOrder {
	b, _ := br.Peek(4)
	if len(b) < 4 {
		return nil
	}
	switch {
	case b[0] == 0xff && b[1] == 0xfe, b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0:
		return binary.LittleEndian
	case b[0] == 0xfe && b[1] == 0xff, b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0:
		return binary.BigEndian
	}
	return nil
}

// A utf16Reader converts UTF-16 to UTF-8. Incomplete characters and surrogate pairs become U+FFFD.
type utf16Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	rest  []byte // unread bytes of the last character
	next  rune   // a unit read ahead, if ahead
	ahead bool
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(u.rest) == 0 {
			c, err := u.char()
			if err != nil {
				if n > 0 {
					return n, nil
				}
				return 0, err
			}
			u.rest = utf8.AppendRune(u.rest[:0], c)
		}
		k := copy(p[n:], u.rest)
		u.rest = u.rest[k:]
		if n += k; u.r.Buffered() == 0 {
			break // do not block while there is output
		}
	}
	return n, nil
}

// char reads one character.
func (u *utf16Reader) char() (rune, error) {
	c, err := u.unit()
	if err != nil || !utf16.IsSurrogate(c) {
		return c, err
	}
	low, err := u.unit()
	if err != nil {
		return utf8.RuneError, nil //nolint:nilerr // the next call returns it
	}
	if r := utf16.DecodeRune(c, low); r != utf8.RuneError {
		return r, nil
	}
	u.next, u.ahead = low, true
	return utf8.RuneError, nil
}

// unit reads one code unit.
func (u *utf16Reader) unit() (rune, error) {
	if u.ahead {
		u.ahead = false
		return u.next, nil
	}
	var b [2]byte
	switch _, err := io.ReadFull(u.r, b[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return utf8.RuneError, nil
	case err != nil:
		return 0, err
	}
	return rune(u.order.Uint16(b[:])), nil
}
