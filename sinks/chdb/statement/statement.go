// Package statement parses only those parts of a ClickHouse statement that are needed to serve it over HTTP: its kind,
// the start and the format of its data, and whether it accesses files. The engine's parser handles everything else.
//
//	INSERT INTO t (a, b) SETTINGS x = 1 FORMAT JSONEachRow {"a": 1}
//	└────────────── Head ─────────────┘        └─ Format ─┘└─ Data ─
package statement

import (
	"strings"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// A Kind is the kind of a Statement.
type Kind uint8

// Kinds of statements.
const (
	Other  Kind = iota // everything else, including text that cannot be parsed
	Empty              // only whitespace and comments
	Select             // starts with SELECT, WITH, FROM or (
	Insert
)

// A Statement is the result of Parse.
type Statement struct {
	Kind Kind
	// Format is the name after FORMAT, which is the format of the output or of an INSERT's data. It is "Values" after
	// VALUES, and may be empty.
	Format string
	// Head is the text of an INSERT before FORMAT or VALUES; Data is the data after it. For an INSERT with a SELECT,
	// Format is empty and Head is the whole text.
	Head, Data string
	// FromQuery is set for an INSERT whose rows come from a query.
	FromQuery bool
	// Several is set if another statement follows the first one.
	Several bool
	// Rejected describes a construct that must not run, because it would read or write files on the engine's machine
	// and grants do not prevent that. It is empty if there is none.
	Rejected string
}

// Parse parses sql. It never fails; a statement that it cannot parse is of kind Other.
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

// is reports whether the current token is the keyword or punctuation text.
func (p *parser) is(text string) bool { return p.tok.Is(text) }

func (p *parser) atEnd() bool { return p.tok.Kind == sqltext.End }

func (p *parser) isName() bool { return p.tok.Kind == sqltext.Word || p.tok.Kind == sqltext.QuotedName }

// rest parses the rest of the text: rejected constructs, further statements and a final FORMAT.
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
		p.checkRejected(st)
	}
}

// outputFormat returns the name after the current FORMAT if the statement ends there or SETTINGS follows, and otherwise
// previous.
func (p *parser) outputFormat(previous string) string {
	look := *p
	look.advance()
	if look.tok.Kind != sqltext.Word {
		return previous
	}
	name := look.tok.Text
	look.advance()
	if look.atEnd() || look.is(";") || look.is("SETTINGS") {
		return name
	}
	return previous
}

// checkRejected sets st.Rejected for INTO OUTFILE, FROM INFILE and the scalar function file(), including file as an
// argument of APPLY.
func (p *parser) checkRejected(st *Statement) {
	switch {
	case p.is("OUTFILE") && p.prev.Is("INTO"):
		st.Rejected = "INTO OUTFILE"
	case p.is("INFILE") && p.prev.Is("FROM"):
		st.Rejected = "FROM INFILE"
	case p.isFile():
		look := *p
		look.advance()
		apply := p.prev.Is("APPLY") || p.prev.Is("(") && look.is(")")
		if look.is("(") || apply {
			st.Rejected = "the function file"
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
		// An escape sequence may encode any character. Legitimate function names contain no escape sequences.
		if strings.ContainsAny(name, `\`) {
			return true
		}
	}
	return strings.EqualFold(name, "file")
}

// insert parses INSERT INTO [TABLE] name [(columns)] … up to the data.
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
		p.checkRejected(&st)
	}
	for p.isName() || p.is(".") {
		name := p.isName()
		p.advance()
		if name && p.isName() { // the name of the table ends where no dot follows
			break
		}
	}
	depth := 0
	for ; !p.atEnd(); p.advance() {
		switch {
		case p.is("("):
			depth++
			// Parentheses may contain columns or a query: INSERT INTO t (SELECT 1).
			look := *p
			look.advance()
			st.FromQuery = st.FromQuery || look.is("SELECT") || look.is("WITH")
		case p.is(")"):
			depth--
		case depth == 0 && (p.is("SELECT") || p.is("WITH") || p.is("WATCH")), st.FromQuery:
			st.FromQuery = true
			p.rest(&st)
			st.Format = "" // an INSERT has no output
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
		p.checkRejected(&st)
	}
	st.Head = p.SQL
	return st
}

// values parses the data of VALUES for rejected constructs, because the values are expressions and may call functions.
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

// data returns the data in s, the text after the name of a format. Leading spaces and one line break are skipped. Data
// that is only a semicolon is empty.
func data(s string) string {
	s = strings.TrimLeft(s, " \t\f")
	if strings.TrimSpace(s) == ";" {
		return ""
	}
	s = strings.TrimPrefix(s, "\r")
	return strings.TrimPrefix(s, "\n")
}
