package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// writeJSON writes one array of objects.
func writeJSON(w io.Writer, res *clickhouse.Result) error {
	if len(res.Rows) == 0 {
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	return writeObjects(w, res, "[\n", ",\n", "\n]\n")
}

// writeObjects writes start, the rows as objects with separator between them, and end.
func writeObjects(w io.Writer, res *clickhouse.Result, start, separator, end string) error {
	out := bytes.NewBufferString(start)
	for i, row := range res.Rows {
		if i > 0 {
			out.WriteString(separator)
		}
		if err := writeObject(out, res.Columns, row); err != nil {
			return err
		}
	}
	if len(res.Rows) > 0 {
		out.WriteString(end)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeObject writes a row with its keys in the order of the columns.
func writeObject(out *bytes.Buffer, columns []clickhouse.Column, row []any) error {
	out.WriteByte('{')
	for i, v := range row {
		if i > 0 {
			out.WriteByte(',')
		}
		for j, x := range []any{columns[i].Name, finite(v)} {
			text, err := marshal(x)
			if err != nil {
				return fmt.Errorf("encode %s: %w", columns[i].Name, err)
			}
			if j > 0 {
				out.WriteByte(':')
			}
			out.Write(text)
		}
	}
	out.WriteByte('}')
	return nil
}

// marshal encodes v without escaping <, > and &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// finite returns v, or nil for a number that JSON cannot represent.
func finite(v any) any {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil
	}
	return v
}

// writeCSV writes a header line and one line per row: NULL as an empty field, times as RFC 3339, lists and maps as JSON. Texts
// are exact, except on a terminal. So a spreadsheet may take a text such as =1+1 for a formula.
func writeCSV(w io.Writer, res *clickhouse.Result) error {
	out := csv.NewWriter(terminal.Exact(w))
	line := make([]string, len(res.Columns))
	for i, c := range res.Columns {
		line[i] = c.Name
	}
	if err := out.Write(line); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for _, row := range res.Rows {
		for i, v := range row {
			switch v := finite(v).(type) {
			case nil:
				line[i] = ""
			case string:
				line[i] = v
			case time.Time:
				line[i] = v.UTC().Format(time.RFC3339Nano)
			default:
				text, err := marshal(v)
				if err != nil {
					return fmt.Errorf("encode %s: %w", res.Columns[i].Name, err)
				}
				line[i] = string(text)
			}
		}
		if err := out.Write(line); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}
