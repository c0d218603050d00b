// Package config reads the configuration of llmtap, for every command:
//
//	defaults ──< file (strict YAML) ──< LLMTAP_* ──< flags ──> Effective: the values and the origin of each
//
// A Config combines the Configs of the packages. Only this package reads the configuration file, the environment and flags.
// Each package validates its own section; this package validates the rest.
package config

import (
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/email"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/msteams"
	"github.com/llmtap/llmtap/alerts/pagerduty"
	"github.com/llmtap/llmtap/alerts/routing"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/proxy"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/spans"
)

// The roles of a process.
const (
	RoleAnalyze = "analyze"
	RoleAlert   = "alert"
	RoleProxy   = "proxy"
	RoleReceive = "receive"
	RoleUI      = "ui"
)

// roles lists all roles.
var roles = []string{RoleAnalyze, RoleAlert, RoleProxy, RoleReceive, RoleUI}

// Config is the configuration of one process. The yaml tag of a field is its key in the file and, as LLMTAP_<KEY>, its
// environment variable. The tag unit:"bytes" allows sizes such as 2GiB; secret:"all" masks the value in all output,
// secret:"url" the password in a URL.
type Config struct {
	DataDir      string              `yaml:"data_dir"`
	Roles        []string            `yaml:"roles"`
	Partitions   int                 `yaml:"partitions"` // number of partitions of the event stream, the same in all processes
	Listen       string              `yaml:"listen"`
	LogFormat    string              `yaml:"log_format"`
	Memory       Memory              `yaml:"memory"`
	Disk         Disk                `yaml:"disk"`
	TLS          certs.Server        `yaml:"tls"` // of all listeners, that of the embedded NATS too
	HTTP         HTTP                `yaml:"http"`
	NATS         jetstream.Config    `yaml:"nats"`        // if URL is empty, the embedded server is used
	NATSServer   natsserver.Config   `yaml:"nats_server"` // the embedded server
	Proxy        proxy.Config        `yaml:"proxy"`
	Receive      Receive             `yaml:"receive"`
	ClickHouse   clickhouse.Config   `yaml:"clickhouse"` // if DSN is empty, the embedded engine is used
	Chdb         chdb.Config         `yaml:"chdb"`       // the embedded engine
	Analyzer     analyzer.Config     `yaml:"analyzer"`
	Content      Content             `yaml:"content"`
	Batcher      sinks.BatcherConfig `yaml:"batcher"`
	Traces       spans.Config        `yaml:"traces"`
	UI           UI                  `yaml:"ui"`
	Teams        access.Teams        `yaml:"teams"`
	Alerts       engine.Config       `yaml:"alerts"`
	Slack        slack.Config        `yaml:"slack"`
	Alertmanager alertmanager.Config `yaml:"alertmanager"`
	Webhook      webhook.Config      `yaml:"webhook"`
	PagerDuty    pagerduty.Config    `yaml:"pagerduty"`
	MSTeams      msteams.Config      `yaml:"msteams"`
	Email        email.Config        `yaml:"email"`
	Routing      routing.Config      `yaml:"routing"`
	Prices       price.Table         `yaml:"prices"`
}

// Memory is the memory budget of the process. The embedded ClickHouse is another process, with a budget of its own
// (chdb.memory_limit). Validate derives the sizes of queues and caches that are 0 from it.
type Memory struct {
	// Limit is what the runtime keeps the memory of the process within (debug.SetMemoryLimit).
	Limit int64 `yaml:"limit" unit:"bytes"`
}

// Shares of Memory.Limit. The analyzer may use twice its share (see analyzer.Config.MaxStateBytes), and there are two
// batches. What remains is for readers, the embedded NATS, pages and garbage.
const (
	stateShare    = 8
	batchShare    = 20
	minMemory     = 256 << 20
	defaultMemory = 640 << 20
)

// Disk is the budget of the disk of the data directory, for the embedded servers.
type Disk struct {
	// Reserve is the free space below which the embedded NATS refuses new events, so that what it has can still be processed:
	// checkpoints, counts and the state of alerts are written, and ClickHouse merges. Below half of it, ClickHouse refuses rows.
	Reserve int64 `yaml:"reserve" unit:"bytes"`
}

