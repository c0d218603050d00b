package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// A pattern is a regular expression to mask.
type pattern struct {
	*regexp.Regexp
	literal []byte // literal contained in every match, or nil
	folded  string // literal in lower case; set if the pattern ignores case
}

func newPattern(re *regexp.Regexp) pattern {
	p := pattern{Regexp: re}
	if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
		p.require(tree)
	}
	return p
}

// require replaces the literal with the longest text that all matches of tree contain if that text is longer.
func (p *pattern) require(tree *syntax.Regexp) {
	switch op := tree.Op; {
	case op == syntax.OpLiteral:
		fold := tree.Flags&syntax.FoldCase != 0
		apart := func(r rune) bool { // r also matches other characters
			return r == utf8.RuneError || fold && (r >= utf8.RuneSelf || bytes.IndexByte([]byte("kKsS"), byte(r)) >= 0)
		}
		for _, w := range strings.FieldsFunc(string(tree.Rune), apart) {
			switch {
			case len(w) <= max(len(p.literal), len(p.folded)):
			case fold:
				p.literal, p.folded = nil, strings.ToLower(w)
			default:
				p.literal, p.folded = []byte(w), ""
			}
		}
	case op == syntax.OpConcat, op == syntax.OpCapture, op == syntax.OpPlus, op == syntax.OpRepeat && tree.Min > 0:
		for _, sub := range tree.Sub {
			p.require(sub)
		}
	}
}

// mayMatch reports whether text contains the literal. Searching for a literal is ten times as fast as matching a
// pattern.
func (p *pattern) mayMatch(text []byte) bool {
	n := len(p.folded)
	if n == 0 {
		return bytes.Contains(text, p.literal)
	}
	for i := 0; i+n <= len(text); i++ {
		if lower[text[i]] == p.folded[0] && equalFold(text[i:i+n], p.folded) {
			return true
		}
	}
	return false
}

var lower = func() (t [256]byte) {
	for c := range t {
		if t[c] = byte(c); 'A' <= c && c <= 'Z' {
			t[c] |= 0x20
		}
	}
	return t
}()

// match masks the matches of the patterns in each JSON string of dst[at:].
func (c *Redactor) match(dst []byte, at int) []byte {
	var out []byte
	for _, p := range c.patterns {
		if !p.mayMatch(dst[at:]) {
			continue
		}
		r := replacer{pattern: p, text: dst[at:], out: out[:0]}
		if r.all(); r.done > 0 {
			out = append(r.out, r.text[r.done:]...)
			dst = append(dst[:at], out...)
		}
	}
	return dst
}

// A replacer masks the matches of a pattern in one pass.
type replacer struct {
	pattern
	text, out []byte
	done      int // text[:done] is in out
}

func (r *replacer) all() {
	whole := !isJSON(r.text) // in other text, quotes do not delimit strings
	for i := 0; i < len(r.text); {
		end := len(r.text)
		if n := bytes.IndexByte(r.text[i:], '"'); n >= 0 {
			end = i + n
		}
		if whole {
			r.replace(i, end)
		}
		if end == len(r.text) {
			return
		}
		i = stringEnd(r.text, end+1)
		r.replace(end+1, i)
		i = min(i+1, len(r.text))
	}
}

// isJSON reports whether text is JSON or a stream of JSON.
func isJSON(text []byte) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) > 0 && bytes.IndexByte([]byte("{[\""), start[0]) >= 0 {
		return true
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(start, []byte(field)) {
			return true
		}
	}
	return json.Valid(start)
}

// stringEnd returns the end of the string at i, which is its closing quote or, because a JSON string cannot contain a
// line break, the end of the line.
func stringEnd(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"', '\n':
			return i
		}
	}
	return len(text)
}

// replace masks the matches in a string.
func (r *replacer) replace(start, end int) {
	r.matches(r.text[start:end], func(from, to int) {
		r.out = append(append(r.out, r.text[r.done:start+from]...), mask...)
		r.done = start + to
	})
}

// matches calls hide with each match in a string, in order. If a match splits an escape, it includes the whole escape.
func (p *pattern) matches(text []byte, hide func(start, end int)) {
	if !p.mayMatch(text) {
		return
	}
	at := 0 // never inside an escape
	for _, m := range p.FindAllIndex(text, -1) {
		if m[1] <= at || len(bytes.Trim(text[m[0]:m[1]], "*")) == 0 {
			continue
		}
		for at < m[0] && at+escapeLen(text[at:]) <= m[0] {
			at += escapeLen(text[at:])
		}
		start := at
		for at < m[1] {
			at += escapeLen(text[at:])
		}
		hide(start, at)
	}
}

// escapeLen returns the length of the escape at the start of text, or 1 if text does not begin with an escape.
func escapeLen(text []byte) int {
	switch {
	case text[0] != '\\' || len(text) == 1:
		return 1
	case text[1] == 'u':
		return min(6, len(text))
	}
	return 2
}
