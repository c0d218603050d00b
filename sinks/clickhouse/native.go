package clickhouse

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	ch "github.com/ClickHouse/ch-go/proto"
	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// nativeRows is the number of rows per block of WriteNative.
const nativeRows = 4096

// WriteNative writes the columns and rows of r in ClickHouse's Native format, which keeps the types of all values.
// Truncated is not written.
func (r *Result) WriteNative(w io.Writer) error {
	rows := r.Rows
	for first := true; first || len(rows) > 0; first = false {
		block := proto.NewBlock()
		for _, c := range r.Columns {
			// The client cannot write the type of NULL and [], Nothing.
			t := strings.ReplaceAll(c.Type, "Nothing", "String")
			if err := block.AddColumn(c.Name, chcolumn.Type(t)); err != nil {
				return fmt.Errorf("encode column %s: %w", c.Name, err)
			}
		}
		n := min(len(rows), nativeRows)
		for _, row := range rows[:n] {
			if err := block.Append(row...); err != nil {
				return fmt.Errorf("encode row: %w", err)
			}
		}
		rows = rows[n:]
		var b ch.Buffer
		if err := block.Encode(&b, 0); err != nil {
			return fmt.Errorf("encode rows: %w", err)
		}
		if _, err := w.Write(b.Buf); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
	}
	return nil
}

// ReadNative reads a result that WriteNative wrote.
func ReadNative(r io.Reader) (*Result, error) {
	reader := ch.NewReader(r)
	res := &Result{}
	for first := true; ; first = false {
		block := proto.NewBlock()
		if err := block.Decode(reader, 0); errors.Is(err, io.EOF) && !first {
			return res, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode rows: %w", err)
		}
		for i, c := range block.Columns {
			if first {
				res.Columns = append(res.Columns, Column{Name: block.ColumnsNames()[i], Type: string(c.Type())})
			}
		}
		for i := range block.Rows() {
			row := make([]any, len(block.Columns))
			for j, c := range block.Columns {
				dest := reflect.New(c.ScanType())
				if err := c.ScanRow(dest.Interface(), i); err != nil {
					return nil, fmt.Errorf("decode row: %w", err)
				}
				row[j] = plain(dest.Elem())
			}
			res.Rows = append(res.Rows, row)
		}
	}
}
