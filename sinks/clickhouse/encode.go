package clickhouse

import (
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/proto"
	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// flushBytes is the size at which an encoder writes its buffer.
const flushBytes = 256 << 10

// An encoder writes rows of one table in ClickHouse's Native format, as one block:
//
//	number of columns, number of rows, for each column: name, type, values
//
// Texts are copied straight from the rows to the writer. Only the other columns, which are small, are collected first. An
// encoder keeps its memory for the next block. It is not safe for concurrent use.
type encoder struct {
	types []string       // types of the columns
	block *chproto.Block // the columns that are not texts
	at    []int          // index in block by column; -1 for a text
	buf   proto.Buffer
}

// newEncoder returns an encoder for columns of the given names and types.
func newEncoder(names, types []string) (*encoder, error) {
	e := &encoder{types: types, block: chproto.NewBlock(), at: make([]int, len(names))}
	for i, name := range names {
		if e.at[i] = -1; types[i] == "String" {
			continue
		}
		e.at[i] = len(e.block.Columns)
		if err := e.block.AddColumn(name, chcolumn.Type(types[i])); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	return e, nil
}

// encode writes rows to w.
func encode[R any](e *encoder, w io.Writer, columns []column[R], rows []R) error {
	e.buf.Reset()
	e.buf.PutUVarInt(uint64(len(columns)))
	e.buf.PutUVarInt(uint64(len(rows)))
	for i := range columns {
		c := &columns[i]
		if e.at[i] < 0 && c.text == nil {
			return fmt.Errorf("column %s is a String in ClickHouse", c.name)
		}
		if e.at[i] < 0 {
			e.buf.PutString(c.name)
			e.buf.PutString(e.types[i])
			for j := range rows {
				e.buf.PutString(c.text(&rows[j]))
				if err := e.flush(w, flushBytes); err != nil {
					return err
				}
			}
			continue
		}
		values := e.block.Columns[e.at[i]]
		values.Reset()
		if _, err := values.Append(c.values(rows)); err != nil {
			return fmt.Errorf("fill column %s: %w", c.name, err)
		}
		if err := e.block.EncodeColumn(&e.buf, 0, e.at[i]); err != nil {
			return fmt.Errorf("encode column %s: %w", c.name, err)
		}
		values.Reset()
		if err := e.flush(w, flushBytes); err != nil {
			return err
		}
	}
	return e.flush(w, 1)
}

// flush writes the buffer if it holds at least size bytes.
func (e *encoder) flush(w io.Writer, size int) error {
	if len(e.buf.Buf) < size {
		return nil
	}
	_, err := w.Write(e.buf.Buf)
	e.buf.Reset()
	return err
}
