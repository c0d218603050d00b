package clickhouse

import (
	"context"
	"errors"
	"io/fs"
)

// Drop removes the database of dsn.
func Drop(ctx context.Context, dsn string) error {
	cfg := Default()
	cfg.DSN = dsn
	o, err := cfg.options()
	if err != nil {
		return err
	}
	conn, err := dial(ctx, cfg, "default")
	if err != nil {
		return err
	}
	return errors.Join(conn.Exec(ctx, "DROP DATABASE IF EXISTS "+quoteName(o.Auth.Database)), conn.Close())
}

// Apply applies the migrations in dir.
func (s *Sink) Apply(ctx context.Context, dir fs.FS) error {
	ms, err := migrations(dir)
	if err != nil {
		return err
	}
	return s.apply(ctx, ms)
}

// Exec runs a statement that Query refuses.
func (s *Sink) Exec(ctx context.Context, sql string) error { return s.conn.Exec(ctx, sql) }

// ExecBatch inserts n rows.
func (s *Sink) ExecBatch(ctx context.Context, insert string, n int, row func(i int) []any) error {
	b, err := s.conn.PrepareBatch(ctx, insert)
	if err != nil {
		return err
	}
	for i := range n {
		if err := b.Append(row(i)...); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return b.Send()
}

var (
	Schema     = schema
	Statements = statements
)

// Fault says whose fault err is.
func Fault(err error) string { return string(faultOf(err)) }

// Unprepared makes err one of an insert before it had rows.
func Unprepared(err error) error { return &prepareError{err} }

// ColumnNames are the columns that Write fills, by table.
func ColumnNames() map[string][]string {
	return map[string][]string{
		"exchanges": names(exchangeColumns), "findings": names(findingColumns),
		"tool_calls": names(toolCallColumns), "runs": names(runColumns), "messages": names(contentColumns), "history": names(historyColumns), "alerts": names(alertColumns),
	}
}

func names[R any](columns []column[R]) []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.name)
	}
	return out
}
