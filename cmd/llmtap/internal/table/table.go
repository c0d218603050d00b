// Package table writes query results as a table that fits the terminal, or as JSON, JSON lines or CSV.
package table

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	maxCell  = 60  // maximum runes of a cell in a table
	minCell  = 16  // minimum runes of a long text if the table is too wide
	maxField = 400 // maximum runes of a value in a record
)

// Formats are the formats of Write, for command.Call.Format.
var Formats = []string{command.Text, command.JSON, command.JSONL, command.CSV}

// Write writes res in one of Formats. Times in JSON and CSV are in UTC.
func Write(w io.Writer, res *clickhouse.Result, format string, style *terminal.Style) error {
	switch format {
	case command.JSON:
		return writeJSON(w, res)
	case command.JSONL:
		return writeObjects(w, res, "", "\n", "\n")
	case command.CSV:
		return writeCSV(w, res)
	default:
		return writeText(w, res, style)
	}
}

// A column is a column of a table. Its header spans several lines, so that it is hardly wider than the values.
type column struct {
	header []string
	cells  []string
	width  int
	right  bool // numbers
	whole  bool // never shortened: ids, times, numbers
}

// writeText writes rows as a table if it fits into the width, else as records, one below the other.
func writeText(w io.Writer, res *clickhouse.Result, style *terminal.Style) error {
	columns := make([]column, len(res.Columns))
	for i, rc := range res.Columns {
		c := &columns[i]
		c.right = len(res.Rows) > 0
		for _, row := range res.Rows {
			c.cells = append(c.cells, cellOf(rc, row[i], style))
			c.right = c.right && (row[i] == nil || isNumber(row[i]))
		}
		zone := ""
		if strings.HasPrefix(rc.Type, "DateTime") || strings.HasPrefix(rc.Type, "Nullable(DateTime") {
			zone = c.cutZone()
		}
		for _, text := range c.cells {
			c.width = max(c.width, min(maxCell, terminal.Columns(text)))
		}
		c.whole = c.right || strings.HasSuffix(rc.Name, "_id") || c.width <= minCell || strings.Contains(rc.Type, "DateTime")
		c.header = splitName(rc.Name, c.width)
		if zone != "" {
			c.header = append(slices.Clip(c.header), zone)
		}
		for _, line := range c.header {
			c.width = max(c.width, len(line))
		}
	}
	var b strings.Builder
	switch {
	case len(res.Rows) == 0:
		b.WriteString("(no rows)\n")
	case fit(columns, style.Width):
		writeTable(&b, columns, style)
	default:
		writeRecords(&b, res, style)
	}
	if res.Truncated {
		fmt.Fprintf(&b, "(only the first %s)\n", quantity.Plural(len(res.Rows), "row"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cutZone removes the zone from the times of a column if it is the same in all rows, and returns it.
func (c *column) cutZone() string {
	zone := ""
	for _, cell := range c.cells {
		if z := cell[strings.LastIndexByte(cell, ' ')+1:]; zone == "" {
			zone = z
		} else if z != "" && z != zone {
			return "" // the clocks changed
		}
	}
	for i := range c.cells {
		c.cells[i] = strings.TrimSuffix(c.cells[i], " "+zone)
	}
	return zone
}

// fit shortens the widest texts until the table fits into width, and reports whether it does.
func fit(columns []column, width int) bool {
	total := -2
	for i := range columns {
		total += columns[i].width + 2
	}
	for total > width {
		widest := -1
		for i := range columns {
			if c := &columns[i]; !c.whole && c.width > minCell && (widest < 0 || c.width > columns[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		columns[widest].width--
		total--
	}
	return true
}

// splitName breaks a name at its underscores into lines that are no wider than width or the longest word.
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

func writeTable(b *strings.Builder, columns []column, style *terminal.Style) {
	height := 0
	for i := range columns {
		height = max(height, len(columns[i].header))
	}
	for l := range height {
		writeRow(b, columns, style.Bold, func(c *column) string {
			if i := l - (height - len(c.header)); i >= 0 {
				return c.header[i]
			}
			return ""
		})
	}
	for r := range columns[0].cells {
		writeRow(b, columns, nil, func(c *column) string { return terminal.Clip(c.cells[r], c.width) })
	}
}

func writeRow(b *strings.Builder, columns []column, paint func(string) string, text func(*column) string) {
	var line strings.Builder
	for i := range columns {
		c := &columns[i]
		t := text(c)
		pad := strings.Repeat(" ", max(0, c.width-terminal.Columns(t)))
		if c.right {
			t = pad + t
		} else {
			t += pad
		}
		line.WriteString(t + "  ")
	}
	out := strings.TrimRight(line.String(), " ")
	if paint != nil {
		out = paint(out)
	}
	b.WriteString(out + "\n")
}

// writeRecords writes the fields of each row, several on a line if there is room. Empty values are omitted, because records
// are read, not compared.
func writeRecords(b *strings.Builder, res *clickhouse.Result, style *terminal.Style) {
	const indent = "  "
	for r := range res.Rows {
		b.WriteString(style.Bold(fmt.Sprintf("── %d", r+1)) + "\n")
		line := ""
		flush := func() {
			if line != "" {
				b.WriteString(line + "\n")
			}
			line = ""
		}
		for i, v := range res.Rows[r] {
			text := terminal.Clip(cellOf(res.Columns[i], v, style), maxField)
			if text == "" {
				continue
			}
			field := style.Dim(res.Columns[i].Name+":") + " " + text
			if n := terminal.Columns(field); line != "" && terminal.Columns(line)+3+n <= style.Width {
				line += "   " + field
				continue
			}
			flush()
			lines := terminal.Wrap(field, max(20, style.Width-len(indent)-2), indent)
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

func isNumber(v any) bool {
	switch reflect.TypeOf(v).Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	default:
		return false
	}
}

// cellOf is like Cell, but writes an unknown number as -, to distinguish it from 0.
func cellOf(c clickhouse.Column, v any, style *terminal.Style) string {
	if v == nil && (strings.HasPrefix(c.Type, "Nullable(Int") || strings.HasPrefix(c.Type, "Nullable(UInt") || strings.HasPrefix(c.Type, "Nullable(Float")) {
		return "-"
	}
	return Cell(v, style)
}

// Cell formats a value on one line; times are in the zone of style.
func Cell(v any, style *terminal.Style) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return style.Time(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		return terminal.Line(v)
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Slice:
		parts := make([]string, rv.Len())
		for i := range parts {
			parts[i] = Cell(rv.Index(i).Interface(), style)
		}
		return strings.Join(parts, ", ")
	case reflect.Map:
		parts := map[string]bool{}
		for it := rv.MapRange(); it.Next(); {
			parts[Cell(it.Key().Interface(), style)+"="+Cell(it.Value().Interface(), style)] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(parts)), ", ")
	default:
		return fmt.Sprint(v)
	}
}
