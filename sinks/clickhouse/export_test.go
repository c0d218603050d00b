package clickhouse

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// Drop drops the database of dsn.
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
	return errors.Join(conn.Exec(ctx, "DROP DATABASE IF EXISTS "+sqltext.QuoteName(o.Auth.Database)), conn.Close())
}

// Apply applies the migrations in dir.
func (s *Sink) Apply(ctx context.Context, dir fs.FS) error {
	ms, err := migrations(dir)
	if err != nil {
		return err
	}
	return s.apply(ctx, ms)
}

// Exec runs a statement that Query rejects.
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

// Fault returns the fault class of err.
func Fault(err error) string { return string(faultOf(err)) }

// PrepareError wraps err as an error of an insert before rows were added.
func PrepareError(err error) error { return &prepareError{err} }

// ColumnNames returns the columns that Write fills, by table.
func ColumnNames() map[string][]string {
	columns := map[string][]string{}
	for _, t := range tables {
		columns[t.Name()] = slices.Clone(t.columns)
	}
	return columns
}
