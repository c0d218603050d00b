// Package terminal formats text for a terminal: times, colors and line breaks, without control characters.
package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// DefaultWidth is the number of columns if neither the shell nor the terminal reports one.
const DefaultWidth = 160

// minPart is the minimum width of the first part of a word that Wrap splits.
const minPart = 8

// Columns returns the width of s on a terminal: 2 for a wide character such as 名, 0 for a combining mark or the color
// commands of a Style, else 1.
func Columns(s string) int {
	n, command := 0, false
	for _, r := range s {
		if command = command || r == '\x1b'; !command {
			n += columns(r)
		}
		command = command && r != 'm'
	}
	return n
}

func columns(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	return 1
}

// Pad returns s with spaces up to n columns.
func Pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-Columns(s))) }

// fitting returns the length of the longest prefix of s that has at most n columns, but at least one character.
func fitting(s string, n int) int {
	for i, r := range s {
		if n -= columns(r); n < 0 && i > 0 {
			return i
		}
	}
	return len(s)
}

// Wrap breaks text at spaces into lines of at most limit columns and indents all lines except the first by indent. A word
// longer than a line is split, if possible after a punctuation mark.
func Wrap(text string, limit int, indent string) []string { return wrap("", text, limit, indent) }

// wrap is like Wrap, but the first line begins with first.
func wrap(first, text string, limit int, indent string) []string {
	var lines []string
	line, start := first, len(first) // start is the length of the line's indent
	limit = max(limit, len(indent)+minPart)
	for word := range strings.FieldsSeq(text) {
		for word != "" {
			space := ""
			if len(line) > start {
				space = " "
			}
			room := limit - Columns(line) - len(space)
			if Columns(word) <= room {
				line, word = line+space+word, ""
				continue
			}
			if Columns(word) > limit-len(indent) && room >= minPart {
				n := fitting(word, room)
				if mark := strings.LastIndexAny(word[:n], ",;:/&?)]}"); mark >= minPart {
					n = mark + 1
				} else if space != "" {
					n = 0
				}
				if n > 0 {
					line, word = line+space+word[:n], word[n:]
				}
			}
			lines, line, start = append(lines, line), indent, len(indent)
		}
	}
	return append(lines, line)
}

// Clip returns s on one line, without control characters, cut to n columns.
func Clip(s string, n int) string {
	s = Line(s[:min(len(s), 8*n)])
	if Columns(s) <= n {
		return s
	}
	return s[:fitting(s, n-1)] + "…"
}

// Line returns s on one line, escaped, because an id or an error text may contain terminal commands.
func Line(s string) string { return Escape(strings.Join(strings.Fields(s), " ")) }
