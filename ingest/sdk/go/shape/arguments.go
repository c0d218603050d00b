package shape

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

const (
	maxDepth   = 1024    // maximum depth of containers in arguments; deeper ones become empty
	maxMembers = 1 << 16 // maximum number of members of open objects; further members are not sorted
)

// canonical is the state of shaping arguments. text is the result so far.
type canonical struct {
	text    []byte
	members []member // members of the open objects, outermost first
	sorted  []byte   // text of the sorted members of an object
	moves   int      // bytes that sorting may still move; limits hostile nesting, which would move all text at each level
}

// A member is the position of a member of an object in the text.
type member struct {
	key        [hashDigits]byte
	start, end int
}

// argumentsString shapes arguments that are a string. raw is the string without its quotes.
func (s *Shaper) argumentsString(raw []byte) {
	s.out = append(s.out, '"')
	if len(raw) > 0 || !s.inEvent {
		s.out = s.appendArguments(s.out, raw)
	}
	s.out = append(s.out, '"')
}

// appendArguments appends the shape of arguments as the text of a string, without quotes.
func (s *Shaper) appendArguments(dst, raw []byte) []byte {
	text := s.decode(raw)
	values := s.parseArguments(text)
	canon := s.text
	s.text = s.text[:0]
	switch {
	case values == 1:
		return appendQuoted(dst, canon)
	case values > 1:
		return append(s.appendShape(dst, text), verdictMulti...)
	case len(bytes.Trim(text, " \t\r\n")) == 0:
		text = nil
	}
	return append(s.appendShape(dst, text), verdictBad...)
}

// appendQuoted appends canonical text as the text of a string. Only its quotes need an escape.
func appendQuoted(dst, text []byte) []byte {
	for {
		n := bytes.IndexByte(text, '"')
		if n < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:n]...)
		dst = append(dst, '\\', '"')
		text = text[n+1:]
	}
}

// parseArguments stores the canonical shape of arguments in s.text. It returns the number of JSON values in b, 0 if b
// is not JSON. The shape is valid only for one value.
func (s *Shaper) parseArguments(b []byte) (values int) {
	s.resetArguments(len(b))
	for i := jsonscan.Space(b, 0); i < len(b); {
		end, ok := s.canon(b, i, 0)
		if !ok {
			s.broken = s.broken || s.long
			return 0
		}
		next := jsonscan.Space(b, end)
		if b[i] != '{' && b[i] != '[' && b[i] != '"' && next == end && end < len(b) {
			return 0 // 01 and truefalse are not two values
		}
		values, i = values+1, next
	}
	return values
}

func (s *Shaper) resetArguments(n int) {
	s.text, s.members, s.moves = s.text[:0], s.members[:0], 64*n
}

// argumentsValue shapes arguments that are not a string.
func (s *Shaper) argumentsValue() {
	s.resetArguments(len(s.b) - s.i)
	end, ok := s.canon(s.b, s.i, 0)
	if !ok {
		s.fail()
		return
	}
	s.i = end
	s.out = append(s.out, s.text...)
	s.text = s.text[:0]
}

// canon appends the canonical shape of the JSON value at i and returns the end of the value.
func (s *Shaper) canon(b []byte, i, depth int) (end int, ok bool) {
	if i >= len(b) || s.over() {
		return i, false
	}
	switch c := b[i]; {
	case c == '{' || c == '[':
		if depth == maxDepth {
			s.text = append(s.text, c, c+2)
			end = jsonscan.ContainerEnd(b, i+1)
			return end, end > 0
		}
		if c == '{' {
			return s.canonObject(b, i+1, depth+1)
		}
		return s.canonArray(b, i+1, depth+1)
	case c == '"':
		text, end, ok := s.innerString(b, i+1)
		if !ok {
			return i, false
		}
		s.text = append(s.text, '"')
		s.text = s.appendShape(s.text, text)
		s.text = append(s.text, '"')
		return end, true
	case c == '-' || c >= '0' && c <= '9':
		s.text = append(s.text, '0')
		return jsonscan.NumberEnd(b, i)
	}
	for _, literal := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(literal)) {
			s.text = append(s.text, literal...)
			return i + len(literal), true
		}
	}
	return i, false
}

