package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	sideBySide = 140 // minimum width of a diff with two columns
	pathWidth  = 40  // maximum width of the paths of a diff
	valueLines = 4   // maximum lines of a value in a diff
	nearChange = 3   // unchanged fields shown around changes
)

// finding writes f with its place, root cause, versions, fix and comparison.
func (v *view) finding(indent int, f *Finding) {
	title, paint := fmt.Sprintf("%s (%s)", f.Rule, f.Verdict()), v.Bold
	if f.Breaks() {
		paint = v.Red
	}
	if f.Message >= 0 {
		title += fmt.Sprintf(" in message %d", f.Message)
	}
	for i, l := range v.wrap(title, v.Width-indent, "  ") {
		if i == 0 {
			l = strings.Replace(l, f.Rule, paint(f.Rule), 1)
		}
		v.WriteString(strings.Repeat(" ", indent) + l + "\n")
	}
	fact := func(name, text string) {
		if text != "" {
			v.labeled(indent+2, 12, name, text)
		}
	}
	fact("defect", v.short(f.Summary, 2*shownText))
	if f.RootCause != "" && v.again(f.Evidence) {
		fact("root cause", f.RootCause+", as above")
		return
	}
	if f.RootCause != "" {
		fact("root cause", fmt.Sprintf("%s (%s): %s", f.RootCause, f.Confidence, v.short(f.Evidence, 2*shownText)))
	}
	fact("code", f.Code)
	fact("answer of", f.AnswerCode)
	first, clean := terminal.Clip(f.FirstVersion, shownLabel), terminal.Clip(f.LastClean, shownLabel)
	switch {
	case first != "" && clean != "" && f.CleanCalls > 0:
		fact("version", fmt.Sprintf("first seen in %s; %s made %s before without it", first, clean, quantity.Plural(f.CleanCalls, "call")))
	case first != "":
		fact("version", "first seen in "+first+", no clean version known")
	}
	fact("fix", f.Fix)
	if f.Comparison != nil {
		v.comparison(indent+2, f, f.Comparison)
	}
}

// again reports whether it was called with this text for the same exchange.
func (v *view) again(text string) bool {
	if v.explained == nil {
		v.explained = map[string]bool{}
	}
	was := v.explained[text]
	v.explained[text] = true
	return was
}

// comparison writes the diff of what the model said and what the request contains, and the calls with their replies.
func (v *view) comparison(indent int, f *Finding, c *Comparison) {
	above, changes := c.outline(f)
	v.WriteString("\n")
	switch {
	case len(above) == 0:
	case v.again(place(c.Said) + " -> " + place(c.Sent)):
		v.mark(indent, ' ', "what the model said and what the request contains: see above")
	case len(above) == 2 && len(c.Sent) > 0 && v.Width >= sideBySide && !v.Unbroken:
		v.columns(indent, above[0].Text, above[1].Text, changes)
	default:
		v.marks(indent, above)
		v.diff(indent, changes)
	}
	v.marks(indent, c.faultyArguments())
	if pairs := v.pairs(c); len(pairs) > 0 {
		v.line(indent+2, 2, pairsTitle)
		v.marks(indent, pairs)
	}
}

// outline returns the lines above the diff, and the diff; it is empty if it would only repeat a message.
func (c *Comparison) outline(f *Finding) (above []Line, changes []change) {
	changes = c.changes()
	said, sent := place(c.Said), place(c.Sent)
	switch {
	case len(c.Said) == 0 && len(c.Sent) == 0:
		return nil, nil
	case len(c.Said) == 0:
		for i := range changes {
			changes[i].mark = ' '
		}
		return []Line{{Mark: ' ', Text: "the request contains: " + sent}}, changes
	case f.Rule == unresolved:
		return []Line{{Mark: ' ', Text: "the model said: " + said + ", which the request names by its id"}}, nil
	case len(c.Sent) == 0:
		return []Line{{Mark: '-', Text: "the model said: " + said}, {Mark: '+', Text: "the request contains no copy of it"}}, changes
	case !differs(changes):
		above = []Line{{Mark: ' ', Text: fmt.Sprintf("%s: what the model said, unchanged (%s)", sent, said)}}
		if aboutPairs[f.Rule] {
			return above, nil
		}
		return above, changes
	}
	return []Line{{Mark: '-', Text: "the model said: " + said}, {Mark: '+', Text: "the request contains: " + sent}}, changes
}

// place names the origin of messages.
func place(all []Place) string {
	if len(all) == 0 {
		return ""
	}
	if all[0].Message < 0 {
		return "answer of LLM call " + all[0].Exchange
	}
	var n []string
	for i := range all {
		n = append(n, fmt.Sprint(all[i].Message))
	}
	if len(n) > 1 {
		return "messages " + strings.Join(n, ", ")
	}
	return "message " + n[0]
}

// paint colors a line of a diff.
func (v *view) paint(mark byte, text string) string {
	switch mark {
	case '-':
		return v.Red(text)
	case '+':
		return v.Green(text)
	}
	return text
}

// mark writes a wrapped line that begins with a mark.
func (v *view) mark(indent int, mark byte, text string) {
	for _, l := range v.wrap(text, v.Width-indent-2, "  ") {
		v.WriteString(strings.Repeat(" ", indent) + v.paint(mark, strings.TrimRight(string(mark)+" "+l, " ")) + "\n")
	}
}

// marks writes wrapped lines that begin with their marks.
func (v *view) marks(indent int, all []Line) {
	for _, l := range all {
		v.mark(indent, l.Mark, l.Text)
	}
}

