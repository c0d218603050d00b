package shape

// The tokens that free may expect next.
const (
	wantValue      = iota
	wantValueOrEnd // after [
	wantKey
	wantKeyOrEnd // after {
	wantMore     // after a value: a comma or the end of its container
)

// free shapes a value of free content, or copies it if keep is set. It does not recurse: each level of nesting costs
// one bit.
func (s *Shaper) free(keep bool) {
	depth, want := 0, wantValue
	for !s.broken {
		s.space()
		if s.i >= len(s.b) || s.over() {
			s.fail()
			return
		}
		c := s.b[s.i]
		switch {
		case want == wantMore:
			object := s.stack[(depth-1)>>6]>>((depth-1)&63)&1 == 1
			switch {
			case c == ',' && object:
				want = wantKey
			case c == ',':
				want = wantValue
			case c == '}' && object, c == ']' && !object:
				depth--
			default:
				s.fail()
				return
			}
			s.out = append(s.out, c)
			s.i++
		case c == '}' && want == wantKeyOrEnd, c == ']' && want == wantValueOrEnd:
			depth--
			s.out = append(s.out, c)
			s.i++
			want = wantMore
		case want == wantKey || want == wantKeyOrEnd:
			raw := s.rawString()
			if keep && len(raw) <= maxKey {
				s.quoted(raw)
			} else {
				s.hashedKey(raw)
			}
			s.colon()
			want = wantValue
			continue
		case c == '{' || c == '[':
			want = s.push(depth, c)
			depth++
			s.out = append(s.out, c)
			s.i++
			continue
		case c == '"':
			if raw := s.rawString(); keep {
				s.quoted(raw)
			} else {
				s.freeString(raw)
			}
			want = wantMore
		default:
			s.scalar(keep)
			want = wantMore
		}
		if depth == 0 && (want == wantMore) {
			return
		}
	}
}

// push stores the kind of the container that begins at depth and returns the next expected token.
func (s *Shaper) push(depth int, c byte) (want int) {
	if depth>>6 == len(s.stack) {
		s.stack = append(s.stack, 0)
	}
	bit := uint64(1) << (depth & 63)
	if c == '{' {
		s.stack[depth>>6] |= bit
		return wantKeyOrEnd
	}
	s.stack[depth>>6] &^= bit
	return wantValueOrEnd
}

// freeString shapes a string of free content.
func (s *Shaper) freeString(raw []byte) {
	s.out = append(s.out, '"')
	if len(raw) > 0 || !s.inEvent {
		s.out = s.appendShape(s.out, s.decode(raw))
	}
	s.out = append(s.out, '"')
}

// hashedKey writes the hash of a key of free content.
func (s *Shaper) hashedKey(raw []byte) {
	s.out = append(s.out, '"', 'k')
	s.out = s.appendHash(s.out, s.decode(raw))
	s.out = append(s.out, '"')
}
