package table

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// An Encoder writes structs of one type, one by one, in one of Formats except text. Their JSON names are the columns of CSV,
// where lists and objects are JSON.
type Encoder struct {
	W      io.Writer
	Format string

	n int // values written
}

// A Printer prints the results of a command that reads records, one by one. Close ends the output, with their counts.
type Printer[Result, Counts any] interface {
	Print(Result) error
	Close(Counts) error
}

// Rows is the Printer of an Encoder.
type Rows[Result, Counts any] struct{ E *Encoder }

// Print encodes r.
func (p Rows[Result, Counts]) Print(r Result) error { return p.E.Encode(r) }

// Close ends the output.
func (p Rows[Result, Counts]) Close(Counts) error { return p.E.Close() }

// Encode writes v, which is a struct or a pointer to one.
func (e *Encoder) Encode(v any) error {
	e.n++
	if e.Format == command.CSV {
		return e.csv(reflect.Indirect(reflect.ValueOf(v)))
	}
	text, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	switch {
	case e.Format == command.JSONL:
		text = append(text, '\n')
	case e.n == 1:
		text = append([]byte("[\n"), text...)
	default:
		text = append([]byte(",\n"), text...)
	}
	_, err = e.W.Write(text)
	return err
}

// Close ends the output.
func (e *Encoder) Close() error {
	end := ""
	switch {
	case e.Format == command.JSON && e.n == 0:
		end = "[]\n"
	case e.Format == command.JSON:
		end = "\n]\n"
	}
	_, err := io.WriteString(e.W, end)
	return err
}

// csv writes the fields of v as a line, after a header line if it is the first one.
func (e *Encoder) csv(v reflect.Value) error {
	var header, line []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		text, err := marshal(v.Field(i).Interface())
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		cell := string(text)
		if cell == "null" {
			cell = ""
		} else if cell[0] == '"' {
			if err := json.Unmarshal(text, &cell); err != nil {
				return fmt.Errorf("encode %s: %w", name, err)
			}
		}
		header, line = append(header, name), append(line, cell)
	}
	w := csv.NewWriter(terminal.Exact(e.W))
	if e.n == 1 {
		_ = w.Write(header) // Flush reports the error
	}
	_ = w.Write(line)
	w.Flush()
	return w.Error()
}
