package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
)

// A validator collects errors. Each error begins with its key.
type validator []error

func (v *validator) fail(format string, args ...any) { *v = append(*v, fmt.Errorf(format, args...)) }

// section adds the errors of a section and prefixes their keys with the name of the section.
func (v *validator) section(name string, err error) {
	for _, err := range flatten(err) {
		v.fail("%s.%w", name, err)
	}
}

// Validate sets the values that depend on other keys and returns all errors, joined.
func (c *Config) Validate() error {
	var v validator
	c.validateProcess(&v)
	c.validateNATS(&v)
	c.validateClickHouse(&v)
	if c.HasRole(RoleProxy) {
		v.section("proxy", c.Proxy.Validate())
	}
	if c.HasRole(RoleReceive) {
		v.section("receive", c.Receive.Validate())
	}
	v.section("analyzer", c.Analyzer.Validate())
	v.section("content", c.Content.Validate())
	v.section("batcher", c.Batcher.Validate())
	v.section("traces", c.Traces.Validate())
	c.validateUI(&v)
	v.section("alerts", c.Alerts.Validate())
	for key, n := range c.Notifiers() {
		v.section(key, n.Validate())
	}
	v = append(v, flatten(c.Prices.Validate())...)
	c.Analyzer.Prices = c.Prices
	return errors.Join(v...)
}

func (c *Config) validateProcess(v *validator) {
	known := strings.Join(roles, ", ")
	if len(c.Roles) == 0 {
		v.fail("roles: is empty; set one or more of %s", known)
	}
	for _, r := range c.Roles {
		if !slices.Contains(roles, r) {
			v.fail("roles: %q is not one of %s", r, known)
		}
	}
	if c.Partitions < 1 || c.Partitions > jetstream.MaxPartitions {
		v.fail("partitions: %d is not between 1 and %d", c.Partitions, jetstream.MaxPartitions)
	}
	if c.Memory.Limit < minMemory {
		v.fail("memory.limit: %s is below %s", FormatSize(c.Memory.Limit), FormatSize(minMemory))
	}
	if c.Analyzer.MaxStateBytes == 0 {
		c.Analyzer.MaxStateBytes = max(c.Memory.Limit, minMemory) / stateShare
	}
	if c.Batcher.MaxBytes == 0 {
		c.Batcher.MaxBytes = int(max(c.Memory.Limit, minMemory) / batchShare)
	}
	if c.Disk.Reserve < 0 {
		v.fail("disk.reserve: %d is negative", c.Disk.Reserve)
	}
	if c.Disk.Reserve == 0 {
		c.Disk.Reserve = diskReserve(c.DataDir)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		v.fail("log_format: %q is not one of text, json", c.LogFormat)
	}
	v.section("tls", c.TLS.Validate())
	v.section("http", c.HTTP.Client().Validate())
	if c.HTTP.Token != "" && c.HTTP.TokenFile != "" {
		v.fail("http.token, http.token_file: both are set; keep one")
	}
	if host, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		v.fail("listen: %q is not an address with a port, such as 127.0.0.1:8088", c.Listen)
	} else if !loopback.Is(host) && c.HTTP.Token == "" && c.HTTP.TokenFile == "" {
		v.fail("listen: %s is not loopback; set http.token or http.token_file, or anyone on the network can read stored calls", c.Listen)
	}
}

// minInFlight is the minimum of receive.max_in_flight: memory for one payload of the maximum size while it grows.
const minInFlight = 3 * httpbody.MaxBytes

// Validate returns all errors, joined.
func (r *Receive) Validate() error {
	var v validator
	if host, port, err := net.SplitHostPort(r.Listen); err != nil || port == "" {
		v.fail("listen: %q is not an address with a port, such as 127.0.0.1:4318", r.Listen)
	} else if !loopback.Is(host) && r.Token+r.TokenFile == "" {
		v.fail("listen: %s is not loopback; set token or token_file, or anyone on the network can send events", r.Listen)
	}
	if r.Token != "" && r.TokenFile != "" {
		v.fail("token, token_file: both are set; keep one")
	}
	if r.GRPCListen != "" {
		if host, port, err := net.SplitHostPort(r.GRPCListen); err != nil || port == "" {
			v.fail("grpc_listen: %q is not an address with a port, such as 127.0.0.1:4317", r.GRPCListen)
		} else if !loopback.Is(host) && r.Token+r.TokenFile == "" {
			v.fail("grpc_listen: %s is not loopback; set token or token_file, or anyone on the network can send spans", r.GRPCListen)
		}
	}
	switch r.OTLPCapture {
	case event.CaptureShape, event.CaptureFull, event.CaptureNone:
	default:
		v.fail("otlp_capture: %q is not one of shape, full, none", r.OTLPCapture)
	}
	if r.MaxInFlight < minInFlight {
		v.fail("max_in_flight: %s is below %s, the memory for one payload of the maximum size", FormatSize(r.MaxInFlight), FormatSize(minInFlight))
	}
	return errors.Join(v...)
}

