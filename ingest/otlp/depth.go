package otlp

import "errors"

// maxBrackets is the maximum nesting of brackets in JSON, in which a value has up to three. Its decoder recurses, and has no limit of its
// own, unlike that of protobuf.
const maxBrackets = 3 * 128

var errNesting = errors.New("values are nested too deeply")

// tooDeep reports whether brackets in JSON are nested too deeply.
func tooDeep(b []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxBrackets {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
