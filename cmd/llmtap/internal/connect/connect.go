/*
Package connect finds the servers of a command: ClickHouse, directly or through the query API of a collector, and NATS.

	flags:         --url, else --clickhouse-dsn, --nats-url, --data-dir
	environment:   LLMTAP_URL, else LLMTAP_CLICKHOUSE_DSN, LLMTAP_COLLECTOR_NATS_URL
	configuration: clickhouse.dsn, nats.url
	this machine:  the llmtap that runs on the data directory
	configuration: ui.external_url
	this machine:  the collector at the address listen

The first that is set or found is used. Every command that reads stored data finds it in this way.
*/
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

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
		r, _ := collector.FindRunning(e.DataDir) // without an error the URL may also be empty
		cfg.URL, cfg.TokenFile, cfg.Pinned = r.NATSURL, natsserver.TokenFile(config.NATSDir(e.DataDir)), r.CertFile
	}
	return cfg, cfg.URL != ""
}

// Answers reports whether a collector answers at url, of this machine.
func Answers(ctx context.Context, e *config.Effective, url string) bool {
	client, err := remote.NewClient(url, "", e.HTTP.Client(), e.TLS.CertFile)
	return err == nil && client.Probe(ctx)
}

// Servers provides the ClickHouse and NATS servers of a command.
type Servers struct {
	flags  *config.Flags
	url    *string // --url or LLMTAP_URL
	getenv func(string) string
	stderr io.Writer
	config *config.Effective
	denied error // the reason for working without the system's configuration file
}

const urlUsage = "`url`: URL of a collector, such as http://collector:8088; its token is LLMTAP_HTTP_TOKEN"

// Flags adds --url, --config, --data-dir and --clickhouse-dsn to c.
func Flags(c *command.Call) *Servers {
	return newServers(c, urlUsage)
}

// DirectFlags is Flags for a command that requires a direct connection to ClickHouse or NATS. It adds the flags of keys
// instead of --url, which is then an error.
func DirectFlags(c *command.Call, keys ...string) *Servers {
	return newServers(c, "", keys...)
}

// CollectorFlags is Flags for a command that requires a collector.
func CollectorFlags(c *command.Call, keys ...string) *Servers {
	s := &Servers{url: c.Flags.String("url", "", urlUsage), getenv: c.Getenv, stderr: c.Stderr}
	s.flags = config.AddFlags(c.Flags, c.Getenv, append(keys, "data_dir")...)
	return s
}

// HookFlags adds the flags for HookURL.
func HookFlags(c *command.Call) *Servers {
	return &Servers{url: new(string), getenv: c.Getenv, stderr: c.Stderr, flags: config.AddFlags(c.Flags, c.Getenv, "data_dir")}
}

// HookURL returns the URL of NATS for hooks on this machine, with their token: that of the llmtap on the data directory, "" if none
// runs there or its NATS is external.
func (s *Servers) HookURL() (string, error) {
	e, err := s.Config()
	if err != nil {
		return "", err
	}
	r, err := collector.FindRunning(e.DataDir)
	if err != nil || r.NATSURL == "" {
		return "", nil
	}
	tokens, _ := secret.ReadTokens(e.NATSServer.Token, "nats_server.token_file", e.NATSServer.TokenFile) // the hook says that it is refused
	if token := tokens.Plain(); token != "" {
		scheme, host, _ := strings.Cut(r.NATSURL, "://")
		return scheme + "://" + url.User(token).String() + "@" + host, nil
	}
	return r.NATSURL, nil
}

// newServers adds the flags. A flag without usage is not listed in the help.
func newServers(c *command.Call, urlUsage string, keys ...string) *Servers {
	return &Servers{
		url: c.Flags.String("url", "", urlUsage), getenv: c.Getenv, stderr: c.Stderr,
		flags: config.AddFlags(c.Flags, c.Getenv, append(keys, "data_dir", "clickhouse.dsn")...),
	}
}

// Config returns the configuration, loading it on the first call. If this user may not read config.SystemFile, it warns and
// returns the configuration without the file.
func (s *Servers) Config() (*config.Effective, error) {
	if s.config != nil {
		return s.config, nil
	}
	e, err := s.flags.Load()
	if denied, ok := errors.AsType[*config.PermissionError](err); ok && s.flags.Implicit() {
		s.denied, err = denied, nil
		if *s.url == "" {
			fmt.Fprintf(s.stderr, "llmtap: cannot read %s, which belongs to %s; using defaults\n", denied.Path, denied.Owner)
		}
	}
	if err != nil {
		return nil, err
	}
	s.config = e
	return e, nil
}

