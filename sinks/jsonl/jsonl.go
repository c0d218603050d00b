/*
Package jsonl writes rows as lines of JSON and reads them back: a store for tests and for tools that have no database.

	Batch ──> {"table":"exchanges","row":{"ID":"019a…","Seq":7,…}}   one line per row   ──> Read ──> Batch, each row once

A line is appended each time a row is written; Read keeps the newest version of each id, as the views of a database do.
Rows have the field names of their Go types. Bytes that are not UTF-8 become U+FFFD, as encoding/json has it.
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
	"sync"

	"github.com/llmtap/llmtap/analyzer"
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

// Open returns a Sink that appends to the file at path, which it makes with mode 0600 when it is missing.
func Open(path string) (*Sink, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open rows: %w", err)
	}
	return New(f), nil
}

type line[R any] struct {
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
	err := errors.Join(
		encode(enc, "exchanges", b.Exchanges),
		encode(enc, "findings", b.Findings),
		encode(enc, "tool_calls", b.ToolCalls),
		encode(enc, "runs", b.Runs),
		encode(enc, "messages", b.Contents),
		encode(enc, "history", b.History),
		encode(enc, "alerts", b.Alerts),
	)
	if err != nil {
		return err
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

func encode[R any](enc *json.Encoder, table string, rows []R) error {
	for i := range rows {
		if err := enc.Encode(line[*R]{table, &rows[i]}); err != nil {
			return fmt.Errorf("encode row %d of %s: %w", i, table, err)
		}
	}
	return nil
}

// Close closes the writer, if it can be closed. Closing twice does nothing.
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

// Read returns the rows in r, the newest version of each id only, in the order in which the ids came first. A last line
// without its newline was cut by a crash and is left out; any other bad line is an error.
func Read(r io.Reader) (*sinks.Batch, error) {
	exchanges := newest[analyzer.Exchange]{index: map[string]int{}}
	findings := newest[analyzer.Finding]{index: map[string]int{}}
	toolCalls := newest[analyzer.ToolCall]{index: map[string]int{}}
	runs := newest[analyzer.Run]{index: map[string]int{}}
	contents := newest[analyzer.Content]{index: map[string]int{}}
	history := newest[analyzer.HistoryEntry]{index: map[string]int{}}
	alerts := newest[sinks.Alert]{index: map[string]int{}}

	br := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d: %w", n, err)
		}
		var l line[json.RawMessage]
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("decode line %d: %w", n, err)
		}
		switch l.Table {
		case "exchanges":
			err = exchanges.add(l.Row, func(e *analyzer.Exchange) (string, uint64) { return e.ID, e.Seq })
		case "findings":
			err = findings.add(l.Row, func(f *analyzer.Finding) (string, uint64) { return f.ID, f.Seq })
		case "tool_calls":
			err = toolCalls.add(l.Row, func(c *analyzer.ToolCall) (string, uint64) { return c.ID, c.Seq })
		case "runs":
			err = runs.add(l.Row, func(r *analyzer.Run) (string, uint64) { return r.ID, r.Seq })
		case "messages":
			err = contents.add(l.Row, func(c *analyzer.Content) (string, uint64) { return c.ID, uint64(c.SeenAt.UnixNano()) })
		case "history":
			err = history.add(l.Row, func(h *analyzer.HistoryEntry) (string, uint64) { return h.ID(), h.Seq })
		case "alerts":
			err = alerts.add(l.Row, func(a *sinks.Alert) (string, uint64) { return a.ID, a.Version })
		default:
			err = fmt.Errorf("unknown table %q", l.Table)
		}
		if err != nil {
			return nil, fmt.Errorf("decode line %d: %w", n, err)
		}
	}
	return &sinks.Batch{
		Exchanges: exchanges.rows, Findings: findings.rows, ToolCalls: toolCalls.rows, Runs: runs.rows, Contents: contents.rows, History: history.rows,
		Alerts: alerts.rows,
	}, nil
}

// newest keeps the newest version of each row.
type newest[R any] struct {
	rows  []R
	index map[string]int // id -> place in rows
}

func (n *newest[R]) add(raw json.RawMessage, key func(*R) (id string, version uint64)) error {
	var r R
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	id, version := key(&r)
	i, ok := n.index[id]
	if !ok {
		n.index[id] = len(n.rows)
		n.rows = append(n.rows, r)
		return nil
	}
	if _, old := key(&n.rows[i]); version >= old {
		n.rows[i] = r
	}
	return nil
}
