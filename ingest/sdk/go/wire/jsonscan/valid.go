package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is the nesting limit of encoding/json.
const maxDepth = 10_000

// Valid reports whether b is one JSON value. It accepts the same texts as json.Valid.
func Valid(b []byte) bool {
	end, ok := ValueEnd(b, Space(b, 0))
	return ok && Space(b, end) == len(b)
}

// ValueEnd validates the JSON value that starts at i and returns the index after it. If ok is false and end is len(b), b
// ends inside the value; otherwise b[end] is invalid. A number at the end of b is complete.
func ValueEnd(b []byte, i int) (end int, ok bool) {
	var objects [maxDepth/64 + 1]uint64 // bit per open container: set for an object
	depth, key := 0, false
	for {
		if i >= len(b) {
			return len(b), false
		}
		c := b[i]
		switch {
		case c == '"':
			if i, ok = stringEnd(b, i+1); !ok {
				return i, false
			}
			if key {
				if i = Space(b, i); i >= len(b) || b[i] != ':' {
					return i, false
				}
				i, key = Space(b, i+1), false
				continue
			}
		case key:
			return i, false
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i, false
			}
			word, bit := &objects[depth/64], uint64(1)<<(depth%64)
			if *word &^= bit; c == '{' {
				*word |= bit
			}
			if i = Space(b, i+1); i < len(b) && b[i] == c+2 { // the codes of '{' and '}', and of '[' and ']', differ by two
				break
			}
			key = c == '{'
			continue
		case c == 't' || c == 'f' || c == 'n':
			if i, ok = literalEnd(b, i, c); !ok {
				return i, false
			}
		default:
			if i, ok = NumberEnd(b, i); !ok {
				return i, false
			}
		}
		// A value, or all elements of a container, ended before i.
		for {
			if depth == 0 {
				return i, true
			}
			if i = Space(b, i); i >= len(b) {
				return len(b), false
			}
			object := objects[depth/64]>>(depth%64)&1 == 1
			if b[i] == ',' {
				i, key = Space(b, i+1), object
				break
			}
			if closing := b[i]; object && closing != '}' || !object && closing != ']' {
				return i, false
			}
			i++
			depth--
		}
	}
}

// stringEnd validates the string after its opening quote and returns the index after its closing quote.
func stringEnd(b []byte, i int) (end int, ok bool) {
	for {
		for i+8 <= len(b) {
			v := binary.LittleEndian.Uint64(b[i:])
			// v ^ 2 is below 0x21 for a quote (0x22) and for control characters, which stay below 0x20. As in Match, bytes
			// above the lowest match may be wrong.
			quote := ((v ^ lows*2) - lows*0x21) &^ v
			slash := ((v ^ lows*'\\') - lows) &^ v
			if m := (quote | slash) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return len(b), false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < 0x20:
			return i, false
		case c != '\\':
			i++
		case i+1 < len(b) && letters[b[i+1]] != 0:
			i += 2
		default:
			if i, ok = escapeEnd(b, i+1); !ok {
				return i, false
			}
		}
	}
}

// escapeEnd validates the escape after its backslash.
func escapeEnd(b []byte, i int) (end int, ok bool) {
	if i >= len(b) {
		return len(b), false
	}
	if letters[b[i]] != 0 {
		return i + 1, true
	}
	if b[i] != 'u' {
		return i, false
	}
	for range 4 {
		if i++; i >= len(b) {
			return len(b), false
		}
		if HexDigits[b[i]] < 0 {
			return i, false
		}
	}
	return i + 1, true
}

// literalEnd validates the literal that starts with c.
func literalEnd(b []byte, i int, c byte) (end int, ok bool) {
	literal := "null"
	switch c {
	case 't':
		literal = "true"
	case 'f':
		literal = "false"
	}
	for j := range len(literal) {
		if i+j >= len(b) || b[i+j] != literal[j] {
			return min(i+j, len(b)), false
		}
	}
	return i + len(literal), true
}
