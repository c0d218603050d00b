package clickhouse

import "strings"

// A token is a word, a quoted name, a string, a number or one character of punctuation of a statement.
type token struct {
	text     string
	pos, end int // in the statement
}

// tokens cuts a statement of schema/ up, without space and comments. ok is false when a string or comment has no end.
func tokens(sql string) (toks []token, ok bool) {
	for i := 0; i < len(sql); {
		start := i
		switch c := sql[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case strings.HasPrefix(sql[i:], "--"):
			n := strings.IndexByte(sql[i:], '\n')
			if n < 0 {
				return toks, true
			}
			i += n
			continue
		case strings.HasPrefix(sql[i:], "/*"):
			n := strings.Index(sql[i+2:], "*/")
			if n < 0 {
				return toks, false
			}
			i += n + 4
			continue
		case c == '\'' || c == '"' || c == '`':
			for i++; i < len(sql) && sql[i] != c; i++ { // a doubled quote is two strings, which is as good here
				if sql[i] == '\\' {
					i++
				}
			}
			if i++; i > len(sql) {
				return toks, false
			}
		case isWord(c):
			for i < len(sql) && isWord(sql[i]) {
				i++
			}
		default:
			i++
		}
		toks = append(toks, token{sql[start:i], start, i})
	}
	return toks, true
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// A sqlReader walks over the tokens of a statement.
type sqlReader struct {
	sql  string
	toks []token
}

// accept walks over these words, or over nothing.
func (r *sqlReader) accept(words string) bool {
	ws := strings.Fields(words)
	if len(r.toks) < len(ws) {
		return false
	}
	for i, w := range ws {
		if !strings.EqualFold(r.toks[i].text, w) {
			return false
		}
	}
	r.toks = r.toks[len(ws):]
	return true
}

// next walks over one token; it is empty at the end.
func (r *sqlReader) next() token {
	if len(r.toks) == 0 {
		return token{pos: len(r.sql), end: len(r.sql)}
	}
	t := r.toks[0]
	r.toks = r.toks[1:]
	return t
}

// until walks to the first token with this text that stands in no parentheses, and reports whether there is one.
func (r *sqlReader) until(text string) bool {
	depth := 0
	for i, t := range r.toks {
		switch {
		case depth == 0 && strings.EqualFold(t.text, text):
			r.toks = r.toks[i:]
			return true
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
		}
	}
	return false
}
