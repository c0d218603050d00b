package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/proxy"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Config is the packages' configs side by side. Only this package reads files, the environment and flags. A field is a
// key of the configuration file under its yaml tag, and LLMTAP_<KEY> in the environment. The tag unit:"bytes" takes
// sizes such as 2GiB; secret:"all" hides a value from every output, secret:"url" the password in it.
type Config struct {
	DataDir      string              `yaml:"data_dir"`
	Roles        []string            `yaml:"roles"`
	Partitions   int                 `yaml:"partitions"` // of the stream of events, the same for all processes
	Listen       string              `yaml:"listen"`
	LogFormat    string              `yaml:"log_format"`
	HTTP         HTTPConfig          `yaml:"http"`
	NATS         jetstream.Config    `yaml:"nats"`        // URL empty: an embedded server
	NATSServer   natsserver.Config   `yaml:"nats_server"` // the embedded server
	Proxy        proxy.Config        `yaml:"proxy"`       // of the role gateway
	ClickHouse   clickhouse.Config   `yaml:"clickhouse"`  // DSN empty: an embedded engine
	Chdb         chdb.Config         `yaml:"chdb"`        // the embedded engine
	Analyzer     analyzer.Config     `yaml:"analyzer"`
	Content      ContentConfig       `yaml:"content"` // what is stored of bodies
	Batcher      sinks.BatcherConfig `yaml:"batcher"`
	UI           UIConfig            `yaml:"ui"`
	Alerts       alerts.Config       `yaml:"alerts"`
	Slack        slack.Config        `yaml:"slack"`        // Channel empty: alerts go to the log only
	Alertmanager alertmanager.Config `yaml:"alertmanager"` // URLs empty: none
	Webhook      webhook.Config      `yaml:"webhook"`      // URL empty: none
	Prices       queries.Prices      `yaml:"prices"`
}

// HTTPConfig guards the listener of health and metrics.
type HTTPConfig struct {
	Token     string `yaml:"token" secret:"all"`
	TokenFile string `yaml:"token_file"` // replaces Token
}

// UIConfig describes the web pages.
type UIConfig struct {
	ExternalURL string `yaml:"external_url"` // for links in notifications; empty: no links
}

// defaultConfig returns the defaults, with the directory of this user.
func defaultConfig(getenv func(string) string) Config {
	cfg := defaults()
	cfg.DataDir = defaultDataDir(getenv)
	return cfg
}

