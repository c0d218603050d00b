package facts

import (
	"bytes"
	"errors"
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Errors of a scan. Facts read before the error are valid.
var (
	ErrTruncated = errors.New("body ends inside its JSON")
	ErrNotJSON   = errors.New("body is not the JSON value expected")
	ErrDialect   = errors.New("dialect has no scanner")
)

// A scanner reads JSON text once, without copying it. It checks the syntax of the objects and arrays that callers enter,
// and skips all other values by matching only their quotes and brackets. After the first error it is at the end of the
// text and every method returns immediately, so callers need to check err only at the end.
type scanner struct {
	b       []byte
	i       int
	err     error
	scratch []byte // decoded strings; append-only, so that slices of it remain valid
}

// kinds maps the first byte of a value to its kind.
var kinds = func() (k [256]Kind) {
	for i := range k {
		k[i] = Invalid
	}
	k['{'], k['['], k['"'], k['t'], k['f'], k['n'], k['-'] = Object, Array, String, Bool, Bool, Null, Number
	for c := '0'; c <= '9'; c++ {
		k[c] = Number
	}
	return k
}()

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.i = len(s.b)
}

// unexpected sets the error for an unexpected byte or an unexpected end of the text.
func (s *scanner) unexpected() {
	if s.i >= len(s.b) {
		s.fail(ErrTruncated)
		return
	}
	s.fail(ErrNotJSON)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

// enter steps into the current value if it is a container of kind k, and reports whether it has a first element. It skips
// values of other kinds.
func (s *scanner) enter(k Kind) bool {
	if s.kind() != k {
		s.skip()
		return false
	}
	return s.open()
}

// open steps into the object or array at the current byte and reports whether it has a first element.
func (s *scanner) open() bool {
	if s.i >= len(s.b) {
		s.fail(ErrTruncated)
		return false
	}
	end := s.b[s.i] + 2 // the codes of '{' and '}', and of '[' and ']', differ by two
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == end {
		s.i++
		return false
	}
	if s.i >= len(s.b) {
		s.fail(ErrTruncated)
		return false
	}
	return true
}

// more steps over the comma or the closing bracket after an element and reports whether another element follows.
func (s *scanner) more(end byte) bool {
	s.space()
	if s.i >= len(s.b) {
		s.fail(ErrTruncated)
		return false
	}
	switch s.b[s.i] {
	case ',':
		s.i++
		s.space()
		return true
	case end:
		s.i++
		return false
	}
	s.fail(ErrNotJSON)
	return false
}

// key reads the name of a member and stops at its value. The name is valid until the next call of key.
func (s *scanner) key() []byte {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.unexpected()
		return nil
	}
	start := s.i + 1
	end := jsonscan.StringEnd(s.b, start)
	if end < 0 {
		s.fail(ErrTruncated)
		return nil
	}
	s.i = end + 1
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		s.unexpected()
		return nil
	}
	s.i++
	s.space()
	name := s.b[start:end]
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	n := len(s.scratch)
	s.scratch = jsonscan.AppendText(s.scratch, name)
	name = s.scratch[n:]
	s.scratch = s.scratch[:n]
	return name
}

// kind returns the kind of the current value.
func (s *scanner) kind() Kind {
	if s.i >= len(s.b) {
		s.fail(ErrTruncated)
		return Invalid
	}
	k := kinds[s.b[s.i]]
	if k == Invalid {
		s.fail(ErrNotJSON)
	}
	return k
}

// raw steps over the current value, which has kind k, and returns its bytes, or the rest of the text if the value is
// invalid or truncated.
func (s *scanner) raw(k Kind) []byte {
	start, end := s.i, -1
	switch k {
	case String:
		if end = jsonscan.StringEnd(s.b, s.i+1); end >= 0 {
			end++
		}
	case Object, Array:
		end = jsonscan.ContainerEnd(s.b, s.i+1)
	case Null, Bool, Number:
		end = scalarEnd(s.b, s.i)
		if end < len(s.b) && !isScalar(s.b[start:end], k) {
			s.fail(ErrNotJSON)
			return s.b[start:]
		}
	case Absent, Invalid: // the scan has failed
		return nil
	}
	if end < 0 {
		s.fail(ErrTruncated)
		return s.b[start:]
	}
	s.i = end
	return s.b[start:end]
}

// skip steps over the current value and returns its kind.
func (s *scanner) skip() Kind {
	k := s.kind()
	s.raw(k)
	return k
}

// value steps over the current value and returns its kind and its bytes.
func (s *scanner) value() (Kind, []byte) {
	k := s.kind()
	return k, s.raw(k)
}

// isTrue and isFalse step over the current value and report whether it is the literal true or false, respectively.
func (s *scanner) isTrue() bool  { return string(s.raw(s.kind())) == "true" }
func (s *scanner) isFalse() bool { return string(s.raw(s.kind())) == "false" }

// text steps over the current value and returns its kind and, if it is a string, the decoded text, which is a slice of the
// body or of scratch.
func (s *scanner) text() ([]byte, Kind) {
	k := s.kind()
	v := s.raw(k)
	if k != String || s.err != nil {
		return nil, k
	}
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, '\\') < 0 {
		return slices.Clip(v), k
	}
	n := len(s.scratch)
	s.scratch = jsonscan.AppendText(s.scratch, v)
	return s.scratch[n:len(s.scratch):len(s.scratch)], k
}

// keep returns a copy of key in scratch. The copy is never nil.
func (s *scanner) keep(key []byte) []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, 0, 64)
	}
	n := len(s.scratch)
	s.scratch = append(s.scratch, key...)
	return s.scratch[n:len(s.scratch):len(s.scratch)]
}

// member steps over the current value. If the value is an object, member returns its string member with the given name,
// decoded, or nil if there is none.
func (s *scanner) member(name string) (text []byte) {
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) == name {
			text, _ = s.text()
		} else {
			s.skip()
		}
	}
	return text
}

// number steps over the current value and returns it if it is an integer of at most 18 digits, else 0.
func (s *scanner) number() int64 {
	k := s.kind()
	v := s.raw(k)
	if k != Number {
		return 0
	}
	neg := v[0] == '-'
	if neg {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 18 { // 18 digits always fit in an int64
		return 0
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		return -n
	}
	return n
}

// end sets an error if more text follows the value.
func (s *scanner) end() {
	s.space()
	if s.err == nil && s.i < len(s.b) {
		s.fail(ErrNotJSON)
	}
}

func scalarEnd(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

// isScalar reports whether v is a value of kind k. Literals are compared exactly; for a number, only its characters are
// checked.
func isScalar(v []byte, k Kind) bool {
	if k == Null {
		return string(v) == "null"
	}
	if k == Bool {
		return string(v) == "true" || string(v) == "false"
	}
	for _, c := range v {
		switch c {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-', '+', '.', 'e', 'E':
		default:
			return false
		}
	}
	return true
}
