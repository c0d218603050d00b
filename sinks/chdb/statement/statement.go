// Package statement reads as much of a ClickHouse statement as serving it over HTTP needs: what kind it is, where
// its data starts and in which format, and whether it reaches for files. The engine's parser has the last word on
// everything else.
//
//	INSERT INTO t (a, b) SETTINGS x = 1 FORMAT JSONEachRow {"a": 1}
//	└────────────── Head ─────────────┘        └─ Format ─┘└─ Data ─
package statement

import "strings"

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
	p := &parser{scanner: scanner{sql: sql}}
	p.advance()
	switch {
	case p.tok.kind == end:
		return Statement{Kind: Empty}
	case p.is("INSERT"):
		return p.insert()
	}
	st := Statement{}
	if p.is("SELECT") || p.is("WITH") || p.is("FROM") || p.isPunct('(') {
		st.Kind = Select
	}
	p.rest(&st)
	return st
}

type parser struct {
	scanner
	prev, tok token
}

func (p *parser) advance() {
	p.prev = p.tok
	p.tok = p.next()
}

func (p *parser) text(t token) string { return p.sql[t.pos:t.end] }

func (p *parser) is(keyword string) bool {
	return p.tok.kind == word && strings.EqualFold(p.text(p.tok), keyword)
}

func (p *parser) wasWord(keyword string) bool {
	return p.prev.kind == word && strings.EqualFold(p.text(p.prev), keyword)
}

func (p *parser) isPunct(c byte) bool {
	return p.tok.kind == punct && p.tok.end-p.tok.pos == 1 && p.sql[p.tok.pos] == c
}

func (p *parser) isName() bool { return p.tok.kind == word || p.tok.kind == quoted }

// rest reads to the end of the text: refused words, further statements and the last FORMAT that ends it.
func (p *parser) rest(st *Statement) {
	depth := 0
	for ; p.tok.kind != end; p.advance() {
		switch {
		case p.isPunct('('):
			depth++
		case p.isPunct(')'):
			depth--
		case p.isPunct(';'):
			p.advance()
			for p.isPunct(';') {
				p.advance()
			}
			st.Several = p.tok.kind != end
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
	if look.tok.kind != word {
		return was
	}
	name := look.text(look.tok)
	look.advance()
	if look.tok.kind == end || look.isPunct(';') || look.is("SETTINGS") {
		return name
	}
	return was
}

// refuse notes INTO OUTFILE, FROM INFILE and the scalar function file(), also as an argument of APPLY.
func (p *parser) refuse(st *Statement) {
	switch {
	case p.is("OUTFILE") && p.wasWord("INTO"):
		st.Refused = "INTO OUTFILE"
	case p.is("INFILE") && p.wasWord("FROM"):
		st.Refused = "FROM INFILE"
	case p.isFile():
		look := *p
		look.advance()
		apply := p.wasWord("APPLY") || p.prev.kind == punct && p.text(p.prev) == "(" && look.isPunct(')')
		if look.isPunct('(') || apply {
			st.Refused = "the function file"
		}
	}
}

func (p *parser) isFile() bool {
	if !p.isName() {
		return false
	}
	name := p.text(p.tok)
	if p.tok.kind == quoted {
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
	for p.isName() || p.isPunct('.') {
		name := p.isName()
		p.advance()
		if name && p.isName() { // a name ends where no dot follows
			break
		}
	}
	depth := 0
	for ; p.tok.kind != end; p.advance() {
		switch {
		case p.isPunct('('):
			depth++
			// A list in brackets may be columns or a query: INSERT INTO t (SELECT 1).
			look := *p
			look.advance()
			st.FromQuery = st.FromQuery || look.is("SELECT") || look.is("WITH")
		case p.isPunct(')'):
			depth--
		case depth == 0 && (p.is("SELECT") || p.is("WITH") || p.is("WATCH")), st.FromQuery:
			st.FromQuery = true
			p.rest(&st)
			st.Format = "" // of no use: nothing is output and nothing follows
			st.Head = p.sql
			return st
		case p.isPunct(';'):
			st.Several = !p.onlySemicolons()
			st.Head = p.sql
			return st
		case depth == 0 && p.is("VALUES"):
			st.Head, st.Format, st.Data = p.sql[:p.tok.pos], "Values", p.sql[p.tok.end:]
			p.advance()
			p.values(&st)
			return st
		case depth == 0 && p.is("FORMAT"):
			head := p.tok.pos
			p.advance()
			if p.tok.kind != word {
				st.Head = p.sql
				return st
			}
			st.Head, st.Format, st.Data = p.sql[:head], p.text(p.tok), data(p.sql[p.tok.end:])
			if strings.EqualFold(st.Format, "Values") {
				p.advance()
				p.values(&st)
			}
			return st
		}
		p.refuse(&st)
	}
	st.Head = p.sql
	return st
}

// values reads the data of VALUES: expressions, so they may call functions.
func (p *parser) values(st *Statement) {
	if p.isPunct(';') && p.onlySemicolons() {
		st.Data = ""
		return
	}
	format := st.Format
	p.rest(st)
	st.Format = format
}

func (p *parser) onlySemicolons() bool {
	look := *p
	for look.isPunct(';') {
		look.advance()
	}
	return look.tok.kind == end
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
