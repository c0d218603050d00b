package facts

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// maxArgsDepth is the maximum nesting depth of arguments that checkArgs checks; deeper arguments are ArgsUnknown.
const maxArgsDepth = 1024

// argsWhole is the verdict on a complete JSON value or a complete part of a value.
const argsWhole = ArgsObject

// checkArgs checks arguments in place. raw is the inside of a JSON string whose text should be JSON. The text is not
// unescaped into a buffer; the quotes of the inner JSON are the escaped quotes in raw.
func checkArgs(raw []byte) Args {
	if len(raw) > 0 && raw[0] == '~' {
		return checkShapedArgs(raw)
	}
	var verdict Args
	for i := argsSpace(raw, 0); i < len(raw); i = argsSpace(raw, i) {
		c, _ := argsChar(raw, i)
		end, v := argsValue(raw, i)
		switch {
		case v == ArgsUnknown:
			return ArgsUnknown
		case v == ArgsTruncated && verdict == ArgsUnknown:
			return ArgsTruncated
		case v != argsWhole: // including a truncated second value, which must not pass for truncated arguments
			return ArgsBad
		case verdict != ArgsUnknown:
			verdict = ArgsMultiple
		case c == '{':
			verdict = ArgsObject
		default:
			verdict = ArgsNotObject
		}
		if c != '{' && c != '[' && c != '"' && end < len(raw) && argsSpace(raw, end) == end {
			return ArgsBad // 01 and truefalse are not two values
		}
		i = end
	}
	if verdict == ArgsUnknown {
		return ArgsEmpty
	}
	return verdict
}

// checkText is checkArgs for a decoded text.
func checkText(text []byte) Args {
	var quoted [512]byte
	return checkArgs(appendQuoted(quoted[:0], text))
}

// checkShapedArgs returns the verdict on arguments that capture mode "shape" could not parse and replaced with
// ~<bytes>:<hash>:bad, or with ~<bytes>:<hash>:multi for several JSON values.
func checkShapedArgs(raw []byte) Args {
	switch n, ok := shaped(raw); {
	case ok && n == 0:
		return ArgsEmpty
	case ok && bytes.HasSuffix(raw, []byte(":multi")):
		return ArgsMultiple
	}
	return ArgsBad
}

// The next tokens that argsValue expects.
const (
	wantValue      = iota
	wantValueOrEnd // after [
	wantKey
	wantKeyOrEnd // after {
	wantMore     // after a value: a comma or the end of its container
)

// argsValue reads the JSON value at i and returns its end. The verdict is argsWhole for a complete value of any type, else
// ArgsTruncated, ArgsBad, or ArgsUnknown if the value is nested too deep or raw is not the inside of a JSON string.
func argsValue(raw []byte, i int) (int, Args) {
	var objects [maxArgsDepth / 64]uint64 // bit d is set if the container at depth d is an object
	depth, want := 0, wantValue
	for {
		i = argsSpace(raw, i)
		c, n := argsChar(raw, i)
		if n <= 0 {
			return i, argsStop(n)
		}
		switch want {
		case wantKey, wantKeyOrEnd:
			if c == '}' && want == wantKeyOrEnd {
				break
			}
			if c != '"' {
				return i, ArgsBad
			}
			end, v := argsString(raw, i+n)
			if v != argsWhole {
				return i, v
			}
			i = argsSpace(raw, end)
			if c, n = argsChar(raw, i); n <= 0 {
				return i, argsStop(n)
			}
			if c != ':' {
				return i, ArgsBad
			}
			i += n
			want = wantValue
			continue
		case wantMore:
			object := objects[(depth-1)/64]>>((depth-1)%64)&1 == 1
			switch {
			case c == ',' && object:
				want = wantKey
			case c == ',':
				want = wantValue
			case c != '}' && object, c != ']' && !object:
				return i, ArgsBad
			}
			if c == ',' {
				i += n
				continue
			}
		case wantValueOrEnd:
			if c == ']' {
				break
			}
			fallthrough
		case wantValue:
			switch c {
			case '{', '[':
				if depth == maxArgsDepth {
					return i, ArgsUnknown
				}
				bit := uint64(1) << (depth % 64)
				if c == '{' {
					objects[depth/64] |= bit
					want = wantKeyOrEnd
				} else {
					objects[depth/64] &^= bit
					want = wantValueOrEnd
				}
				depth++
				i += n
				continue
			}
			end, v := argsScalar(raw, i, c, n)
			if v != argsWhole || depth == 0 {
				return end, v
			}
			i, want = end, wantMore
			continue
		}
		// The innermost container ends here.
		i += n
		if depth--; depth == 0 {
			return i, argsWhole
		}
		want = wantMore
	}
}

