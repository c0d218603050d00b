package statement

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	end    tokenKind = iota
	word             // keyword, bare identifier or number
	quoted           // "identifier" or `identifier`
	str              // 'string' or $tag$ string $tag$
	punct            // any other single character
)

// A token is a piece of SQL; pos and end are byte offsets in the text.
type token struct {
	kind     tokenKind
	pos, end int
}

// A scanner cuts SQL into tokens as ClickHouse's lexer does: nested comments, # comments, heredocs, typographic
// quotes. What never ends runs to the end of the text.
type scanner struct {
	sql string
	pos int
}

func (s *scanner) next() token {
	s.skipSpace()
	start := s.pos
	if start >= len(s.sql) {
		return token{end, len(s.sql), len(s.sql)}
	}
	c := s.sql[start]
	switch {
	case c == '\'':
		s.quote("'", true)
		return token{str, start, s.pos}
	case c == '"' || c == '`':
		s.quote(string(c), true)
		return token{quoted, start, s.pos}
	case strings.HasPrefix(s.sql[start:], "‘"):
		s.pos += len("‘")
		s.quoteEnd("’", false)
		return token{str, start, s.pos}
	case strings.HasPrefix(s.sql[start:], "“"):
		s.pos += len("“")
		s.quoteEnd("”", false)
		return token{quoted, start, s.pos}
	case c == '$' && s.heredoc():
		return token{str, start, s.pos}
	case wordByte(c):
		for s.pos < len(s.sql) && (wordByte(s.sql[s.pos]) || s.sql[s.pos] == '$') {
			s.pos++
		}
		return token{word, start, s.pos}
	}
	_, n := utf8.DecodeRuneInString(s.sql[start:])
	s.pos += n
	return token{punct, start, s.pos}
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.sql) {
		rest := s.sql[s.pos:]
		switch {
		case rest[0] <= ' ':
			s.pos++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				s.pos += i + 1
			} else {
				s.pos = len(s.sql)
			}
		case strings.HasPrefix(rest, "/*"):
			s.comment()
		case strings.HasPrefix(rest, "\u00a0"), strings.HasPrefix(rest, "\ufeff"):
			_, n := utf8.DecodeRuneInString(rest)
			s.pos += n
		default:
			return
		}
	}
}

// comment skips a /* comment */, which may hold others.
func (s *scanner) comment() {
	depth := 0
	for s.pos < len(s.sql) {
		switch rest := s.sql[s.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
			if depth == 0 {
				return
			}
		default:
			s.pos++
		}
	}
}

func (s *scanner) quote(q string, escapes bool) {
	s.pos += len(q)
	s.quoteEnd(q, escapes)
}

// quoteEnd skips to behind the closing quote q; a doubled quote and, with escapes, a backslash do not close.
func (s *scanner) quoteEnd(q string, escapes bool) {
	for s.pos < len(s.sql) {
		switch rest := s.sql[s.pos:]; {
		case escapes && rest[0] == '\\':
			s.pos = min(s.pos+2, len(s.sql))
		case escapes && strings.HasPrefix(rest, q+q):
			s.pos += 2 * len(q)
		case strings.HasPrefix(rest, q):
			s.pos += len(q)
			return
		default:
			s.pos++
		}
	}
}

// heredoc skips a $tag$ … $tag$ string and says whether there is one.
func (s *scanner) heredoc() bool {
	rest := s.sql[s.pos:]
	n := 1
	for n < len(rest) && wordByte(rest[n]) {
		n++
	}
	if n == len(rest) || rest[n] != '$' {
		return false
	}
	tag := rest[:n+1]
	i := strings.Index(rest[n+1:], tag)
	if i < 0 {
		return false
	}
	s.pos += n + 1 + i + len(tag)
	return true
}
