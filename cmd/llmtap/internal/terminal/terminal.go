// Package terminal formats text for a terminal: times, colors and line breaks, without control characters.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultWidth is the number of columns if neither the shell nor the terminal reports one.
const DefaultWidth = 160

// minPart is the minimum length, in runes, of the first part of a word that Wrap splits.
const minPart = 8

// Wrap breaks text at spaces into lines of at most width runes and indents all lines except the first by indent. A word
// longer than a line is split.
func Wrap(text string, width int, indent string) []string {
	var lines []string
	line, start := "", 0 // start is the length of the line's indent
	for word := range strings.FieldsSeq(text) {
		for word != "" {
			space := ""
			if len(line) > start {
				space = " "
			}
			room := width - utf8.RuneCountInString(line) - len(space)
			r := []rune(word)
			switch {
			case len(r) <= room:
				line, word = line+space+word, ""
				continue
			case len(r) > width-len(indent) && room >= minPart:
				line, word = line+space+string(r[:room]), string(r[room:])
			}
			lines, line, start = append(lines, line), indent, len(indent)
		}
	}
	return append(lines, line)
}

// Clip returns s on one line, without control characters, cut to n runes.
func Clip(s string, n int) string {
	s = Line(s[:min(len(s), 8*n)])
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Line returns s on one line and replaces unprintable characters, because an id or an error text may contain terminal
// commands.
func Line(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, s)), " ")
}

// Plural returns n with its noun, such as "1 alert rule" or "3 alert rules".
func Plural[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
