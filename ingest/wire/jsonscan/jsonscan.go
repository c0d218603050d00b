package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// Match has the high bit set in each byte of the little-endian word v that is c, and perhaps in bytes above the lowest
// one.
func Match(v uint64, c byte) uint64 {
	v ^= lows * uint64(c)
	return (v - lows) &^ v & highs
}

// StringEnd returns the index of the quote that ends the string whose text starts at i, or -1.
func StringEnd(b []byte, i int) int {
	start := i
	if i+16 <= len(b) {
		m := Match(binary.LittleEndian.Uint64(b[i:]), '"')
		if m == 0 {
			i += 8
			m = Match(binary.LittleEndian.Uint64(b[i:]), '"')
		}
		if m == 0 {
			i += 8
		} else {
			i += bits.TrailingZeros64(m) >> 3
			if i == start || b[i-1] != '\\' {
				return i
			}
		}
	}
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if i == start || b[i-1] != '\\' {
			return i
		}
		j := i - 1
		for j > start && b[j-1] == '\\' {
			j--
		}
		if (i-j)&1 == 0 {
			return i
		}
		i++
	}
}

// ContainerEnd returns the index after the bracket that closes the container whose inside starts at i, or -1.
func ContainerEnd(b []byte, i int) int {
	for depth := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = StringEnd(b, i+1); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// Space returns the index of the first byte at or after i that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// NumberEnd returns where the number at i ends; false if there is none.
func NumberEnd(b []byte, i int) (end int, ok bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i, ok = digits(b, i); !ok {
			return i, false
		}
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i, true
}

// digits steps over one digit or more.
func digits(b []byte, i int) (end int, ok bool) {
	for end = i; end < len(b) && b[end] >= '0' && b[end] <= '9'; end++ {
	}
	return end, end > i
}
