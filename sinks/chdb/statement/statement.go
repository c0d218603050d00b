// Package statement reads as much of a ClickHouse statement as serving it over HTTP needs: what kind it is, where
// its data starts and in which format, and whether it reaches for files. The engine's parser has the last word on
// everything else.
//
//	INSERT INTO t (a, b) SETTINGS x = 1 FORMAT JSONEachRow {"a": 1}
//	└────────────── Head ─────────────┘        └─ Format ─┘└─ Data ─
package statement

import (
	"strings"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// Kind says how a statement is served.
type Kind uint8

// The kinds.
const (
	Other  Kind = iota // everything else, and what cannot be read
	Empty              // nothing but space and comments
	Select             // starts with SELECT, WITH, FROM or (
	Insert
)

// A Statement is what Parse found.
type Statement struct {
	Kind Kind
	// Format is the name after FORMAT: of the output or, in an INSERT, of the data ("Values" after VALUES).
	// "" if there is none.
	Format string
	// Head is an INSERT up to its FORMAT or VALUES; Data what comes after, as the engine would take it. An INSERT
	// that selects its rows has no Format and its whole text is Head.
	Head, Data string
	// FromQuery says that an INSERT takes its rows from a query or a function of its own.
	FromQuery bool
	// Several says that another statement follows the first.
	Several bool
	// Refused names what must not be run: it would read or write files on the machine of the engine, and grants do
	// not prevent it. "" if nothing was found.
	Refused string
}

// Parse reads sql. It never fails: what it does not understand is Other and left to the engine.
func Parse(sql string) Statement {
	p := &parser{Scanner: sqltext.Scanner{SQL: sql}}
	p.advance()
	switch {
	case p.atEnd():
		return Statement{Kind: Empty}
	case p.is("INSERT"):
		return p.insert()
	}
	st := Statement{}
	if p.is("SELECT") || p.is("WITH") || p.is("FROM") || p.is("(") {
		st.Kind = Select
	}
	p.rest(&st)
	return st
}

type parser struct {
	sqltext.Scanner
	prev, tok sqltext.Token
}

func (p *parser) advance() {
	p.prev = p.tok
	p.tok = p.Next()
}

// is reports whether the current token is this keyword or punctuation.
func (p *parser) is(text string) bool { return p.tok.Is(text) }

func (p *parser) atEnd() bool { return p.tok.Kind == sqltext.End }

func (p *parser) isName() bool { return p.tok.Kind == sqltext.Word || p.tok.Kind == sqltext.QuotedName }

// rest reads to the end of the text: refused words, further statements and the last FORMAT that ends it.
func (p *parser) rest(st *Statement) {
	depth := 0
	for ; !p.atEnd(); p.advance() {
		switch {
		case p.is("("):
			depth++
		case p.is(")"):
			depth--
		case p.is(";"):
			p.advance()
			for p.is(";") {
				p.advance()
			}
			st.Several = !p.atEnd()
			if !st.Several {
				return
			}
		case depth == 0 && p.is("FORMAT"):
			st.Format = p.outputFormat(st.Format)
		}
		p.refuse(st)
	}
}

// outputFormat is the name after the current FORMAT if the statement ends there or goes on with SETTINGS; else was.
func (p *parser) outputFormat(was string) string {
	look := *p
	look.advance()
	if look.tok.Kind != sqltext.Word {
		return was
	}
	name := look.tok.Text
	look.advance()
	if look.atEnd() || look.is(";") || look.is("SETTINGS") {
		return name
	}
	return was
}

// refuse notes INTO OUTFILE, FROM INFILE and the scalar function file(), also as an argument of APPLY.
func (p *parser) refuse(st *Statement) {
	switch {
	case p.is("OUTFILE") && p.prev.Is("INTO"):
		st.Refused = "INTO OUTFILE"
	case p.is("INFILE") && p.prev.Is("FROM"):
		st.Refused = "FROM INFILE"
	case p.isFile():
		look := *p
		look.advance()
		apply := p.prev.Is("APPLY") || p.prev.Is("(") && look.is(")")
		if look.is("(") || apply {
			st.Refused = "the function file"
		}
	}
}

func (p *parser) isFile() bool {
	if !p.isName() {
		return false
	}
	name := p.tok.Text
	if p.tok.Kind == sqltext.QuotedName {
		name = strings.Trim(name, "`\"“”")
		// An escape inside could spell anything; no honest function name has one.
		if strings.ContainsAny(name, `\`) {
			return true
		}
	}
	return strings.EqualFold(name, "file")
}

// insert reads INSERT INTO [TABLE] name [(columns)] … up to its data.
func (p *parser) insert() Statement {
	st := Statement{Kind: Insert}
	p.advance()
	if p.is("INTO") {
		p.advance()
	}
	if p.is("TABLE") {
		p.advance()
	}
	if p.is("FUNCTION") {
		p.advance()
		p.refuse(&st)
	}
	for p.isName() || p.is(".") {
		name := p.isName()
		p.advance()
		if name && p.isName() { // a name ends where no dot follows
			break
		}
	}
	depth := 0
	for ; !p.atEnd(); p.advance() {
		switch {
		case p.is("("):
			depth++
			// A list in brackets may be columns or a query: INSERT INTO t (SELECT 1).
			look := *p
			look.advance()
			st.FromQuery = st.FromQuery || look.is("SELECT") || look.is("WITH")
		case p.is(")"):
			depth--
		case depth == 0 && (p.is("SELECT") || p.is("WITH") || p.is("WATCH")), st.FromQuery:
			st.FromQuery = true
			p.rest(&st)
			st.Format = "" // of no use: nothing is output and nothing follows
			st.Head = p.SQL
			return st
		case p.is(";"):
			st.Several = !p.onlySemicolons()
			st.Head = p.SQL
			return st
		case depth == 0 && p.is("VALUES"):
			st.Head, st.Format, st.Data = p.SQL[:p.tok.Pos], "Values", p.SQL[p.tok.End():]
			p.advance()
			p.values(&st)
			return st
		case depth == 0 && p.is("FORMAT"):
			head := p.tok.Pos
			p.advance()
			if p.tok.Kind != sqltext.Word {
				st.Head = p.SQL
				return st
			}
			st.Head, st.Format, st.Data = p.SQL[:head], p.tok.Text, data(p.SQL[p.tok.End():])
			if strings.EqualFold(st.Format, "Values") {
				p.advance()
				p.values(&st)
			}
			return st
		}
		p.refuse(&st)
	}
	st.Head = p.SQL
	return st
}

// values reads the data of VALUES: expressions, so they may call functions.
func (p *parser) values(st *Statement) {
	if p.is(";") && p.onlySemicolons() {
		st.Data = ""
		return
	}
	format := st.Format
	p.rest(st)
	st.Format = format
}

func (p *parser) onlySemicolons() bool {
	look := *p
	for look.is(";") {
		look.advance()
	}
	return look.atEnd()
}

// data is what follows a format's name: spaces, then one line break or semicolon, belong to the statement.
func data(s string) string {
	s = strings.TrimLeft(s, " \t\f")
	if strings.TrimSpace(s) == ";" {
		return ""
	}
	s = strings.TrimPrefix(s, "\r")
	return strings.TrimPrefix(s, "\n")
}