func (s *Shaper) canonArray(b []byte, i, depth int) (end int, ok bool) {
	s.text = append(s.text, '[')
	for first := true; ; first = false {
		i = jsonscan.Space(b, i)
		if i < len(b) && b[i] == ']' && first {
			break
		}
		if i, ok = s.canon(b, i, depth); !ok {
			return i, false
		}
		if i = jsonscan.Space(b, i); i >= len(b) || b[i] != ',' {
			break
		}
		s.text = append(s.text, ',')
		i++
	}
	if i >= len(b) || b[i] != ']' {
		return i, false
	}
	s.text = append(s.text, ']')
	return i + 1, true
}

func (s *Shaper) canonObject(b []byte, i, depth int) (end int, ok bool) {
	s.text = append(s.text, '{')
	mark, start, all := len(s.members), len(s.text), true
	for first := true; ; first = false {
		i = jsonscan.Space(b, i)
		if i < len(b) && b[i] == '}' && first {
			break
		}
		if i >= len(b) || b[i] != '"' {
			return i, false
		}
		name, after, ok := s.innerString(b, i+1)
		if !ok {
			return i, false
		}
		m := member{start: len(s.text)}
		s.text = append(s.text, '"', 'k')
		s.text = s.appendHash(s.text, name)
		copy(m.key[:], s.text[len(s.text)-hashDigits:])
		s.text = append(s.text, '"', ':')
		if i = jsonscan.Space(b, after); i >= len(b) || b[i] != ':' {
			return i, false
		}
		if i, ok = s.canon(b, jsonscan.Space(b, i+1), depth); !ok {
			return i, false
		}
		m.end = len(s.text)
		if all = all && len(s.members) < maxMembers; all {
			s.members = append(s.members, m)
		}
		if i = jsonscan.Space(b, i); i >= len(b) || b[i] != ',' {
			break
		}
		s.text = append(s.text, ',')
		i++
	}
	if i >= len(b) || b[i] != '}' {
		return i, false
	}
	if all {
		s.sortMembers(s.members[mark:], start)
	}
	s.members = s.members[:mark]
	s.text = append(s.text, '}')
	return i + 1, true
}

// sortMembers sorts the members of an object by key. Their text begins at start.
func (s *Shaper) sortMembers(ms []member, start int) {
	byKey := func(a, b member) int { return cmp.Compare(string(a.key[:]), string(b.key[:])) }
	if slices.IsSortedFunc(ms, byKey) {
		return
	}
	if s.moves -= len(s.text) - start; s.moves < 0 {
		return
	}
	slices.SortStableFunc(ms, byKey)
	s.sorted = s.sorted[:0]
	for i, m := range ms {
		if i > 0 {
			s.sorted = append(s.sorted, ',')
		}
		s.sorted = append(s.sorted, s.text[m.start:m.end]...)
	}
	copy(s.text[start:], s.sorted)
}

// innerString decodes the string whose text begins at i. ok is false if the string is invalid. text is valid until
// the next call.
func (s *Shaper) innerString(b []byte, i int) (text []byte, end int, ok bool) {
	end = jsonscan.StringEnd(b, i)
	if end < 0 {
		return nil, i, false
	}
	raw := b[i:end]
	escaped := false
	for j := 0; j < len(raw); j++ {
		switch c := raw[j]; {
		case c < ' ':
			return nil, i, false
		case c == '\\':
			escaped = true
			if _, n := jsonscan.Escape(raw[j:]); n == 0 {
				return nil, i, false
			}
			j++ // skip the letter of the escape, for \\
		}
	}
	if !escaped {
		return raw, end + 1, true
	}
	s.inner = jsonscan.AppendText(s.inner[:0], raw)
	return s.inner, end + 1, true
}
