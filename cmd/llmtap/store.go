package main

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

// serverFlags adds the configuration flags of a command that reads ClickHouse, and those of further keys.
func serverFlags(c *command.Call, keys ...string) *config.Flags {
	return config.AddFlags(c.Flags, c.Getenv, append(keys, "data_dir", "clickhouse.dsn")...)
}

// configFlag adds --config.
func configFlag(c *command.Call) *config.Flags { return config.AddFlags(c.Flags, c.Getenv, "") }

// clickHouseConfig returns the configured ClickHouse, else the embedded one of the llmtap that runs on the data directory.
func clickHouseConfig(e *config.Effective) (clickhouse.Config, error) {
	cfg := clickhouse.Default()
	cfg.DSN, cfg.PasswordFile, cfg.AllowSkipVerify = e.ClickHouse.DSN, e.ClickHouse.PasswordFile, e.ClickHouse.AllowSkipVerify
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

// openClickHouse opens the ClickHouse of clickHouseConfig.
func openClickHouse(ctx context.Context, e *config.Effective) (*clickhouse.Sink, error) {
	cfg, err := clickHouseConfig(e)
	if err != nil {
		return nil, err
	}
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

// connectNATS connects to the configured NATS, else to the embedded one of the llmtap that runs on the data directory.
func connectNATS(ctx context.Context, e *config.Effective) (*jetstream.Conn, error) {
	cfg := e.NATS
	if cfg.URL == "" {
		cfg.URL = jetstream.Default().URL
		if r, ok := collector.FindRunning(e.DataDir); ok && r.NATSURL != "" {
			cfg.URL = r.NATSURL
		}
	}
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	conn, err := jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; start llmtap up, or set --nats-url", err)
	}
	// Without the stream the publisher would retry every message forever.
	if _, err := conn.KV(ctx, event.BucketCheckpoint); err != nil {
		conn.Close()
		return nil, fmt.Errorf("find the streams of llmtap: %w; start llmtap up on this NATS first", err)
	}
	return conn, nil
}
