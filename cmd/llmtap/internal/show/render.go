package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	shownText  = 320 // maximum characters of each text of a message
	shownLines = 6   // maximum lines of a text that are written as lines
	minColumns = 20  // minimum width of a text
	roleWidth  = 10
)

// A view writes text for a terminal.
type view struct {
	strings.Builder
	*terminal.Style
	full      bool // do not shorten texts
	arguments bool // see Options

	explained map[string]bool // root causes and diffs of the exchange that were written
}

func (o Options) view() *view { return &view{Style: o.Style, full: o.Full, arguments: o.Arguments} }

// option names an option for the reader.
func (v *view) option(name string) string {
	if v.arguments {
		return name
	}
	return "--" + name
}

// command returns how the reader shows an exchange or a conversation.
func (v *view) command(id string) string {
	if v.arguments {
		return "show " + id
	}
	return "llmtap show " + quoted(id)
}

// wrap breaks text into lines of at most n columns, unless the output has no width.
func (v *view) wrap(text string, n int, indent string) []string {
	if v.Unbroken {
		return []string{strings.Join(strings.Fields(text), " ")}
	}
	return terminal.Wrap(text, max(n, minColumns), indent)
}

// line writes text in lines of at most the width, indented by indent; further lines are indented by hanging more.
func (v *view) line(indent, hanging int, text string) {
	pad := strings.Repeat(" ", indent)
	for _, l := range v.wrap(text, v.Width-indent, strings.Repeat(" ", hanging)) {
		v.WriteString(strings.TrimRight(pad+l, " ") + "\n")
	}
}

func (v *view) linef(indent, hanging int, format string, args ...any) {
	v.line(indent, hanging, fmt.Sprintf(format, args...))
}

// labeled writes text beside a name, which has a column of the given width.
func (v *view) labeled(indent, width int, name, text string) {
	for _, l := range v.wrap(text, v.Width-indent-width, "") {
		fmt.Fprintf(v, "%s%-*s%s\n", strings.Repeat(" ", indent), width, name, strings.TrimRight(l, " "))
		name = ""
	}
}

// short returns text on one line, shortened in the middle to n characters unless v is full.
func (v *view) short(text string, n int) string {
	if v.full {
		return terminal.Line(text)
	}
	if len(text) > 16*n { // Line would read all of it
		count := utf8.RuneCountInString(text)
		r := []rune(text)
		head := terminal.Line(string(r[:n*2/3]))
		return fmt.Sprintf("%s … %s characters left out … %s", head, quantity.Count(count-n), terminal.Line(string(r[count-n+n*2/3:])))
	}
	return terminal.Middle(terminal.Line(text), n)
}

// text writes a text with its own lines if they are few or v is full, else on one line that is wrapped.
func (v *view) text(indent int, text string, n int) {
	text = spaced(text)
	if !v.full && (utf8.RuneCountInString(text) > n || strings.Count(text, "\n") >= shownLines) {
		v.line(indent, 0, v.short(text, n))
		return
	}
	for l := range strings.Lines(strings.ReplaceAll(text, "\t", "    ")) {
		body := strings.TrimLeft(l, " ")
		lead := min(len(l)-len(body), max(v.Width-indent-2*minColumns, 0))
		v.line(indent+lead, 0, terminal.Line(body))
	}
}

// spaced returns a JSON object or list with spaces after commas and colons, so that lines can be broken there, and any other
// text unchanged.
func spaced(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid([]byte(trimmed)) {
		return text
	}
	var b strings.Builder
	var raw bytes.Buffer
	_ = json.Compact(&raw, []byte(trimmed)) // no error: the JSON is valid
	inString, escaped := false, false
	for _, c := range raw.Bytes() {
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// message writes a message with all its parts. mark is a character before the index, such as ">".
func (v *view) message(indent int, mark, index, body string) {
	head := fmt.Sprintf("%s%s %3s ", strings.Repeat(" ", indent), mark, index)
	column := indent + 6 + roleWidth + 1
	m, ok := records.ParseMessage([]byte(body))
	if !ok {
		v.WriteString(head + terminal.Clip(body, max(v.Width-len(head), minColumns)) + "\n")
		return
	}
	role := terminal.Clip(m.Role, 2*roleWidth)
	v.WriteString(v.Bold(head + role))
	switch n := terminal.Columns(role); {
	case len(m.Parts) == 0:
		v.WriteString("\n")
		return
	case n > roleWidth:
		v.WriteString("\n" + strings.Repeat(" ", column))
	default:
		v.WriteString(strings.Repeat(" ", roleWidth+1-n))
	}
	var b view
	b.Style, b.full = v.Style, v.full
	for i := range m.Parts {
		b.part(column, &m.Parts[i])
	}
	v.WriteString(strings.TrimLeft(b.String(), " "))
}

// part writes a part of a message, beginning at a column.
func (v *view) part(column int, p *records.Part) {
	title := p.Title()
	text := Readable(spaced(plain(p)))
	switch {
	case p.Kind == records.Other:
		v.line(column, 2, title)
	case title == "":
		v.text(column, text, shownText)
	case p.Kind == records.Reasoning:
		v.text(column, "reasoning: "+text, shownText)
	case (v.Unbroken || column+terminal.Columns(title)+2+terminal.Columns(text) <= v.Width) && !strings.Contains(text, "\n"):
		v.line(column, 2, title+": "+text)
	default:
		v.line(column, 2, title)
		v.text(column+2, text, shownText)
	}
}

// plain returns the text of p. The shape of a text becomes a description.
func plain(p *records.Part) string {
	if p.String && strings.HasPrefix(p.Text, "~") {
		if size, _, ok := strings.Cut(p.Text[1:], ":"); ok && strings.Trim(size, "0123456789") == "" {
			return "(" + size + " bytes)"
		}
	}
	if p.Kind == records.Call && p.Empty {
		return ""
	}
	return p.Text
}

// gaps reports which of n elements a list shows: the first and last elements, and those near a marked one. A full view shows
// all.
func (v *view) gaps(n, first, last, near int, marked []int) []bool {
	show := make([]bool, n)
	for i := range show {
		show[i] = v.full || i < first || i >= n-last || slices.ContainsFunc(marked, func(at int) bool { return i >= at-near && i <= at+near })
	}
	for i := 1; i+1 < n; i++ {
		show[i] = show[i] || show[i-1] && show[i+1] // a note would be as long as the element
	}
	return show
}

// each calls element for the elements that are shown, and gap with the number of elements left out in between.
func each(show []bool, element func(i int), gap func(n int)) {
	skipped := 0
	for i, ok := range show {
		if !ok {
			skipped++
			continue
		}
		if skipped > 0 {
			gap(skipped)
		}
		skipped = 0
		element(i)
	}
	if skipped > 0 {
		gap(skipped)
	}
}
