// Package sqltext splits ClickHouse statements into tokens, and quotes names and strings for them.
package sqltext

import (
	"strings"
	"unicode/utf8"
)

// A Kind is the kind of a Token.
type Kind uint8

// Kinds of tokens.
const (
	End        Kind = iota
	Word            // keyword, bare identifier or number
	QuotedName      // "identifier" or `identifier`
	String          // 'string' or $tag$ string $tag$
	Punct           // any other single character
)

// A Token is a piece of a statement.
type Token struct {
	Kind Kind
	Text string
	Pos  int // byte offset in the statement
}

// End is the byte offset of the end of t.
func (t Token) End() int { return t.Pos + len(t.Text) }

// Is reports whether t is the keyword or punctuation text.
func (t Token) Is(text string) bool {
	return (t.Kind == Word || t.Kind == Punct) && strings.EqualFold(t.Text, text)
}

// A Scanner splits SQL into tokens as ClickHouse's lexer does, including nested comments, # comments, heredocs and
// typographic quotes. An unterminated string or comment extends to the end of the text.
type Scanner struct {
	SQL string
	pos int
}

// Next returns the next token. At the end of the text, its kind is End.
func (s *Scanner) Next() Token {
	s.skipSpace()
	start := s.pos
	kind := s.skipToken()
	return Token{kind, s.SQL[start:s.pos], start}
}

func (s *Scanner) skipToken() Kind {
	if s.pos >= len(s.SQL) {
		return End
	}
	rest := s.SQL[s.pos:]
	c := rest[0]
	switch {
	case c == '\'':
		s.quoted("'", "'", true)
		return String
	case c == '"' || c == '`':
		s.quoted(string(c), string(c), true)
		return QuotedName
	case strings.HasPrefix(rest, "‘"):
		s.quoted("‘", "’", false)
		return String
	case strings.HasPrefix(rest, "“"):
		s.quoted("“", "”", false)
		return QuotedName
	case c == '$' && s.heredoc():
		return String
	case wordByte(c):
		for s.pos < len(s.SQL) && (wordByte(s.SQL[s.pos]) || s.SQL[s.pos] == '$') {
			s.pos++
		}
		return Word
	}
	_, n := utf8.DecodeRuneInString(rest)
	s.pos += n
	return Punct
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (s *Scanner) skipSpace() {
	for s.pos < len(s.SQL) {
		rest := s.SQL[s.pos:]
		switch {
		case rest[0] <= ' ':
			s.pos++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				s.pos += i + 1
			} else {
				s.pos = len(s.SQL)
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

// comment skips a /* comment */, which may contain other comments.
func (s *Scanner) comment() {
	depth := 0
	for s.pos < len(s.SQL) {
		switch rest := s.SQL[s.pos:]; {
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

// quoted skips text in quotes. If escapes is set, a doubled closing quote or one after a backslash does not end the
// text.
func (s *Scanner) quoted(open, closing string, escapes bool) {
	s.pos += len(open)
	for s.pos < len(s.SQL) {
		switch rest := s.SQL[s.pos:]; {
		case escapes && rest[0] == '\\':
			s.pos = min(s.pos+2, len(s.SQL))
		case escapes && strings.HasPrefix(rest, closing+closing):
			s.pos += 2 * len(closing)
		case strings.HasPrefix(rest, closing):
			s.pos += len(closing)
			return
		default:
			s.pos++
		}
	}
}

// heredoc skips a $tag$ … $tag$ string, if there is one, and reports whether there is.
func (s *Scanner) heredoc() bool {
	rest := s.SQL[s.pos:]
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

var (
	stringEscaper = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	nameEscaper   = strings.NewReplacer(`\`, `\\`, "`", "\\`")
)

// QuoteString returns s as a string literal.
func QuoteString(s string) string { return "'" + stringEscaper.Replace(s) + "'" }

// QuoteName returns s as a quoted identifier.
func QuoteName(s string) string { return "`" + nameEscaper.Replace(s) + "`" }
