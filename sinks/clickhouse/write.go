package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks"
)

// tableNames are the tables that hold rows, in the order Write fills them: a reader who sees an exchange with findings
// finds them too.
var tableNames = []string{"findings", "tool_calls", "messages", "history", "exchanges", "runs", "alerts"}

// insertSettings hold for every insert, whatever the user's profile says.
var insertSettings = clickhouse.Settings{
	// An acknowledgement must mean that the rows are stored.
	"async_insert": 0,
	// Agents' clocks may be wrong by years, so one batch may touch many months; that must not stop the pipeline.
	"throw_on_max_partitions_per_insert_block": 0,
}

// clusterSettings hold for every insert into a Distributed table. The server that is asked cuts the rows by shard: only so
// rows that replace each other meet, whichever server that is.
var clusterSettings = clickhouse.Settings{
	// An acknowledgement must mean that the shards have the rows, not that the server that was asked means to send them.
	"insert_distributed_sync": 1,
	// A block that a replica has seen before must be stored all the same: its rows may have been deleted since.
	"insert_deduplicate": 0,
}

// insertSettings are those of every insert.
func (l layout) insertSettings() clickhouse.Settings {
	settings := maps.Clone(insertSettings)
	if l.cluster != "" {
		maps.Copy(settings, clusterSettings)
	}
	return settings
}

// Write stores all rows of b, one insert per table. A *sinks.RetryError may pass later, a *sinks.RowError may be the fault
// of some rows; what was stored before either is not doubled when the batch is written again.
func (s *Sink) Write(ctx context.Context, b *sinks.Batch) error {
	if s.closed.Load() {
		return sinks.ErrClosed
	}
	if err := s.prepare(ctx); err != nil {
		switch {
		case ctx.Err() != nil:
			return err // the caller gave up
		case errors.Is(err, errPreparing) || faultOf(err) == faultServer:
			return &sinks.RetryError{Err: err}
		}
		return &sinks.RetryError{Err: err, Hint: hintSetup}
	}
	if err := insert(ctx, s, "findings", findingColumns, b.Findings); err != nil {
		return err
	}
	if err := insert(ctx, s, "tool_calls", toolCallColumns, b.ToolCalls); err != nil {
		return err
	}
	if err := insert(ctx, s, "messages", contentColumns, b.Contents); err != nil {
		return err
	}
	if err := insert(ctx, s, "history", historyColumns, b.History); err != nil {
		return err
	}
	if err := insert(ctx, s, "exchanges", exchangeColumns, b.Exchanges); err != nil {
		return err
	}
	if err := insert(ctx, s, "runs", runColumns, b.Runs); err != nil {
		return err
	}
	return insert(ctx, s, "alerts", alertColumns, b.Alerts)
}

// insert sends rows to table as one block and waits until they are stored.
func insert[R any](ctx context.Context, s *Sink, table string, columns []column[R], rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	s.metrics.in.WithLabelValues(table).Add(float64(len(rows)))
	start := time.Now()
	ictx := ctx
	if s.cfg.WriteTimeout > 0 {
		var cancel context.CancelFunc
		ictx, cancel = context.WithTimeout(ctx, s.cfg.WriteTimeout)
		defer cancel()
	}
	if err := send(clickhouse.Context(ictx, clickhouse.WithSettings(s.layout.insertSettings())), s, table, columns, rows); err != nil {
		err = fmt.Errorf("insert %d %s: %w", len(rows), table, err)
		if ctx.Err() != nil {
			return err // the caller gave up
		}
		why := faultOf(err)
		s.metrics.errors.WithLabelValues(string(why)).Inc()
		switch why {
		case faultServer:
			return &sinks.RetryError{Err: err}
		case faultSetup:
			return &sinks.RetryError{Err: err, Hint: hintSetup}
		case faultRows:
		}
		return &sinks.RowError{Table: table, Err: err}
	}
	s.metrics.out.WithLabelValues(table).Add(float64(len(rows)))
	s.metrics.seconds.WithLabelValues(table).Observe(time.Since(start).Seconds())
	return nil
}

func send[R any](ctx context.Context, s *Sink, table string, columns []column[R], rows []R) error {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return &prepareError{err}
	}
	defer func() { _ = batch.Close() }() // after Send it does nothing, before it gives the batch up
	for i, c := range columns {
		if err := batch.Column(i).Append(c.values(rows)); err != nil {
			return fmt.Errorf("fill column %s: %w", c.name, err)
		}
	}
	return batch.Send()
}
