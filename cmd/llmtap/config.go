package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Config is the packages' configs side by side. Only this package reads flags and the environment.
type Config struct {
	DataDir    string
	Listen     string
	Roles      []string
	NATS       jetstream.Config  // URL empty: an embedded server
	NATSServer natsserver.Config // the embedded server
	ClickHouse clickhouse.Config // DSN empty: an embedded engine
	Chdb       chdb.Config       // the embedded engine
	Analyzer   analyzer.Config
	Batcher    sinks.BatcherConfig
	Alerts     alerts.Config
	Slack      slack.Config // Channel empty: alerts go to the log only
}

func defaultConfig(getenv func(string) string) Config {
	cfg := Config{
		DataDir: defaultDataDir(getenv), Listen: "127.0.0.1:8088", Roles: allRoles,
		NATS: jetstream.Default(), NATSServer: natsserver.Default(), ClickHouse: clickhouse.Default(), Chdb: chdb.Default(),
		Analyzer: analyzer.Default(), Batcher: sinks.DefaultBatcherConfig(), Alerts: alerts.Default(), Slack: slack.Default(),
	}
	cfg.NATS.URL, cfg.ClickHouse.DSN = "", ""
	return cfg
}

// defaultDataDir is where the XDG convention puts an application's data.
func defaultDataDir(getenv func(string) string) string {
	if d := getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "llmtap")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "llmtap-data"
	}
	return filepath.Join(home, ".local", "share", "llmtap")
}

// validate names every mistake at once, each with the key it stands at.
func (c *Config) validate() error {
	var errs []error
	for _, r := range c.Roles {
		if !slices.Contains(allRoles, r) {
			errs = append(errs, fmt.Errorf("roles: %q is none of %v", r, allRoles))
		}
	}
	if host, _, err := net.SplitHostPort(c.Listen); err != nil || !isLoopback(host) {
		errs = append(errs, fmt.Errorf("listen: %q is no loopback address with a port, such as 127.0.0.1:8088", c.Listen))
	}
	check := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	if c.NATS.URL != "" {
		check("nats", c.NATS.Validate())
	} else {
		c.NATSServer.Dir = filepath.Join(c.DataDir, "nats")
		check("nats_server", c.NATSServer.Validate())
	}
	if c.ClickHouse.DSN != "" {
		check("clickhouse", c.ClickHouse.Validate())
	} else {
		c.Chdb.Dir = clickhouseDir(c.DataDir)
		check("chdb", c.Chdb.Validate())
	}
	check("analyzer", c.Analyzer.Validate())
	check("batcher", c.Batcher.Validate())
	check("alerts", c.Alerts.Validate())
	if c.Slack.Channel != "" || c.Slack.Token != "" || c.Slack.TokenFile != "" {
		check("slack", c.Slack.Validate())
	}
	return errors.Join(errs...)
}

// clickhouseDir is where the embedded ClickHouse of a data directory keeps its data.
func clickhouseDir(dataDir string) string { return filepath.Join(dataDir, "clickhouse") }