// ShapeKey returns the key of the hashes of users: that of the environment, or else, unless the stored data is that of the collector at
// --url, that of the data directory or of the external NATS. It is "" if there is none.
func (s *Servers) ShapeKey(ctx context.Context) (string, error) {
	if key := s.getenv(event.EnvShapeKey); key != "" || *s.url != "" {
		return key, nil
	}
	e, err := s.Config()
	if err != nil {
		return "", err
	}
	key, err := collector.ShapeKey(e.DataDir)
	if err != nil || key != "" || e.NATS.URL == "" {
		return key, err
	}
	conn, err := s.ConnectNATS(ctx)
	if err == nil {
		defer conn.Close()
		key, err = collector.SharedShapeKey(ctx, conn)
	}
	if err != nil {
		return "", fmt.Errorf("read the key of users: %w; or set %s", err, event.EnvShapeKey)
	}
	return key, nil
}

// collectorAt returns a client for the collector at url. pinned is the file of its certificate if it runs on this machine.
func (s *Servers) collectorAt(e *config.Effective, url, pinned string) (*remote.Client, error) {
	// If this user cannot read the token file, the collector's answer says what to do.
	tokens, _ := secret.ReadTokens(e.HTTP.Token, "http.token_file", e.HTTP.TokenFile)
	return remote.NewClient(url, tokens.Plain(), e.HTTP.Client(), pinned)
}

// urlFlag returns the value of --url, or "" if it comes from the environment.
func (s *Servers) urlFlag() string {
	if *s.url == s.getenv(config.FlagEnv("url")) {
		return ""
	}
	return *s.url
}

// Collector returns a client of the collector.
func (s *Servers) Collector(ctx context.Context) (*remote.Client, error) {
	e, err := s.Config()
	if err != nil {
		return nil, err
	}
	client, err := s.atURL(e, e.Origin("data_dir") == "--data-dir", "--data-dir")
	if client != nil || err != nil {
		return client, err
	}
	return s.search(ctx, e)
}

// find returns ClickHouse, or a client of a collector if client is not nil.
func (s *Servers) find(ctx context.Context) (cfg clickhouse.Config, client *remote.Client, err error) {
	e, err := s.Config()
	if err != nil {
		return cfg, nil, err
	}
	named := e.Origin("clickhouse.dsn") == "--clickhouse-dsn" || e.Origin("data_dir") == "--data-dir"
	if client, err = s.atURL(e, named, "--clickhouse-dsn or --data-dir"); client != nil || err != nil {
		return cfg, client, err
	}
	cfg, ok := ClickHouse(e)
	if ok {
		return cfg, nil, nil
	}
	client, err = s.search(ctx, e) // of one whose ClickHouse is external, if it runs here
	return cfg, client, err
}

// atURL returns a client of the collector at --url or LLMTAP_URL, nil if there is none. others are flags that name other servers,
// and named reports whether one of them is set.
func (s *Servers) atURL(e *config.Effective, named bool, others string) (*remote.Client, error) {
	switch {
	case s.urlFlag() != "" && named:
		return nil, command.BadInputf("--url cannot be combined with %s", others)
	case *s.url == "" || named:
		return nil, nil
	}
	client, err := s.collectorAt(e, *s.url, "")
	if err != nil {
		err = command.BadInputf("--url (LLMTAP_URL): %w", err)
	}
	return client, err
}

// search returns a client of the collector on the data directory, else at the URLs in the configuration.
func (s *Servers) search(ctx context.Context, e *config.Effective) (*remote.Client, error) {
	running, err := collector.FindRunning(e.DataDir)
	if err == nil {
		return s.collectorAt(e, running.URL(), running.CertFile)
	}
	local, dirFlag := config.LocalURL(e.Listen, e.TLS.Enabled()), e.Origin("data_dir") == "--data-dir"
	switch {
	case !dirFlag && e.UI.ExternalURL != "":
		return s.collectorAt(e, e.UI.ExternalURL, "")
	case !dirFlag && Answers(ctx, e, local):
		return s.collectorAt(e, local, e.TLS.CertFile)
	}
	return nil, s.notFound(e, err, local)
}

// notFound returns the error for a collector that is not found. err is the error of collector.FindRunning.
func (s *Servers) notFound(e *config.Effective, err error, local string) error {
	err = s.notRunning(e, err, "--url, --data-dir or --clickhouse-dsn")
	if _, denied := errors.AsType[*config.PermissionError](err); denied {
		return fmt.Errorf("%w, or use --url %s", err, cmp.Or(local, "URL"))
	}
	if local != "" && e.Origin("data_dir") != "--data-dir" {
		return fmt.Errorf("no collector answers at %s, and %w", local, err)
	}
	return err
}

// Open connects to the stored data. The caller must call closeStore.
func (s *Servers) Open(ctx context.Context) (q rows.Querier, closeStore func(), err error) {
	cfg, client, err := s.find(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case client != nil:
		_, err := client.Query(ctx, remote.Probe, nil) // such as a missing token
		return client, func() {}, err
	}
	sink, err := open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return sink, func() { _ = sink.Close() }, nil // used for reading only
}

