package shape

import (
	"bytes"
	"hash/maphash"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

const (
	maxKey  = 64      // maximum length of a retained key
	maxText = 4 << 10 // maximum length of the retained text of an error
)

// fail ends the walk, because the text is not JSON or its shape is too long.
func (s *Shaper) fail() {
	s.broken, s.i = true, len(s.b)
}

// over reports whether the shape exceeds its limit or has exceeded it before.
func (s *Shaper) over() bool {
	s.long = s.long || len(s.out)+len(s.text) > s.limit
	return s.long
}

func (s *Shaper) space() { s.i = jsonscan.Space(s.b, s.i) }

// value shapes the current value, whose position in the body is n.
func (s *Shaper) value(n *node) {
	if s.i >= len(s.b) || s.over() {
		s.fail()
		return
	}
	if n == nil {
		s.free(false)
		return
	}
	switch c := s.b[s.i]; {
	case n.below:
		s.free(true)
	case n.arguments && c != '"':
		s.argumentsValue()
	case c == '{' && n.kids != nil:
		s.object(n)
	case c == '[' && n.elem != nil:
		s.array(n)
	case c == '{' || c == '[':
		s.free(false)
	case c == '"':
		s.str(n)
	default:
		start := s.i
		s.scalar(n.keep)
		s.note(n, s.b[start:s.i])
	}
}

// object shapes an object whose keys are retained.
func (s *Shaper) object(n *node) {
	s.out = append(s.out, '{')
	s.i++
	for s.space(); s.i < len(s.b) && s.b[s.i] != '}'; {
		raw := s.rawString()
		name := raw
		if bytes.IndexByte(raw, '\\') >= 0 {
			name = s.decode(raw)
		}
		kid := n.kids[string(name)]
		if len(name) > maxKey {
			s.hashedKey(raw)
		} else {
			s.out = append(s.out, '"')
			s.out = append(s.out, raw...)
			s.out = append(s.out, '"')
		}
		s.colon()
		s.value(kid)
		if !s.comma('}') {
			break
		}
	}
	s.closing('}')
}

func (s *Shaper) array(n *node) {
	s.out = append(s.out, '[')
	s.i++
	for s.space(); s.i < len(s.b) && s.b[s.i] != ']'; {
		s.element(n.elem)
		if !s.comma(']') {
			break
		}
	}
	s.closing(']')
}

// element shapes an element of an array and, in a stream, assigns its fragments.
func (s *Shaper) element(n *node) {
	if n.own == 0 && n.run == nil && n.calls == nil {
		s.value(n)
		return
	}
	first := s.enter(n)
	s.value(n)
	s.leave(n, first)
}

// colon copies the colon between a key and its value.
func (s *Shaper) colon() {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		s.fail()
		return
	}
	s.out = append(s.out, ':')
	s.i++
	s.space()
}

// comma skips the comma after an element and reports whether there is another element. end is the closing bracket.
func (s *Shaper) comma(end byte) bool {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ',' {
		return false
	}
	s.i++
	s.space()
	if s.i >= len(s.b) || s.b[s.i] == end {
		s.fail()
		return false
	}
	s.out = append(s.out, ',')
	return true
}

func (s *Shaper) closing(end byte) {
	if s.i >= len(s.b) || s.b[s.i] != end {
		s.fail()
		return
	}
	s.out = append(s.out, end)
	s.i++
}

// rawString skips the current string and returns its encoded text, without quotes.
func (s *Shaper) rawString() []byte {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.fail()
		return nil
	}
	start := s.i + 1
	end := jsonscan.StringEnd(s.b, start)
	if end < 0 {
		s.fail()
		return nil
	}
	s.i = end + 1
	return s.b[start:end]
}

// str shapes a string at a protocol position.
func (s *Shaper) str(n *node) {
	start := s.base + s.i + 1
	raw := s.rawString()
	if s.broken {
		return
	}
	s.note(n, raw)
	switch {
	case n.join != nil && s.inEvent && s.room():
		s.out = append(s.out, '"', '"')
		s.pending = append(s.pending, pending{join: n.join, out: len(s.out) - 1, start: start, end: start + len(raw), args: n.join.arguments})
	case n.keep:
		s.quoted(raw)
	case n.text:
		s.out = append(s.out, '"')
		s.out = append(redact.Append(s.out, clip(raw)), '"')
	case n.arguments:
		s.argumentsString(raw)
	default:
		s.freeString(raw)
	}
}

func (s *Shaper) quoted(raw []byte) {
	s.out = append(s.out, '"')
	s.out = append(s.out, raw...)
	s.out = append(s.out, '"')
}

// clip returns the first maxText bytes of an encoded text. It splits no character, escape or word.
func clip(raw []byte) []byte {
	if len(raw) <= maxText {
		return raw
	}
	for i := 0; ; {
		_, n := utf8.DecodeRune(raw[i:])
		if raw[i] == '\\' {
			if _, n = jsonscan.Escape(raw[i:]); n == 0 {
				n = 1
			}
		}
		if i+n > maxText {
			return redact.Truncate(raw, i)
		}
		i += n
	}
}

// scalar copies a number or literal. It replaces a number with 0 unless keep is set.
func (s *Shaper) scalar(keep bool) {
	start := s.i
	number := s.b[s.i] == '-' || s.b[s.i] >= '0' && s.b[s.i] <= '9'
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
			s.i++
			continue
		}
		break
	}
	switch raw := s.b[start:s.i]; {
	case number && keep && isNumber(raw):
		s.out = append(s.out, raw...)
	case number && isNumber(raw):
		s.out = append(s.out, '0')
	case string(raw) == "true" || string(raw) == "false" || string(raw) == "null":
		s.out = append(s.out, raw...)
	default:
		s.fail()
	}
}

func isNumber(raw []byte) bool {
	end, ok := jsonscan.NumberEnd(raw, 0)
	return ok && end == len(raw)
}

// note stores a value that distinguishes fragments of a stream.
func (s *Shaper) note(n *node, raw []byte) {
	if !s.inEvent || n.slot == 0 && n.head == headNone {
		return
	}
	h := maphash.Bytes(s.seed, raw) | 1
	if n.slot > 0 {
		switch string(raw) {
		case "0", "false", "null", "":
			h = 0
		}
		s.slots[n.slot-1] = h
	}
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	switch n.head {
	case headID:
		s.head.id = h
	case headName:
		s.head.named = true
	case headIndex:
		s.head.index = h
	case headNone:
	}
}