// diff writes one field per line, marked with - or +.
func (v *view) diff(indent int, all []change) {
	width := 0
	for i := range all {
		width = max(width, min(terminal.Columns(all[i].field().path), pathWidth))
	}
	each(v.near(all), func(i int) {
		c := &all[i]
		f := c.field()
		head := terminal.Pad(terminal.Line(f.path), width) + "  "
		if n := terminal.Columns(head); n > width+2 {
			v.mark(indent, c.mark, head)
			head = strings.Repeat(" ", width+2)
		}
		room := max(v.Width-indent-2-width-2, minColumns)
		lines := chunks(v.value(c, room*valueLines), room)
		if v.Unbroken {
			lines = []string{strings.Join(lines, "")}
		}
		for _, l := range lines {
			v.WriteString(strings.Repeat(" ", indent) + v.paint(c.mark, strings.TrimRight(string(c.mark)+" "+head+l, " ")) + "\n")
			head = strings.Repeat(" ", width+2)
		}
	}, func(n int) {
		v.mark(indent, ' ', v.Dim("… "+quantity.Plural(n, "unchanged field")))
	})
}

// field returns the field that c shows.
func (c *change) field() *field {
	if c.mark == '-' {
		return c.said
	}
	return c.sent
}

// value returns the value of c, cut to n characters around the first difference, else in the middle.
func (v *view) value(c *change, n int) string {
	text := terminal.Line(c.field().value)
	switch {
	case v.full || utf8.RuneCountInString(text) <= n:
		return text
	case c.mark != ' ' && c.said != nil && c.sent != nil:
		return terminal.Around(text, firstDifference(terminal.Line(c.said.value), terminal.Line(c.sent.value)), n-2)
	}
	return terminal.Middle(text, n-35)
}

// chunks splits text into lines of at most n characters, at spaces if possible. Spaces are kept, because they may be the
// difference.
func chunks(text string, n int) []string {
	var all []string
	r := []rune(text)
	for len(r) > n {
		at := n
		for at > n/2 && r[at-1] != ' ' && r[at-1] != ',' {
			at--
		}
		if at == n/2 {
			at = n
		}
		all, r = append(all, string(r[:at])), r[at:]
	}
	return append(all, string(r))
}

// near reports which fields of a diff are shown: the changes and those around them.
func (v *view) near(all []change) []bool {
	var changed []int
	for i := range all {
		if all[i].mark != ' ' {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return v.gaps(len(all), 2*nearChange, nearChange, nearChange, nil)
	}
	return v.gaps(len(all), 1, 0, nearChange, changed)
}

// columns writes a diff in two columns.
func (v *view) columns(indent int, said, sent string, all []change) {
	width := (v.Width - indent - 5) / 2
	row := func(left, mark, right string) {
		pad := strings.Repeat(" ", max(0, width-terminal.Columns(left)))
		paint := func(s string) string { return s }
		other := paint
		if strings.Contains(mark, "<") || mark == "|" {
			paint = v.Red
		}
		if strings.Contains(mark, ">") || mark == "|" {
			other = v.Green
		}
		v.WriteString(strings.TrimRight(strings.Repeat(" ", indent)+"  "+paint(left)+pad+" "+mark+" "+other(right), " ") + "\n")
	}
	cell := func(c *change, f *field) []string {
		side := change{c.mark, c.said, c.sent}
		if side.mark = '+'; f == c.said {
			side.mark = '-'
		}
		if c.mark == ' ' {
			side.mark = ' '
		}
		path := terminal.Line(f.path)
		return chunks(path+"  "+v.value(&side, max(width*valueLines-len(path), minColumns)), width)
	}
	both := func(left, right []string, mark string) {
		for i := range max(len(left), len(right)) {
			at := func(s []string) string {
				if i < len(s) {
					return s[i]
				}
				return ""
			}
			row(at(left), mark, at(right))
		}
	}
	both(terminal.Wrap(said, width, ""), terminal.Wrap(sent, width, ""), " ")
	paired := map[*field]bool{}
	for i := range all {
		if all[i].mark == '+' && all[i].said != nil {
			paired[all[i].said] = true
		}
	}
	each(v.near(all), func(i int) {
		switch c := &all[i]; {
		case c.mark == ' ':
			both(cell(c, c.said), cell(c, c.sent), " ")
		case c.mark == '-' && paired[c.said]: // written with its replacement
		case c.mark == '-':
			both(cell(c, c.said), nil, "<")
		case c.said != nil:
			both(cell(c, c.said), cell(c, c.sent), "|")
		default:
			both(nil, cell(c, c.sent), ">")
		}
	}, func(n int) { row("… "+quantity.Plural(n, "unchanged field"), " ", "") })
}

// faultyArguments returns the places at which the arguments of a call are not JSON.
func (c *Comparison) faultyArguments() (lines []Line) {
	if c.fault < 0 {
		return nil
	}
	for _, p := range c.request[c.fault].Calls() {
		if !p.String {
			continue
		}
		d := json.NewDecoder(bytes.NewReader([]byte(p.Text)))
		var value json.RawMessage
		err := d.Decode(&value)
		at, what := int(d.InputOffset()), "another JSON value begins"
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at, what = int(syntax.Offset), syntax.Error()
		} else if err != nil {
			at, what = len(p.Text), "the JSON ends too early"
		}
		if err == nil && strings.TrimSpace(p.Text[at:]) == "" || strings.HasPrefix(p.Text, "~") {
			continue
		}
		before := utf8.RuneCountInString(p.Text[:min(at, len(p.Text))])
		lines = append(lines, Line{Mark: '+', Text: fmt.Sprintf("arguments of %s: at character %s of %s %s: %s", strings.TrimPrefix(p.Title(), "calls "), quantity.Count(before),
			quantity.Count(utf8.RuneCountInString(p.Text)), what, terminal.Around(terminal.Line(p.Text), at, shortReply))})
	}
	return lines
}