// WithStore calls f with a connection to the stored data.
func (s *Servers) WithStore(ctx context.Context, f func(rows.Querier) error) error {
	q, closeStore, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	return f(q)
}

// PagesURL returns the base URL of the web pages of the collector whose rows q has, or "" if it is not known. It must be called
// after a query of q.
func (s *Servers) PagesURL(q rows.Querier) string {
	e, err := s.Config()
	if err != nil {
		return ""
	}
	if e.UI.ExternalURL != "" {
		return strings.TrimRight(e.UI.ExternalURL, "/")
	}
	if client, ok := q.(*remote.Client); ok {
		return client.Pages()
	}
	if running, err := collector.FindRunning(e.DataDir); err == nil {
		return running.PagesURL
	}
	return ""
}

// ClickHouse returns the direct connection to ClickHouse.
func (s *Servers) ClickHouse() (cfg clickhouse.Config, err error) {
	if err := s.direct("ClickHouse", "--clickhouse-dsn"); err != nil {
		return cfg, err
	}
	e, err := s.Config()
	if err != nil {
		return cfg, err
	}
	cfg, ok := ClickHouse(e)
	if ok {
		return cfg, nil
	}
	r, err := collector.FindRunning(e.DataDir)
	if err == nil {
		return cfg, fmt.Errorf("the llmtap on %s (process %d) uses an external ClickHouse: set --clickhouse-dsn or --config as for llmtap up", e.DataDir, r.PID)
	}
	return cfg, s.notRunning(e, err, "--data-dir or --clickhouse-dsn")
}

// notRunning adds what to do to err, an error of collector.FindRunning. flags select the servers.
func (s *Servers) notRunning(e *config.Effective, err error, flags string) error {
	switch {
	case !errors.Is(err, collector.ErrNotRunning):
		return err
	case s.denied != nil:
		return s.denied
	}
	return fmt.Errorf("%w on %s; start it with llmtap up, or set %s", err, e.DataDir, flags)
}

// direct returns an error if --url is set, which does not reach server.
func (s *Servers) direct(server, flag string) error {
	if s.urlFlag() == "" {
		return nil
	}
	return command.BadInputf("this command requires %s itself, which --url does not reach: set %s, or run it on the machine of the collector", server, flag)
}

// WithClickHouse calls f with a direct connection to ClickHouse.
func (s *Servers) WithClickHouse(ctx context.Context, f func(*clickhouse.Sink) error) error {
	cfg, err := s.ClickHouse()
	if err != nil {
		return err
	}
	sink, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // f has already reported write errors
	return f(sink)
}

func open(ctx context.Context, cfg clickhouse.Config) (*clickhouse.Sink, error) {
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

// ConnectNATS connects to NATS and checks that it has the streams of llmtap, because a publisher would retry forever
// without them.
func (s *Servers) ConnectNATS(ctx context.Context) (*jetstream.Conn, error) {
	if err := s.direct("NATS", "--nats-url"); err != nil {
		return nil, err
	}
	e, err := s.Config()
	if err != nil {
		return nil, err
	}
	cfg, ok := NATS(e)
	var missing error
	if !ok {
		r, err := collector.FindRunning(e.DataDir)
		if err == nil {
			return nil, fmt.Errorf("the llmtap on %s (process %d) uses an external NATS: set --nats-url (LLMTAP_COLLECTOR_NATS_URL) or --config as for llmtap up", e.DataDir, r.PID)
		}
		missing = s.notRunning(e, err, "--data-dir or --nats-url")
		if e.Origin("data_dir") == "--data-dir" || e.NATSServer.Port < 0 {
			return nil, missing
		}
		// As in NATS; the user of the other llmtap may share its token.
		cfg.URL = "nats://" + net.JoinHostPort(config.LocalHost(e.NATSServer.Host), strconv.Itoa(e.NATSServer.Port))
		tokens, _ := secret.ReadTokens(e.NATSServer.CollectorToken, "nats_server.collector_token_file", e.NATSServer.CollectorTokenFile)
		cfg.Pinned, cfg.Token, cfg.TokenFile = e.TLS.CertFile, tokens.Plain(), ""
	}
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	conn, err := jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	switch {
	case err != nil && missing != nil:
		return nil, fmt.Errorf("%w; %w", err, missing)
	case err != nil:
		return nil, fmt.Errorf("%w; run llmtap up, or set --nats-url", err)
	}
	if _, err := conn.KV(ctx, event.BucketCheckpoint); err != nil {
		conn.Close()
		return nil, fmt.Errorf("find the streams of llmtap: %w; first run llmtap up with this NATS server", err)
	}
	return conn, nil
}