// defaults returns the same configuration on every machine: what deploy/llmtap.example.yaml says.
func defaults() Config {
	cfg := Config{
		Roles: allRoles, Partitions: 1, Listen: "127.0.0.1:8088", LogFormat: "text",
		NATS: jetstream.Default(), NATSServer: natsserver.Default(), Proxy: proxy.Default(), ClickHouse: clickhouse.Default(), Chdb: chdb.Default(),
		Analyzer: analyzer.Default(), Content: defaultContent(), Batcher: sinks.DefaultBatcherConfig(), Alerts: alerts.Default(), Slack: slack.Default(),
		Alertmanager: alertmanager.Default(), Webhook: webhook.Default(),
		Prices: queries.DefaultPrices(),
	}
	cfg.NATS.URL, cfg.ClickHouse.DSN = "", ""
	// Not a default of the package: a command that only reads must not set a TTL.
	cfg.ClickHouse.MessagesRetention = messageRetention
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

// validate fills in what follows from other keys and names every mistake at once, each with the key it stands at.
func (c *Config) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	check := func(section string, err error) {
		for _, err := range flatten(err) {
			fail("%s.%w", section, err)
		}
	}
	if len(c.Roles) == 0 {
		fail("roles: is empty; name some of %s", strings.Join(allRoles, ", "))
	}
	if c.Partitions < 1 || c.Partitions > jetstream.MaxPartitions {
		fail("partitions: %d is not between 1 and %d", c.Partitions, jetstream.MaxPartitions)
	}
	for _, r := range c.Roles {
		if !slices.Contains(allRoles, r) {
			fail("roles: %q is none of %s", r, strings.Join(allRoles, ", "))
		}
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		fail("log_format: %q is none of text, json", c.LogFormat)
	}
	if c.HTTP.Token != "" && c.HTTP.TokenFile != "" {
		fail("http.token, http.token_file: both are set; keep one")
	}
	if host, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		fail("listen: %q is no address with a port, such as 127.0.0.1:8088", c.Listen)
	} else if !isLoopback(host) && c.HTTP.Token == "" && c.HTTP.TokenFile == "" {
		fail("listen: %s is not loopback; set http.token or http.token_file, or everyone who reaches it can read metrics", c.Listen)
	}
	if c.NATS.URL != "" {
		check("nats", c.NATS.Validate())
	} else {
		if n := c.NATS; n.User != "" || n.Password != "" || n.PasswordFile != "" || n.Token != "" || n.TokenFile != "" || n.CredsFile != "" || n.NKeyFile != "" ||
			n.CAFile != "" || n.CertFile != "" || n.KeyFile != "" {
			fail("nats: has a login or certificates but no nats.url; what clients of the embedded server must present is nats_server.token")
		}
		c.NATSServer.Dir = filepath.Join(c.DataDir, "nats")
		if c.NATS.MaxBytes == 0 {
			c.NATS.MaxBytes = streamBytes(c.NATSServer.Dir)
		}
		limits := c.NATS
		limits.URL = "nats://127.0.0.1"
		check("nats", limits.Validate())
		check("nats_server", c.NATSServer.Validate())
	}
	if slices.Contains(c.Roles, roleGateway) {
		check("proxy", c.Proxy.Validate())
	}
	if c.ClickHouse.DSN != "" {
		check("clickhouse", c.ClickHouse.Validate())
	} else {
		if c.ClickHouse.PasswordFile != "" {
			fail("clickhouse.password_file: is set without clickhouse.dsn; the embedded ClickHouse makes its own password")
		}
		if c.ClickHouse.Cluster != "" {
			fail("clickhouse.cluster: is set without clickhouse.dsn; the embedded ClickHouse is one server")
		}
		c.Chdb.Dir = clickhouseDir(c.DataDir)
		check("chdb", c.Chdb.Validate())
		embedded := c.ClickHouse
		embedded.DSN = "http://127.0.0.1"
		check("clickhouse", embedded.Validate())
	}
	check("analyzer", c.Analyzer.Validate())
	check("content", c.Content.Validate())
	check("batcher", c.Batcher.Validate())
	if u := c.UI.ExternalURL; u != "" {
		if err := alerts.CheckURL(u); err != nil {
			fail("ui.external_url: %w", err)
		}
	}
	check("alerts", c.Alerts.Validate())
	if c.Slack.Channel != "" || c.Slack.Token != "" || c.Slack.TokenFile != "" {
		check("slack", c.Slack.Validate())
	}
	if a := c.Alertmanager; len(a.URLs) > 0 || a.Token != "" || a.TokenFile != "" {
		check("alertmanager", a.Validate())
	}
	if w := c.Webhook; w.URL != "" || w.Secret != "" || w.SecretFile != "" {
		check("webhook", w.Validate())
	}
	errs = append(errs, flatten(c.Prices.Validate())...)
	return errors.Join(errs...)
}

// flatten returns the errors that errors.Join made one of.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Count(err.Error(), "\n") < len(joined.Unwrap())-1 {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// clickhouseDir is where the embedded ClickHouse of a data directory keeps its data.
func clickhouseDir(dataDir string) string { return filepath.Join(dataDir, "clickhouse") }

// maxStreamBytes is the most that the embedded server's stream of events takes unless it is told otherwise.
const maxStreamBytes = 10 << 30

// streamBytes is how much of the disk below dir the stream may take: a fifth of it. It is 0, no limit, when the size of
// the disk cannot be told.
func streamBytes(dir string) int64 {
	_, total, err := diskSpace(dir)
	if err != nil {
		return 0
	}
	return min(maxStreamBytes, int64(total/5))
}

// diskSpace returns the bytes that are free for this user, and all bytes, of the file system that dir is or would be on.
func diskSpace(dir string) (free, total uint64, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("find %s: %w", dir, err)
	}
	var st syscall.Statfs_t
	for {
		err = syscall.Statfs(dir, &st)
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the disk of %s: %w", dir, err)
	}
	block := uint64(st.Bsize) //nolint:unconvert // its type differs between systems
	return st.Bavail * block, st.Blocks * block, nil
}
