package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/llmtap/llmtap/sinks"
)

// insertSettings apply to every insert and override the profile of the user.
var insertSettings = clickhouse.Settings{
	// An acknowledgement must mean that the rows are stored.
	"async_insert": 0,
	// Merges remove duplicates, and until then views do. Looking for duplicates in a block copies it once more.
	"optimize_on_insert": 0,
	// Merges build the skip indexes. Building the text index of messages in inserts as well would cost half of their time, and
	// parts that are not merged yet are small.
	"materialize_skip_indexes_on_insert": 0,
	// One batch may contain rows from many months, because agents' clocks may be wrong by years. This must not stop the
	// pipeline.
	"throw_on_max_partitions_per_insert_block": 0,
}

// clusterSettings apply to every insert into a Distributed table. The receiving server distributes the rows to the
// shards, so that rows that replace each other are on the same shard, no matter which server receives them.
var clusterSettings = clickhouse.Settings{
	// An acknowledgement must mean that the shards have stored the rows, not that the receiving server will send them.
	"insert_distributed_sync": 1,
	// A block that a replica has seen before must be stored again, because its rows may have been deleted in the
	// meantime.
	"insert_deduplicate": 0,
}

func (t topology) insertSettings() clickhouse.Settings {
	settings := maps.Clone(insertSettings)
	if t.cluster != "" {
		maps.Copy(settings, clusterSettings)
	}
	return settings
}

// Write stores all rows of b with one insert per table. After a *sinks.RetryError or a *sinks.RowError, writing the
// batch again does not duplicate rows that are already stored.
func (s *Sink) Write(ctx context.Context, b *sinks.Batch) error {
	if s.closed.Load() {
		return sinks.ErrClosed
	}
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	for _, t := range tables {
		if n := t.Len(b); n > 0 {
			if err := s.insert(ctx, t, b, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// insert sends the n rows of t as one block and waits until they are stored.
func (s *Sink) insert(ctx context.Context, t *table, b *sinks.Batch, n int) error {
	name := t.Name()
	s.metrics.received.WithLabelValues(name).Add(float64(n))
	start := time.Now()
	insertCtx := ctx
	if s.cfg.WriteTimeout > 0 {
		var cancel context.CancelFunc
		insertCtx, cancel = context.WithTimeout(ctx, s.cfg.WriteTimeout)
		defer cancel()
	}
	if err := s.send(clickhouse.Context(insertCtx, clickhouse.WithSettings(s.topology.insertSettings())), t, b); err != nil {
		err = fmt.Errorf("insert %d %s: %w", n, name, err)
		if ctx.Err() != nil {
			return err
		}
		fault := faultOf(err)
		s.metrics.errors.WithLabelValues(string(fault)).Inc()
		switch fault {
		case faultServer:
			return &sinks.RetryError{Err: err}
		case faultSetup:
			return &sinks.RetryError{Err: err, Hint: hintSetup}
		case faultRows:
		}
		return &sinks.RowError{Table: name, Err: err}
	}
	s.metrics.written.WithLabelValues(name).Add(float64(n))
	s.metrics.duration.WithLabelValues(name).Observe(time.Since(start).Seconds())
	return nil
}

// send sends the rows of t in the way that the protocol of the connection allows.
func (s *Sink) send(ctx context.Context, t *table, b *sinks.Batch) error {
	if !s.http {
		return t.send(ctx, s.conn, b)
	}
	e, err := s.encoder(ctx, t)
	if err != nil {
		return &prepareError{err}
	}
	// The rows are encoded while they are sent, so that no second copy of them is in memory.
	r, w := io.Pipe()
	encoded := make(chan error, 1)
	go func() {
		err := t.encode(e, w, b)
		_ = w.CloseWithError(err) // always nil
		encoded <- err
	}()
	err = s.conn.InsertFormat(ctx, "Native", t.insertSQL, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // ends encode if the server did not read everything; always nil
	if failure := <-encoded; failure != nil && !errors.Is(failure, io.ErrClosedPipe) {
		return failure // the cause of err, which looks like an error of the network
	}
	if err == nil { // else the table may have changed
		s.encoders[t].Put(e)
	}
	return err
}

// encoder returns an encoder for t.
func (s *Sink) encoder(ctx context.Context, t *table) (*encoder, error) {
	if e, ok := s.encoders[t].Get().(*encoder); ok {
		return e, nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"describe_compact_output": 1}))
	rows, err := s.conn.Query(ctx, "DESCRIBE TABLE "+t.Name())
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", t.Name(), err)
	}
	defer func() { _ = rows.Close() }() // errors are in rows.Err
	byName := map[string]string{}
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return nil, fmt.Errorf("read columns of %s: %w", t.Name(), err)
		}
		byName[name] = typ
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", t.Name(), err)
	}
	types := make([]string, len(t.columns))
	for i, name := range t.columns {
		if types[i] = byName[name]; types[i] == "" {
			return nil, fmt.Errorf("table %s has no column %s", t.Name(), name)
		}
	}
	return newEncoder(t.columns, types)
}

func send[R any](ctx context.Context, conn driver.Conn, insertSQL string, columns []column[R], rows []R) error {
	batch, err := conn.PrepareBatch(ctx, insertSQL)
	if err != nil {
		return &prepareError{err}
	}
	defer func() { _ = batch.Close() }() // does nothing after Send; otherwise aborts the batch
	for i, c := range columns {
		if err := batch.Column(i).Append(c.values(rows)); err != nil {
			return fmt.Errorf("fill column %s: %w", c.name, err)
		}
	}
	return batch.Send()
}
