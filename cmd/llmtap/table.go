package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	defaultWidth = 160 // columns of a terminal that does not say
	maxCell      = 60  // runes of a cell in a table
	maxField     = 400 // runes of a value in a record
)

// terminalWidth is the width that the shell exports, if it does.
func terminalWidth(getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return defaultWidth
}

func printJSONLines(w io.Writer, res *clickhouse.Result) error {
	enc := json.NewEncoder(w)
	for _, row := range res.Rows {
		obj := make(map[string]any, len(row))
		for i, v := range row {
			obj[res.Columns[i].Name] = v
		}
		if err := enc.Encode(obj); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
	}
	return nil
}

// printTable prints rows as a table if it fits into width, else as one record below the other.
func printTable(w io.Writer, res *clickhouse.Result, width int) error {
	names := make([]string, len(res.Columns))
	widths := make([]int, len(res.Columns))
	for i, c := range res.Columns {
		names[i] = c.Name
		widths[i] = utf8.RuneCountInString(c.Name)
	}
	cells := make([][]string, len(res.Rows))
	for r, row := range res.Rows {
		cells[r] = make([]string, len(row))
		for i, v := range row {
			cells[r][i] = cell(v)
			widths[i] = max(widths[i], min(maxCell, utf8.RuneCountInString(cells[r][i])))
		}
	}
	total := 0
	for _, n := range widths {
		total += n + 2
	}
	var b strings.Builder
	if total <= width {
		writeRow(&b, names, widths)
		for _, row := range cells {
			writeRow(&b, row, widths)
		}
	} else {
		writeRecords(&b, names, cells)
	}
	switch {
	case len(res.Rows) == 0:
		b.WriteString("(no rows)\n")
	case res.Truncated:
		fmt.Fprintf(&b, "(only the first %d rows)\n", len(res.Rows))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRow(b *strings.Builder, row []string, widths []int) {
	var line strings.Builder
	for i, c := range row {
		c = clip(c, maxCell)
		line.WriteString(c)
		line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// writeRecords leaves out empty values: a record is for reading, not for comparing.
func writeRecords(b *strings.Builder, names []string, cells [][]string) {
	longest := 0
	for _, n := range names {
		longest = max(longest, len(n))
	}
	for r, row := range cells {
		fmt.Fprintf(b, "── %d\n", r+1)
		for i, c := range row {
			if c != "" {
				fmt.Fprintf(b, "  %-*s  %s\n", longest, names[i], clip(c, maxField))
			}
		}
	}
}

// cell formats a value for a terminal, on one line.
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
		return strings.Join(strings.Fields(v), " ")
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
