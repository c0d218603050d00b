package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	defaultWidth = 160 // columns of a terminal that does not say
	maxCell      = 60  // runes of a cell in a table
	minCell      = 16  // runes that a long text keeps when the table is too wide
	maxField     = 400 // runes of a value in a record
)

// terminalWidth is the width that the shell exports, else that of the terminal on standard output, if it is one.
func terminalWidth(getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if n := ttyWidth(); n > 0 {
		return n
	}
	return defaultWidth
}

// A column of a table. Its name is written on several lines, so that it is not much wider than its values.
type column struct {
	header []string
	cells  []string
	width  int
	right  bool // numbers
	whole  bool // a text that was cut would be of no use
}

// printTable prints rows as a table if it fits into width, else as one record below the other.
func printTable(w io.Writer, res *clickhouse.Result, width int) error {
	columns := make([]column, len(res.Columns))
	for i, rc := range res.Columns {
		c := &columns[i]
		c.right = len(res.Rows) > 0
		for _, row := range res.Rows {
			text := cell(row[i])
			c.cells = append(c.cells, text)
			c.width = max(c.width, min(maxCell, utf8.RuneCountInString(text)))
			c.right = c.right && (row[i] == nil || isNumber(row[i]))
		}
		c.whole = c.right || strings.HasSuffix(rc.Name, "_id") || c.width <= minCell || strings.Contains(rc.Type, "DateTime")
		c.header = splitName(rc.Name, c.width)
		for _, line := range c.header {
			c.width = max(c.width, len(line))
		}
	}
	var b strings.Builder
	switch {
	case len(res.Rows) == 0:
		b.WriteString("(no rows)\n")
	case fit(columns, width):
		writeTable(&b, columns)
	default:
		writeRecords(&b, res, columns, width)
	}
	if res.Truncated {
		fmt.Fprintf(&b, "(only the first %d rows)\n", len(res.Rows))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit cuts the longest texts until the table is no wider than width, and reports whether that is enough.
func fit(columns []column, width int) bool {
	total := -2
	for i := range columns {
		total += columns[i].width + 2
	}
	for total > width {
		longest := -1
		for i := range columns {
			if c := &columns[i]; !c.whole && c.width > minCell && (longest < 0 || c.width > columns[longest].width) {
				longest = i
			}
		}
		if longest < 0 {
			return false
		}
		columns[longest].width--
		total--
	}
	return true
}

// splitName breaks a name at its underscores into lines of width, or of its longest word.
func splitName(name string, width int) []string {
	words := strings.Split(name, "_")
	for _, w := range words {
		width = max(width, len(w))
	}
	lines := words[:1]
	for _, w := range words[1:] {
		if last := &lines[len(lines)-1]; len(*last)+1+len(w) <= width {
			*last += "_" + w
			continue
		}
		lines = append(slices.Clip(lines), w)
	}
	return lines
}

func writeTable(b *strings.Builder, columns []column) {
	height := 0
	for i := range columns {
		height = max(height, len(columns[i].header))
	}
	for l := range height {
		writeRow(b, columns, func(c *column) string {
			if i := l - (height - len(c.header)); i >= 0 {
				return c.header[i]
			}
			return ""
		})
	}
	for r := range columns[0].cells {
		writeRow(b, columns, func(c *column) string { return clip(c.cells[r], c.width) })
	}
}

func writeRow(b *strings.Builder, columns []column, text func(*column) string) {
	var line strings.Builder
	for i := range columns {
		c := &columns[i]
		t := text(c)
		pad := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(t)))
		if c.right {
			t = pad + t
		} else {
			t += pad
		}
		line.WriteString(t + "  ")
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// writeRecords writes each row as name: value, as many on a line as there is room for. It leaves out empty values: a record
// is for reading, not for comparing.
func writeRecords(b *strings.Builder, res *clickhouse.Result, columns []column, width int) {
	const indent = "  "
	for r := range res.Rows {
		fmt.Fprintf(b, "── %d\n", r+1)
		line := ""
		flush := func() {
			if line != "" {
				b.WriteString(line + "\n")
			}
			line = ""
		}
		for i := range columns {
			text := clip(columns[i].cells[r], maxField)
			if text == "" {
				continue
			}
			field := res.Columns[i].Name + ": " + text
			if n := utf8.RuneCountInString(field); line != "" && utf8.RuneCountInString(line)+3+n <= width {
				line += "   " + field
				continue
			}
			flush()
			lines := wrap(field, max(20, width-len(indent)-2))
			for _, l := range lines[:len(lines)-1] {
				b.WriteString(indent + l + "\n")
			}
			line = indent + lines[len(lines)-1]
			if len(lines) > 1 {
				flush()
			}
		}
		flush()
	}
}

// wrap breaks text at spaces into lines of at most width runes, a longer word where it is full; all but the first line are
// set in.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for utf8.RuneCountInString(word) > width-2 {
			room := width - utf8.RuneCountInString(line) - 1
			if line != "" && room < 8 {
				lines, line = append(lines, line), " "
				room = width - 2
			}
			r := []rune(word)
			room = min(room, len(r))
			lines, line = append(lines, strings.TrimPrefix(line+" "+string(r[:room]), " ")), " "
			word = string(r[room:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), "  "+word
		}
	}
	return append(lines, line)
}

func isNumber(v any) bool {
	switch reflect.TypeOf(v).Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	default:
		return false
	}
}

// cell formats a value for a terminal, on one line and without what a terminal would obey.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		if v.Unix() == 0 {
			return "" // ClickHouse's zero
		}
		return v.UTC().Format("2006-01-02 15:04:05")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return ' '
			}
			if !unicode.IsPrint(r) {
				return '\uFFFD'
			}
			return r
		}, v)), " ")
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Slice:
		parts := make([]string, rv.Len())
		for i := range parts {
			parts[i] = cell(rv.Index(i).Interface())
		}
		return strings.Join(parts, ", ")
	case reflect.Map:
		parts := map[string]bool{}
		for it := rv.MapRange(); it.Next(); {
			parts[cell(it.Key().Interface())+"="+cell(it.Value().Interface())] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(parts)), ", ")
	default:
		return fmt.Sprint(v)
	}
}

// clip cuts s to n runes.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
