package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sqltext"
)

// A Sink stores batches in ClickHouse. It is safe for concurrent use.
type Sink struct {
	conn     driver.Conn
	http     bool                  // the protocol of conn is HTTP
	database string                // database of conn
	encoders map[*table]*sync.Pool // of *encoder
	cfg      Config
	logger   *slog.Logger
	metrics  *metrics
	topology topology // set by prepare
	ready    atomic.Bool
	setup    sync.Mutex // held by prepare
	closed   atomic.Bool

	mu      sync.Mutex // guards failure
	failure error      // error of the last prepare
}

var _ sinks.Sink = (*Sink)(nil)

// Open connects to ClickHouse, creates a missing database and migrates the schema. Several processes may open the same
// database concurrently. reg may be nil; if a process has several Sinks, each requires its own registerer.
func Open(ctx context.Context, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Sink, error) {
	s, err := OpenLazy(cfg, logger, reg)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenLazy is like Open, but for processes that also work while ClickHouse is down: it does not connect. The first
// successful Prepare or Write creates the database and migrates the schema.
func OpenLazy(cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	return newSink(o, cfg, logger, reg)
}

// newSink returns a Sink that connects as o says.
func newSink(o *clickhouse.Options, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Sink, error) {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, err
	}
	encoders := make(map[*table]*sync.Pool, len(tables))
	for _, t := range tables {
		encoders[t] = &sync.Pool{}
	}
	return &Sink{
		conn: conn, encoders: encoders, http: o.Protocol == clickhouse.HTTP, database: o.Auth.Database,
		cfg: cfg, logger: logger, metrics: newMetrics(reg), failure: errPreparing,
	}, nil
}

// Prepare connects, creates a missing database and migrates the schema, unless this has already been done. Its errors are
// *sinks.RetryError unless ctx has ended.
func (s *Sink) Prepare(ctx context.Context) error {
	err := s.prepare(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, errPreparing) || faultOf(err) == faultServer:
		return &sinks.RetryError{Err: err}
	case slices.Contains(loginCodes, code(err)):
		return &sinks.RetryError{Err: err, Hint: hintLogin}
	}
	return &sinks.RetryError{Err: err, Hint: hintSetup}
}

// errPreparing is returned by prepare while another goroutine executes it.
var errPreparing = errors.New("ClickHouse is being prepared")

// prepare connects, migrates the schema and sets the retention. After it has succeeded once, it does nothing.
func (s *Sink) prepare(ctx context.Context) (err error) {
	if s.ready.Load() {
		return nil
	}
	if !s.setup.TryLock() {
		return errPreparing
	}
	defer s.setup.Unlock()
	if s.ready.Load() {
		return nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = err
	}()
	if err := s.connect(ctx); err != nil {
		return fmt.Errorf("connect to ClickHouse: %w", withoutRequest(err))
	}
	if s.topology, err = s.readTopology(ctx); err != nil {
		return err
	}
	ms, err := embedded()
	if err == nil {
		err = s.apply(ctx, ms)
	}
	if err != nil {
		return fmt.Errorf("migrate schema: %w", err)
	}
	if err := s.compressMerged(ctx); err != nil {
		return fmt.Errorf("set the codec of bodies: %w", err)
	}
	if err := s.applyRetention(ctx); err != nil {
		return fmt.Errorf("set retention: %w", err)
	}
	s.reportDamage(ctx)
	s.ready.Store(true)
	return nil
}

// reportDamage logs the parts that ClickHouse has set aside when it started, because their files are damaged.
func (s *Sink) reportDamage(ctx context.Context) {
	rows, err := s.conn.Query(ctx, `SELECT table, count(), toUInt64(sum(bytes_on_disk)) FROM system.detached_parts
		WHERE database = currentDatabase() AND startsWith(reason, 'broken') GROUP BY table ORDER BY table`)
	if err != nil {
		s.logger.Debug("damaged parts are unknown", "err", err) // the user may not have the grant
		return
	}
	defer func() { _ = rows.Close() }() // used for reading only
	for rows.Next() {
		var table string
		var parts, bytes uint64
		if err := rows.Scan(&table, &parts, &bytes); err != nil {
			s.logger.Debug("damaged parts are unknown", "err", err)
			return
		}
		s.logger.Error("ClickHouse has set damaged parts aside: their rows are missing", "table", table, "parts", parts, "bytes", bytes,
			"fix", "restore the table from a backup, or give the rows up with ALTER TABLE "+table+" DROP DETACHED PART; see system.detached_parts")
	}
}

// connect checks the connection and creates the database named in the DSN if it is missing.
func (s *Sink) connect(ctx context.Context) error {
	err := s.conn.Exec(ctx, probe)
	if code(err) != proto.ErrUnknownDatabase {
		return err
	}
	admin, err := dial(ctx, s.cfg, "default")
	if err != nil {
		return err
	}
	err = admin.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+sqltext.QuoteName(s.database)+topology{cluster: s.cfg.Cluster}.on())
	if err := errors.Join(err, admin.Close()); err != nil {
		return fmt.Errorf("create database %s: %w", s.database, err)
	}
	return s.conn.Exec(ctx, probe)
}

// probe is used instead of Ping, which does not check the database over HTTP.
const probe = "SELECT 1"

// dial opens a connection and checks it. If database is not empty, it overrides the database in the DSN.
func dial(ctx context.Context, cfg Config, database string) (driver.Conn, error) {
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if database != "" {
		o.Auth.Database = database
	}
	return dialOptions(ctx, o)
}

// dialOptions opens a connection and checks it.
func dialOptions(ctx context.Context, o *clickhouse.Options) (driver.Conn, error) {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, err
	}
	if err := conn.Exec(ctx, probe); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Ping checks whether the server responds. Before the Sink is prepared, it returns the reason why it is not.
func (s *Sink) Ping(ctx context.Context) error {
	if s.closed.Load() {
		return sinks.ErrClosed
	}
	if !s.ready.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failure
	}
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping ClickHouse: %w", withoutRequest(err))
	}
	return nil
}

// Counts returns the number of rows by table, counting each id once.
func (s *Sink) Counts(ctx context.Context) (map[string]uint64, error) {
	counts := make(map[string]uint64, len(tables))
	for _, t := range tables {
		var n uint64
		if err := s.conn.QueryRow(ctx, "SELECT count() FROM "+t.Name()+"_final").Scan(&n); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.Name(), err)
		}
		counts[t.Name()] = n
	}
	return counts, nil
}

// Close closes the connections. Writes in flight may fail. A second call does nothing.
func (s *Sink) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close ClickHouse: %w", err)
	}
	return nil
}
