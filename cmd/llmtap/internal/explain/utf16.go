package explain

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// wide is the byte order of an input in UTF-16, which the shell of Windows redirects to; nil for any other. Without a
// mark at its start two ASCII characters show it.
func wide(br *bufio.Reader) binary.ByteOrder {
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

// A utf16Reader reads UTF-16 as UTF-8. Half of a character, and half of a pair, are read as U+FFFD.
type utf16Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	rest  []byte // of the last character, not yet read
	next  rune   // a unit that was read ahead, if any
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
			break // what is here is not kept waiting for what is not
		}
	}
	return n, nil
}

// char reads a character.
func (u *utf16Reader) char() (rune, error) {
	c, err := u.unit()
	if err != nil || !utf16.IsSurrogate(c) {
		return c, err
	}
	low, err := u.unit()
	if err != nil {
		return utf8.RuneError, nil //nolint:nilerr // the next call meets the end again
	}
	if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
		return both, nil
	}
	u.next, u.ahead = low, true
	return utf8.RuneError, nil
}

// unit reads two bytes.
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
