// Package connect finds the ClickHouse and NATS servers for a command: the configured servers, else the embedded servers of
// the llmtap that runs on the data directory.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// ErrNotRunning means that the embedded server is not running.
var ErrNotRunning = errors.New("no llmtap runs")

const natsTimeout = 5 * time.Second

// ClickHouse returns the connection to ClickHouse; ok is false if the embedded ClickHouse is not running. cfg contains no
// retention, because a command that only reads must not change a TTL.
func ClickHouse(e *config.Effective) (cfg clickhouse.Config, ok bool) {
	cfg = e.ClickHouse
	cfg.Retention, cfg.MessagesRetention, cfg.TableRetention = 0, 0, nil
	if cfg.DSN == "" {
		cfg.DSN, _ = chdb.Running(config.ClickHouseDir(e.DataDir))
	}
	return cfg, cfg.DSN != ""
}

// NATS returns the connection to NATS; ok is false if the embedded NATS is not running.
func NATS(e *config.Effective) (cfg jetstream.Config, ok bool) {
	cfg = e.NATS
	if cfg.URL == "" {
		r, _ := collector.FindRunning(e.DataDir)
		cfg.URL, cfg.Token, cfg.TokenFile = r.NATSURL, e.NATSServer.Token, e.NATSServer.TokenFile
	}
	return cfg, cfg.URL != ""
}

// Servers provides the ClickHouse and NATS servers of a command.
type Servers struct {
	flags  *config.Flags
	config *config.Effective
}

// Flags adds --config, --data-dir, --clickhouse-dsn and the flags of keys to c.
func Flags(c *command.Call, keys ...string) *Servers {
	return &Servers{flags: config.AddFlags(c.Flags, c.Getenv, append(keys, "data_dir", "clickhouse.dsn")...)}
}

// Config returns the configuration, loading it on the first call.
func (s *Servers) Config() (*config.Effective, error) {
	var err error
	if s.config == nil {
		s.config, err = s.flags.Load()
	}
	return s.config, err
}

// ClickHouse returns the connection to ClickHouse.
func (s *Servers) ClickHouse() (cfg clickhouse.Config, err error) {
	e, err := s.Config()
	if err != nil {
		return cfg, err
	}
	cfg, ok := ClickHouse(e)
	if !ok {
		err = fmt.Errorf("%w on %s; start one with llmtap up, or set --data-dir or --clickhouse-dsn", ErrNotRunning, e.DataDir)
	}
	return cfg, err
}

// OpenClickHouse connects to ClickHouse. The caller must close the sink.
func (s *Servers) OpenClickHouse(ctx context.Context) (*clickhouse.Sink, error) {
	cfg, err := s.ClickHouse()
	if err != nil {
		return nil, err
	}
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

// WithClickHouse calls f with a connection to ClickHouse and closes the connection.
func (s *Servers) WithClickHouse(ctx context.Context, f func(*clickhouse.Sink) error) error {
	sink, err := s.OpenClickHouse(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // f has already reported write errors
	return f(sink)
}

// ConnectNATS connects to NATS and checks that it has the streams of llmtap, because a publisher would retry forever
// without them.
func (s *Servers) ConnectNATS(ctx context.Context) (*jetstream.Conn, error) {
	e, err := s.Config()
	if err != nil {
		return nil, err
	}
	cfg, _ := NATS(e)
	cfg.URL = cmp.Or(cfg.URL, jetstream.Default().URL)
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	conn, err := jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; start llmtap up, or set --nats-url", err)
	}
	if _, err := conn.KV(ctx, event.BucketCheckpoint); err != nil {
		conn.Close()
		return nil, fmt.Errorf("find the streams of llmtap: %w; start llmtap up on this NATS first", err)
	}
	return conn, nil
}