// argsStop returns the verdict if argsChar cannot read another character; n is the width that argsChar returned.
func argsStop(n int) Args {
	if n == 0 {
		return ArgsTruncated
	}
	return ArgsUnknown
}

// argsChar decodes the character at i. Characters beyond ASCII are returned as 0x80. The width is 0 at the end of the text
// and -1 at a backslash that does not start an escape.
func argsChar(raw []byte, i int) (c byte, width int) {
	if i >= len(raw) {
		return 0, 0
	}
	if raw[i] != '\\' {
		return min(raw[i], 0x80), 1
	}
	if i+1 < len(raw) && raw[i+1] == '"' {
		return '"', 2
	}
	r, n := jsonscan.Escape(raw[i:])
	if n == 0 {
		return 0, -1
	}
	return byte(min(r, 0x80)), n
}

func argsSpace(raw []byte, i int) int {
	for i < len(raw) {
		if raw[i] > ' ' && raw[i] != '\\' {
			return i
		}
		switch c, n := argsChar(raw, i); c {
		case ' ', '\n', '\t', '\r':
			i += n
		default:
			return i
		}
	}
	return i
}

// argsString reads an inner string; i is the index after its opening quote.
func argsString(raw []byte, i int) (int, Args) {
	for {
		i = nextBackslash(raw, i)
		// Fast path for the usual escapes, which all encoders write alike: \" ends the string, \\n is a line feed inside it.
		if i+3 < len(raw) {
			switch raw[i+1] {
			case '"':
				return i + 2, argsWhole
			case '\\':
				switch raw[i+2] {
				case 'n', 't', 'r':
					i += 3
					continue
				case '\\':
					if raw[i+3] == '"' || raw[i+3] == '\\' {
						i += 4
						continue
					}
				}
			}
		}
		c, n := argsChar(raw, i)
		if n <= 0 {
			return i, argsStop(n)
		}
		i += n
		switch {
		case c == '"':
			return i, argsWhole
		case c < ' ':
			return i, ArgsBad
		case c != '\\':
			continue
		}
		if c, n = argsChar(raw, i); n <= 0 {
			return i, argsStop(n)
		}
		i += n
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if c, n = argsChar(raw, i); n <= 0 {
					return i, argsStop(n)
				}
				if jsonscan.HexDigits[c] < 0 {
					return i, ArgsBad
				}
				i += n
			}
		default:
			return i, ArgsBad
		}
	}
}

// nextBackslash returns the index of the next backslash at or after i, or len(raw).
func nextBackslash(raw []byte, i int) int {
	for i+8 <= len(raw) {
		if m := jsonscan.Match(binary.LittleEndian.Uint64(raw[i:]), '\\'); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(raw) && raw[i] != '\\' {
		i++
	}
	return i
}

// argsScalar reads a string, number or literal that starts with the character c of width n.
func argsScalar(raw []byte, i int, c byte, n int) (int, Args) {
	switch {
	case c == '"':
		return argsString(raw, i+n)
	case c == 't':
		return argsLiteral(raw, i, "true")
	case c == 'f':
		return argsLiteral(raw, i, "false")
	case c == 'n':
		return argsLiteral(raw, i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return argsNumber(raw, i)
	}
	return i, ArgsBad
}

func argsLiteral(raw []byte, i int, literal string) (int, Args) {
	for _, want := range []byte(literal) {
		c, n := argsChar(raw, i)
		if n <= 0 {
			return i, argsStop(n)
		}
		if c != want {
			return i, ArgsBad
		}
		i += n
	}
	return i, argsWhole
}

func argsNumber(raw []byte, i int) (int, Args) {
	c, n := argsChar(raw, i)
	if c == '-' {
		i += n
		c, n = argsChar(raw, i)
	}
	var v Args
	if c == '0' {
		i += n
	} else if i, v = argsDigits(raw, i); v != argsWhole {
		return i, v
	}
	if c, n = argsChar(raw, i); c == '.' {
		if i, v = argsDigits(raw, i+n); v != argsWhole {
			return i, v
		}
		c, n = argsChar(raw, i)
	}
	if c == 'e' || c == 'E' {
		i += n
		if c, n = argsChar(raw, i); c == '+' || c == '-' {
			i += n
		}
		return argsDigits(raw, i)
	}
	return i, argsWhole
}

// argsDigits reads one or more digits.
func argsDigits(raw []byte, i int) (int, Args) {
	for first := true; ; first = false {
		c, n := argsChar(raw, i)
		if c < '0' || c > '9' {
			switch {
			case !first:
				return i, argsWhole
			case n <= 0:
				return i, argsStop(n)
			}
			return i, ArgsBad
		}
		i += n
	}
}
