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

// Match returns a word whose high bit is set in each byte for which the byte of v is c. Bytes above the lowest match
// may be wrong; the lowest one (in little-endian order, the first) is right.
func Match(v uint64, c byte) uint64 {
	v ^= lows * uint64(c)
	return (v - lows) &^ v & highs
}

// StringEnd returns the index of the closing quote of a string, or -1; i is the index after its opening quote.
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

// ContainerEnd returns the index after the closing bracket of a container, or -1; i is the index after its opening
// bracket.
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

// NumberEnd returns the end of the number at i. ok is false if there is no number at i.
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

// digits returns the end of the digits at i. ok is false if there are none.
func digits(b []byte, i int) (end int, ok bool) {
	for end = i; end < len(b) && b[end] >= '0' && b[end] <= '9'; end++ {
	}
	return end, end > i
}