func (c *Config) validateUI(v *validator) {
	if u := c.UI.ExternalURL; u != "" {
		if err := endpoint.CheckURL(u); err != nil {
			v.fail("ui.external_url: %w", err)
		}
	}
	if u := c.UI.CodeURL; u != "" {
		plain := strings.NewReplacer("{version}", "1", "{file}", "a", "{line}", "1").Replace(u)
		if err := endpoint.CheckURL(plain); err != nil {
			v.fail("ui.code_url: %w", err)
		} else if !strings.Contains(u, "{file}") || strings.ContainsAny(plain, "{}") {
			v.fail("ui.code_url: %q: use {file}, {line} and {version}, such as https://github.com/acme/agent/blob/v{version}/{file}#L{line}", u)
		}
	}
	if u := c.UI.IssueURL; u != "" {
		if err := wording.CheckIssueURL(u); err != nil {
			v.fail("ui.issue_url: %w", err)
		}
	}
	if c.UI.Token != "" && c.UI.TokenFile != "" {
		v.fail("ui.token, ui.token_file: both are set; keep one")
	}
	v.section("ui.oidc", c.UI.OIDC.Validate())
	*v = append(*v, flatten(c.Teams.Validate())...)
	if !c.HasRole(RoleUI) {
		return
	}
	if host, port, err := net.SplitHostPort(c.UI.Listen); err != nil || port == "" {
		v.fail("ui.listen: %q is not an address with a port, such as 127.0.0.1:8090", c.UI.Listen)
	} else if !loopback.Is(host) && c.UI.Token+c.UI.TokenFile+c.HTTP.Token+c.HTTP.TokenFile+c.UI.OIDC.Issuer == "" {
		v.fail("ui.listen: %s is not loopback; set ui.token or ui.token_file, or anyone on the network can read stored calls", c.UI.Listen)
	} else if !loopback.Is(host) && c.UI.OIDC.Enabled() && c.UI.ExternalURL == "" {
		v.fail("ui.oidc: ui.external_url is required: the provider sends people back to it")
	}
}

func (c *Config) validateNATS(v *validator) {
	if c.NATS.URL != "" {
		v.section("nats", c.NATS.Validate())
		return
	}
	login := c.NATS
	login.MaxAge, login.MaxBytes, login.Replicas, login.KeepStored, login.Compress = 0, 0, 0, false, false
	if c.TLS.ClientCAFile != "" { // which commands on this machine need, too
		login.CertFile, login.KeyFile = "", ""
	}
	if login != (jetstream.Config{}) {
		v.fail("nats: a login or certificates are set without nats.url; nats_server.token is the token of the embedded server")
	}
	c.NATSServer.Dir, c.NATSServer.TLS = NATSDir(c.DataDir), c.TLS
	if c.NATS.MaxBytes == 0 {
		c.NATS.MaxBytes = streamBytes(c.NATSServer.Dir)
	}
	limits := c.NATS
	limits.URL = "nats://127.0.0.1"
	v.section("nats", limits.Validate())
	v.section("nats_server", c.NATSServer.Validate())
}

func (c *Config) validateClickHouse(v *validator) {
	if c.ClickHouse.DSN != "" {
		v.section("clickhouse", c.ClickHouse.Validate())
		return
	}
	if c.ClickHouse.PasswordFile != "" {
		v.fail("clickhouse.password_file: is set without clickhouse.dsn; the embedded ClickHouse generates its password")
	}
	if c.ClickHouse.Cluster != "" {
		v.fail("clickhouse.cluster: is set without clickhouse.dsn; the embedded ClickHouse is a single server")
	}
	c.Chdb.Dir, c.Chdb.MinFreeDisk = ClickHouseDir(c.DataDir), c.Disk.Reserve/2
	v.section("chdb", c.Chdb.Validate())
	embedded := c.ClickHouse
	embedded.DSN = "http://127.0.0.1"
	v.section("clickhouse", embedded.Validate())
}

// Validate returns all errors, joined.
func (c *Content) Validate() error {
	var v validator
	check := func(key, mode string) {
		switch mode {
		case event.CaptureFull, event.CaptureShape, event.CaptureNone:
		default:
			v.fail("%s: %q is not one of full, shape, none", key, mode)
		}
	}
	check("store", c.Store)
	for _, service := range slices.Sorted(maps.Keys(c.Services)) {
		check("services."+service, c.Services[service])
	}
	for i := range c.Sampling {
		v.section(fmt.Sprintf("sampling[%d]", i), c.Sampling[i].Validate())
	}
	_, err := redact.NewRedactor(redact.Config{Kinds: c.Redact, Patterns: c.RedactPatterns})
	return errors.Join(errors.Join(v...), err)
}

// flatten returns the errors that errors.Join joined in err.
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

// maxStreamBytes is the default limit of the embedded server's event stream on a large disk.
const maxStreamBytes = 10 << 30

// streamBytes returns the default size of the event stream: at most a fifth of the disk of dir, or 0 (no limit) if the size
// of the disk is unknown.
func streamBytes(dir string) int64 {
	_, total, err := DiskSpace(dir)
	if err != nil {
		return 0
	}
	return min(maxStreamBytes, int64(total/5))
}

// maxDiskReserve is the default of disk.reserve on a large disk.
const maxDiskReserve = 1 << 30

// diskReserve returns the default of disk.reserve: at most a tenth of the disk of dir, or 0 (none) if its size is unknown.
func diskReserve(dir string) int64 {
	_, total, err := DiskSpace(dir)
	if err != nil {
		return 0
	}
	return min(maxDiskReserve, int64(total/10))
}

// DiskSpace returns the bytes available to this user and the total bytes of the file system of dir. dir need not exist yet.
func DiskSpace(dir string) (free, total uint64, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("find %s: %w", dir, err)
	}
	var st syscall.Statfs_t
	for {
		err = syscall.Statfs(dir, &st)
		if !errors.Is(err, syscall.ENOENT) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("get the size of the disk of %s: %w", dir, err)
	}
	block := uint64(st.Bsize) //nolint:unconvert // the type of Bsize differs between systems
	return st.Bavail * block, st.Blocks * block, nil
}
