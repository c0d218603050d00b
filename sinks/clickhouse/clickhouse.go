package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/sinks"
)

// A Sink stores batches in ClickHouse. It is safe for concurrent use.
type Sink struct {
	conn    driver.Conn
	cfg     Config
	logger  *slog.Logger
	metrics *metrics
	layout  layout
	closed  atomic.Bool
}

var _ sinks.Sink = (*Sink)(nil)

// Open connects, creates the database if it is missing and brings the schema up to date. A process that reads and
// writes the same ClickHouse elsewhere may do so meanwhile. reg may be nil; two Sinks of one process need a registerer
// each.
func Open(ctx context.Context, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	s := &Sink{conn: conn, cfg: cfg, logger: logger, metrics: newMetrics(reg)}
	if s.layout, err = s.findLayout(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate schema: %w", err), conn.Close())
	}
	if err := s.applyRetention(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("set retention: %w", err), conn.Close())
	}
	return s, nil
}

// connect returns a connection to the database of the DSN, which it creates when the server does not know it.
func connect(ctx context.Context, cfg Config) (driver.Conn, error) {
	conn, err := dial(ctx, cfg, "")
	if code(err) != codeUnknownDatabase {
		return conn, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	admin, err := dial(ctx, cfg, "default")
	if err != nil {
		return nil, err
	}
	err = admin.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quoteName(o.Auth.Database)+layout{cluster: cfg.Cluster}.on())
	if err := errors.Join(err, admin.Close()); err != nil {
		return nil, fmt.Errorf("create database %s: %w", o.Auth.Database, err)
	}
	return dial(ctx, cfg, "")
}

// dial opens a connection and uses it once; database replaces the one of the DSN unless empty.
func dial(ctx context.Context, cfg Config, database string) (driver.Conn, error) {
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if database != "" {
		o.Auth.Database = database
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, err
	}
	// Not Ping: over HTTP that does not look at the database.
	if err := conn.Exec(ctx, "SELECT 1"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Ping asks the server whether it is there.
func (s *Sink) Ping(ctx context.Context) error {
	if s.closed.Load() {
		return sinks.ErrClosed
	}
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping ClickHouse: %w", err)
	}
	return nil
}

// Counts returns the number of rows by table, each row once.
func (s *Sink) Counts(ctx context.Context) (map[string]uint64, error) {
	counts := make(map[string]uint64, len(tableNames))
	for _, t := range tableNames {
		var n uint64
		if err := s.conn.QueryRow(ctx, "SELECT count() FROM "+t+"_final").Scan(&n); err != nil {
			return nil, fmt.Errorf("count %s: %w", t, err)
		}
		counts[t] = n
	}
	return counts, nil
}

// Close closes the connections. Writes in flight may fail. Closing twice does nothing.
func (s *Sink) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close ClickHouse: %w", err)
	}
	return nil
}
