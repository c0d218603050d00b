package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

var upCommand = &command.Command{Name: "up", Short: "Run the collector: all of it on one machine, or some roles of a cluster", Long: upHelp, Run: runUp}

const upHelp = `Run the collector. Without flags everything runs in this process: an embedded NATS server that hooks publish to, the
analyzer, an embedded ClickHouse, the alert rules, and a proxy for agents that can only change their base URL. With
--nats-url and --clickhouse-dsn the same binary runs on servers that you have. Every setting can stand in a file:
deploy/llmtap.example.yaml.

  llmtap up
  llmtap up --config llmtap.yaml
  llmtap up --slack-token-file /etc/llmtap/slack-token --slack-channel '#oncall'
  llmtap up --nats-url nats://nats.internal:4222 --clickhouse-dsn clickhouse://llmtap@ch.internal:9000/llmtap
  llmtap up --roles analyze --nats-url nats://nats.internal:4222 --clickhouse-dsn …
  llmtap up --proxy-capture full --proxy-upstream ollama=http://127.0.0.1:11434
  llmtap up --roles proxy --nats-url nats://nats.internal:4222

The proxy listens on --proxy-listen. An agent replaces scheme and host of its provider's base URL, so that
https://api.openai.com/v1 becomes http://127.0.0.1:8089/openai/v1, and may send labels: X-Llmtap-Service, -Agent, -Stage,
-Conversation and so on. Bodies hold what users wrote, so the proxy records their shape: roles, ids, function names and
parameters stay, each text becomes its length and a hash (keyed with LLMTAP_SHAPE_KEY). With --proxy-capture full it
records them whole. The role proxy runs by itself, too: agents then do not depend on the other roles.

Rule files (alerts.rule_files) are read again some seconds after one of them changed, and at once on SIGHUP; alerts of rules
that stayed the same go on, and a file with mistakes changes nothing. All else is read at the start.`

func runUp(ctx context.Context, c *command.Call) error {
	args := config.AddFlags(c.Flags, c.Getenv)
	if err := c.Parse(); err != nil {
		return err
	}
	s, err := args.Load()
	if err != nil {
		return err
	}
	cfg := s.Config
	logger := newLogger(c.Stderr, cfg.LogFormat)
	col, err := openCollector(ctx, cfg, logger, func(s string) { fmt.Fprintln(c.Stderr, s) })
	if err != nil {
		return err
	}
	defer col.close()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	col.hangups = hangups
	col.describe(c.Stdout, s.Source())
	return col.run(ctx)
}

func newLogger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// describe prints where everything is: the first thing a new user looks for.
func (c *collector) describe(w io.Writer, source string) {
	base := "not run by this process"
	if c.gateway != nil {
		base = c.gateway.describe()
	}
	if !c.stores() {
		fmt.Fprintf(w, `llmtap is up (%s)
  publishes to      %s
  proxy             %s
  health, metrics   http://%s/readyz  http://%s/metrics
`, strings.Join(c.cfg.Roles, ", "), config.MaskURL(c.natsURL), base, c.httpAddr, c.httpAddr)
		return
	}
	clickhouse := "embedded, in " + config.ClickHouseDir(c.cfg.DataDir)
	if c.cfg.ClickHouse.DSN != "" {
		clickhouse = "your server"
	}
	slack := c.cfg.Slack.Channel
	switch {
	case slack != "":
	case len(c.cfg.Alertmanager.URLs) > 0 && c.cfg.Webhook.URL != "":
		slack = "not configured; alerts go to Alertmanager and the webhook"
	case len(c.cfg.Alertmanager.URLs) > 0:
		slack = "not configured; alerts go to Alertmanager"
	case c.cfg.Webhook.URL != "":
		slack = "not configured; alerts go to the webhook"
	default:
		slack = "not configured: --slack-token-file, --slack-channel; alerts go to the log"
	}
	fmt.Fprintf(w, `llmtap is up (%s)
  hooks publish to  LLMTAP_NATS_URL=%s
  proxy             %s
  ClickHouse        %s; ask it: llmtap query causes --data-dir %s
  Slack             %s
  health, metrics   http://%s/readyz  http://%s/metrics
  configuration     %s; see it: llmtap config; check everything: llmtap doctor
`, strings.Join(c.cfg.Roles, ", "), config.MaskURL(c.natsURL), base, clickhouse, c.cfg.DataDir, slack, c.httpAddr, c.httpAddr, source)
}

// readiness answers /readyz: every part that has to work for events to become rows and alerts.
func (c *collector) readiness(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var errs []error
	if !c.stores() {
		return nil // the gateway answers whatever state NATS is in
	}
	if err := c.conn.Healthy(); err != nil {
		errs = append(errs, fmt.Errorf("reach NATS: %w", err))
	}
	if err := c.sink.Ping(ctx); err != nil {
		errs = append(errs, fmt.Errorf("reach ClickHouse: %w", err))
	}
	if c.has(config.RoleAnalyze) {
		if _, err := c.analyzer.status(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
