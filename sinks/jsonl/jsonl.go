/*
Package jsonl writes rows as lines of JSON and reads them back. It is meant for tests and for tools without a database.

	Batch ──> {"table":"exchanges","row":{"ID":"019a…","Seq":7,…}}   one line per row   ──> Read ──> Batch, each row once

Every write of a row appends a line. Read returns only the newest version of each id, like the views in ClickHouse. The
JSON keys are the field names of the Go types. Invalid UTF-8 becomes U+FFFD, as usual in encoding/json.
*/
package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/llmtap/llmtap/sinks"
)

// A Sink appends rows to a writer. It is safe for concurrent use.
type Sink struct {
	mu     sync.Mutex // guards w and closed
	w      io.Writer
	closed bool
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink that writes to w, one Write per batch. Close closes w if it is an io.Closer.
func New(w io.Writer) *Sink { return &Sink{w: w} }

// Open returns a Sink that appends to the file at path. A missing file is created with mode 0600.
func Open(path string) (*Sink, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open rows: %w", err)
	}
	return New(f), nil
}

type line[R any] struct { // R is any or json.RawMessage
	Table string `json:"table"`
	Row   R      `json:"row"`
}

// Write appends the rows of b.
func (s *Sink) Write(ctx context.Context, b *sinks.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %d rows: %w", b.Rows(), err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, t := range sinks.Tables {
		for i := range t.Len(b) {
			if err := enc.Encode(line[any]{t.Name(), t.Row(b, i)}); err != nil {
				return fmt.Errorf("encode row %d of %s: %w", i, t.Name(), err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sinks.ErrClosed
	}
	if _, err := s.w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write %d rows: %w", b.Rows(), err)
	}
	return nil
}

// Close closes the writer if it is an io.Closer. A second call does nothing.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if c, ok := s.w.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close rows: %w", err)
		}
	}
	return nil
}

// Read returns the newest version of each row in r, in the order in which the ids first appear. A last line without a
// newline is ignored, because it was truncated by a crash; any other invalid line is an error.
func Read(r io.Reader) (*sinks.Batch, error) {
	newest := map[string]*sinks.Batch{} // table and id -> the row
	var order []*sinks.Batch
	br := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d: %w", n, err)
		}
		t, row, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("decode line %d: %w", n, err)
		}
		id, version := t.Key(row, 0)
		key := t.Name() + " " + id
		old, ok := newest[key]
		if !ok {
			newest[key] = row
			order = append(order, row)
		} else if _, oldVersion := t.Key(old, 0); version >= oldVersion {
			*old = *row
		}
	}
	b := &sinks.Batch{}
	for _, row := range order {
		b.Append(row)
	}
	return b, nil
}

// decode returns the table of a line and its row, as the only row of a batch.
func decode(text []byte) (sinks.Table, *sinks.Batch, error) {
	var l line[json.RawMessage]
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(sinks.Tables, func(t sinks.Table) bool { return t.Name() == l.Table })
	if i < 0 {
		return nil, nil, fmt.Errorf("unknown table %q", l.Table)
	}
	row := &sinks.Batch{}
	return sinks.Tables[i], row, json.Unmarshal(l.Row, sinks.Tables[i].NewRow(row))
}
