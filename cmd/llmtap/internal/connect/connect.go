// Package connect opens the ClickHouse and NATS servers of a command: those of the configuration, else the embedded ones of the
// llmtap that runs on the data directory.
package connect

import (
	"context"
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

const natsTimeout = 5 * time.Second

// Servers are the servers of one command.
type Servers struct {
	flags  *config.Flags
	config *config.Effective
}

// Flags adds --config, --data-dir and --clickhouse-dsn to c, and the flags of further keys.
func Flags(c *command.Call, keys ...string) *Servers {
	return &Servers{flags: config.AddFlags(c.Flags, c.Getenv, append(keys, "data_dir", "clickhouse.dsn")...)}
}

// Config loads the configuration once.
func (s *Servers) Config() (*config.Effective, error) {
	if s.config != nil {
		return s.config, nil
	}
	e, err := s.flags.Load()
	if err == nil {
		s.config = e
	}
	return e, err
}

// ClickHouseConfig returns the connection to ClickHouse. It contains no retention: a reading command must not change a TTL.
func (s *Servers) ClickHouseConfig() (clickhouse.Config, error) {
	cfg := clickhouse.Default()
	e, err := s.Config()
	if err != nil {
		return cfg, err
	}
	cfg.DSN, cfg.PasswordFile, cfg.AllowSkipVerify = e.ClickHouse.DSN, e.ClickHouse.PasswordFile, e.ClickHouse.AllowSkipVerify
	cfg.Cluster = e.ClickHouse.Cluster
	if cfg.DSN != "" {
		return cfg, nil
	}
	dsn, ok := chdb.Running(config.ClickHouseDir(e.DataDir))
	if !ok {
		return cfg, fmt.Errorf("no llmtap runs on %s; start one with llmtap up, or set --data-dir or --clickhouse-dsn", e.DataDir)
	}
	cfg.DSN = dsn
	return cfg, nil
}

// Remote reports whether the configuration names a ClickHouse server.
func (s *Servers) Remote() bool { return s.config != nil && s.config.ClickHouse.DSN != "" }

// ClickHouse opens ClickHouse.
func (s *Servers) ClickHouse(ctx context.Context) (*clickhouse.Sink, error) {
	cfg, err := s.ClickHouseConfig()
	if err != nil {
		return nil, err
	}
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

func (s *Servers) natsConfig() (jetstream.Config, error) {
	e, err := s.Config()
	if err != nil {
		return jetstream.Config{}, err
	}
	cfg := e.NATS
	if cfg.URL == "" {
		cfg.URL = jetstream.Default().URL
		if r, ok := collector.FindRunning(e.DataDir); ok && r.NATSURL != "" {
			cfg.URL = r.NATSURL
		}
	}
	return cfg, nil
}

// NATS connects to NATS and checks that it has the streams of llmtap: without them a publisher would retry forever.
func (s *Servers) NATS(ctx context.Context) (*jetstream.Conn, error) {
	cfg, err := s.natsConfig()
	if err != nil {
		return nil, err
	}
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
