package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

var upCommand = &command.Command{
	Name:  "up",
	Short: "Run the collector: all roles on one machine, or some of a cluster",
	Long: `Without flags, everything runs in this process: an embedded NATS server that hooks
publish to, the analyzer, an embedded ClickHouse, the alert rules, and a proxy for
agents that can only change their base URL. --nats-url and --clickhouse-dsn select
existing servers. deploy/llmtap.example.yaml lists every configuration key.

Roles:
  analyze  store and analyze events
  alert    evaluate alert rules and notify
  proxy    record the calls of agents that use the proxy as their base URL
  receive  store events sent over HTTP, and LLM calls in spans of OpenTelemetry
           (ports 4318 and, for gRPC, 4317)
  ui       serve the web pages

To use the proxy, replace scheme and host of a provider's base URL:
  https://api.openai.com/v1 -> http://127.0.0.1:8089/openai/v1

Labels are headers: X-Llmtap-Service, X-Llmtap-Agent, X-Llmtap-Stage,
X-Llmtap-Conversation and so on. The proxy records bodies without texts: each
text becomes its length and a hash, keyed with LLMTAP_SHAPE_KEY. With
--proxy-capture full it records whole bodies.

Hooks that may only speak HTTPS send their events to the role receive:
  LLMTAP_ENDPOINT=http://127.0.0.1:4318

Rule files (alerts.rule_files) are reloaded when they change, and on SIGHUP;
invalid files leave the previous rules in effect. Everything else is read at
startup only.`,
	Examples: `  llmtap up
  llmtap up --config llmtap.yaml
  llmtap up --slack-token-file /etc/llmtap/token --slack-channel '#oncall'
  llmtap up --nats-url nats://nats.internal:4222 \
    --clickhouse-dsn clickhouse://llmtap@ch.internal:9000/llmtap
  llmtap up --roles proxy --nats-url nats://nats.internal:4222
  llmtap up --proxy-upstream ollama=http://127.0.0.1:11434`,
	Run: runUp,
}

func runUp(ctx context.Context, c *command.Call) error {
	cfg, err := c.ParseConfig()
	if err != nil {
		return err
	}
	limitMemory(cfg.Memory.Limit, c.Getenv)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	var col *collector.Collector
	col, err = collector.Open(ctx, cfg.Config, collector.Options{
		Logger: newLogger(c.Stderr, cfg.LogFormat), Progress: func(s string) { fmt.Fprintln(c.Stderr, s) },
		Up:      func(ctx context.Context) { col.Describe(ctx, c.Stdout, cfg.Source()) },
		Hangups: hangups, Version: buildVersion().Version,
	})
	if err != nil {
		return err
	}
	defer col.Close()
	return col.Run(ctx)
}

// limitMemory makes the runtime keep the process within limit bytes, unless the environment sets limits of the runtime. Until
// the heap is near the limit, garbage is collected half as often as by default.
func limitMemory(limit int64, getenv func(string) string) {
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9) // the rest is for what the runtime does not count, such as the program itself
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}

func newLogger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