// HTTP configures access to health, metrics and queries.
type HTTP struct {
	Token     string `yaml:"token" secret:"all"`
	TokenFile string `yaml:"token_file"`

	CAFile   string `yaml:"ca_file"` // for commands with --url, see certs.Client
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Client returns the files of commands that ask a collector over TLS.
func (h *HTTP) Client() certs.Client {
	return certs.Client{CAFile: h.CAFile, CertFile: h.CertFile, KeyFile: h.KeyFile}
}

// Receive configures the listener for events and OpenTelemetry over HTTP, and the one for OpenTelemetry over gRPC.
type Receive struct {
	Listen      string `yaml:"listen"`
	Token       string `yaml:"token" secret:"all"`
	TokenFile   string `yaml:"token_file"`
	MaxInFlight int64  `yaml:"max_in_flight" unit:"bytes"` // memory for payloads that NATS has not stored yet

	GRPCListen   string `yaml:"grpc_listen"`    // empty: no gRPC
	OTLPCapture  string `yaml:"otlp_capture"`   // see otlp.Config
	OTLPKeepUser bool   `yaml:"otlp_keep_user"` // see otlp.Config
}

// Content selects which parts of fully captured bodies are stored. Bodies captured as shapes are stored unchanged, unless
// the mode is none.
type Content struct {
	Store          string             `yaml:"store"`           // full, shape or none
	Services       map[string]string  `yaml:"services"`        // overrides Store by service
	Sampling       []content.Sampling `yaml:"sampling"`        // the first that matches a service applies
	Redact         []string           `yaml:"redact"`          // subset of redact.Kinds
	RedactPatterns []string           `yaml:"redact_patterns"` // additional regular expressions to redact
}

// UI configures the web pages.
type UI struct {
	Listen      string        `yaml:"listen"`
	Token       string        `yaml:"token" secret:"all"` // to log in; empty: http.token
	TokenFile   string        `yaml:"token_file"`
	OIDC        access.Config `yaml:"oidc"`         // to log in at a provider
	ExternalURL string        `yaml:"external_url"` // base URL of links in notifications; empty: no links
	CodeURL     string        `yaml:"code_url"`     // URL of a line of an agent's code with {version}, {file} and {line}; empty: no links
	IssueURL    string        `yaml:"issue_url"`    // template of the URL of a new issue, with {title} and {body}; empty: no link
}

// Default retentions: of messages, long enough to investigate last week's incident, and of all other rows, long enough to compare
// with last month.
const (
	messagesRetention = 14 * 24 * time.Hour
	retention         = 90 * 24 * time.Hour
)

// Default returns the defaults that are the same on every machine. They are listed in deploy/llmtap.example.yaml.
func Default() Config {
	cfg := Config{
		Roles: slices.Clone(roles), Partitions: 1, Listen: "127.0.0.1:8088", LogFormat: "text", Memory: Memory{Limit: defaultMemory},
		NATS: jetstream.Default(), NATSServer: natsserver.Default(), Proxy: proxy.Default(),
		Receive:    Receive{Listen: "127.0.0.1:4318", MaxInFlight: 96 << 20, GRPCListen: "127.0.0.1:4317", OTLPCapture: event.CaptureShape},
		ClickHouse: clickhouse.Default(), Chdb: chdb.Default(), Analyzer: analyzer.Default(),
		Content: Content{Store: event.CaptureFull, Redact: slices.Clone(redact.Kinds)},
		Batcher: sinks.DefaultBatcherConfig(), Alerts: engine.Default(),
		UI:     UI{Listen: "127.0.0.1:8090", OIDC: access.Default()},
		Slack:  slack.Default(),
		Email:  email.Default(),
		Prices: price.Default(),
	}
	cfg.NATS.URL, cfg.ClickHouse.DSN = "", ""
	cfg.Analyzer.MaxStateBytes, cfg.Batcher.MaxBytes = 0, 0 // shares of memory.limit
	// Set here and not in package clickhouse, because a command that only reads must not set a TTL.
	cfg.ClickHouse.MessagesRetention, cfg.ClickHouse.Retention = messagesRetention, retention
	return cfg
}

// defaultDataDir returns the data directory of this user, following the XDG convention.
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

// ClickHouseDir returns the directory of the embedded ClickHouse below a data directory.
func ClickHouseDir(dataDir string) string { return filepath.Join(dataDir, "clickhouse") }

// NATSDir returns the directory of the embedded NATS below a data directory.
func NATSDir(dataDir string) string { return filepath.Join(dataDir, "nats") }

// HasRole reports whether this process runs role.
func (c *Config) HasRole(role string) bool { return slices.Contains(c.Roles, role) }

// NotifiesOthers reports whether receivers besides Alertmanager are configured, which llmtap's own silences mute.
func (c *Config) NotifiesOthers() bool {
	return c.Slack.Channel != "" || c.Webhook.URL != "" || c.PagerDuty != (pagerduty.Config{}) || c.MSTeams != (msteams.Config{}) || c.Email.To != "" || len(c.Routing.Routes) > 0
}

// Notifiers returns the sections that configure notifiers, by key: all fields that implement alerts.NotifierConfig.
func (c *Config) Notifiers() iter.Seq2[string, alerts.NotifierConfig] {
	return func(yield func(string, alerts.NotifierConfig) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			if n, ok := reflect.TypeAssert[alerts.NotifierConfig](v.Field(i)); ok && !yield(yamlName(v.Type().Field(i)), n) {
				return
			}
		}
	}
}
