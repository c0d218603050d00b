package clickhouse

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// An sqlReader reads the tokens of a statement.
type sqlReader struct {
	sql  string
	toks []sqltext.Token // not read yet
}

func newSQLReader(sql string) *sqlReader {
	r := &sqlReader{sql: sql}
	s := sqltext.Scanner{SQL: sql}
	for tok := s.Next(); tok.Kind != sqltext.End; tok = s.Next() {
		r.toks = append(r.toks, tok)
	}
	return r
}

// accept reads these words if they are next, and reports whether they are.
func (r *sqlReader) accept(words string) bool {
	ws := strings.Fields(words)
	if len(r.toks) < len(ws) {
		return false
	}
	for i, w := range ws {
		if !r.toks[i].Is(w) {
			return false
		}
	}
	r.toks = r.toks[len(ws):]
	return true
}

// next reads one token, which is empty at the end.
func (r *sqlReader) next() sqltext.Token {
	if len(r.toks) == 0 {
		return sqltext.Token{Pos: len(r.sql)}
	}
	t := r.toks[0]
	r.toks = r.toks[1:]
	return t
}

// until reads up to the first token with this text outside of parentheses, and reports whether there is one.
func (r *sqlReader) until(text string) bool {
	depth := 0
	for i, t := range r.toks {
		switch {
		case depth == 0 && t.Is(text):
			r.toks = r.toks[i:]
			return true
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		}
	}
	return false
}

// contains reports whether the rest contains a token with this text.
func (r *sqlReader) contains(text string) bool {
	return slices.ContainsFunc(r.toks, func(t sqltext.Token) bool { return t.Text == text })
}
