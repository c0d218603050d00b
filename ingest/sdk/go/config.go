package llmtap

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Version of the hook, sent in every message.
const Version = "0.1.0"

// Defaults of Config.
const (
	DefaultURL          = "nats://127.0.0.1:4222"
	DefaultMemoryLimit  = 64 << 20
	DefaultFlushTimeout = 2 * time.Second
)

// minMemoryLimit is the minimum of Config.MemoryLimit: enough memory for one stubbed body and a few messages.
const minMemoryLimit = 1 << 20

// Config configures a Hook. The zero value is valid.
type Config struct {
	// URL is the NATS server, or several separated by commas. Default: $LLMTAP_NATS_URL, or DefaultURL if it is
	// unset.
	URL string

	// Endpoint is the URL of an llmtap with the role receive, such as https://llmtap.example.com, to which events are sent
	// instead of NATS. Default: $LLMTAP_ENDPOINT unless URL is set; it takes precedence over $LLMTAP_NATS_URL.
	Endpoint string

	// Token is the token of the endpoint. Default: $LLMTAP_TOKEN.
	Token string

	// CAFile names the CAs of NATS and of the endpoint, CertFile and KeyFile the certificate of this client, in PEM format. They
	// are read for each connection, so that they can be renewed. With one of them, connections to NATS use TLS. Defaults:
	// $LLMTAP_CA_FILE, $LLMTAP_CERT_FILE and $LLMTAP_KEY_FILE; without a CAFile, the CAs of the system.
	CAFile, CertFile, KeyFile string

	// Service, ServiceVersion, Environment and Agent label every message. Defaults: $LLMTAP_SERVICE and $LLMTAP_SERVICE_VERSION,
	// then $OTEL_SERVICE_NAME, then service.name, service.version, deployment.environment.name and gen_ai.agent.name of
	// $OTEL_RESOURCE_ATTRIBUTES, then the build information of the binary.
	Service, ServiceVersion, Environment, Agent string

	// Attrs are attributes of every message, such as "tenant"; those of WithAttr override them. At most 32; keys match
	// [a-z0-9._-]{1,64}, values are truncated at 512 bytes.
	Attrs map[string]string

	// Capture selects how bodies are published: "shape", the default, retains the structure and the protocol's own
	// values (roles, ids, function names, parameters, usage), and replaces each text with its length and keyed hash;
	// "full" publishes bodies byte for byte; "none" publishes no bodies. In the modes shape and none, the first 4 KiB
	// of error responses are published.
	//
	// The key of the hashes is $LLMTAP_SHAPE_KEY. If it is unset, each process generates a key, and texts of
	// different processes cannot be compared. Processes that share conversations must have the same key.
	Capture string

	// Hosts are recorded in addition to the known providers and to the hosts in $LLMTAP_HOSTS, which are separated by
	// commas: "llm.example.com" (any port), "10.0.0.7:8000", "*.example.com" (all subdomains).
	Hosts []string

	// Redact, if set, returns the body to publish instead of body. It must not modify body. It runs in the
	// background, after the call and before the body is shaped. If it panics, the body is withheld.
	Redact func(body []byte) []byte

	// OnPublished, if set, is called with the id of each exchange whose request and response NATS has stored. It runs
	// in the background, one call at a time, before Close returns. Publishing waits for it, so it must return
	// quickly.
	OnPublished func(exchange string)

	// Origin is event.OriginHook, the default, for the calls of this process, or event.OriginProxy for forwarded calls; see
	// WithCaller.
	Origin string

	// Traceparent, if set, returns the W3C trace context of a request without a Traceparent header, for example from a span
	// in the context. It runs on the caller's goroutine.
	Traceparent func(context.Context) string

	// NoCode omits the place in the agent's code that makes a call: file, line and function. Default: whether $LLMTAP_CODE is "off".
	NoCode bool

	// KeepUser publishes the id passed to WithUser without hashing it.
	KeepUser bool

	// MemoryLimit is the maximum memory of the queue, in bytes. If it is exceeded, the oldest exchanges are dropped
	// and counted. Default 64 MiB, at least 1 MiB.
	MemoryLimit int64

	// FlushTimeout is the maximum time that Close waits for pending events. Default 2 s.
	FlushTimeout time.Duration

	// Logger receives operational messages (NATS unreachable, exchanges dropped), never message content. Default:
	// slog.Default().
	Logger *slog.Logger

	// NATSOptions are additional options, such as credentials and TLS settings. They override the hook's own options.
	NATSOptions []nats.Option

	hosts    *hostSet // Hosts and LLMTAP_HOSTS
	userKey  []byte   // LLMTAP_SHAPE_KEY
	shapeKey []byte   // userKey if set, otherwise the generated key of the process
}

// validate sets the defaults and returns the first error.
func (c *Config) validate(getenv func(string) string) error {
	switch c.Capture {
	case event.CaptureShape, event.CaptureFull, event.CaptureNone:
	case "":
		c.Capture = event.CaptureShape
	default:
		return fmt.Errorf(`config Capture %q: use "shape", "full" or "none"`, c.Capture)
	}
	switch c.Origin {
	case "":
		c.Origin = event.OriginHook
	case event.OriginHook, event.OriginProxy:
	default:
		return fmt.Errorf("config Origin %q: use %q or %q", c.Origin, event.OriginHook, event.OriginProxy)
	}
	c.NoCode = c.NoCode || getenv(event.EnvCode) == "off" || c.Origin == event.OriginProxy // the code of a proxy makes no calls of its own
	if c.URL != "" && c.Endpoint != "" {
		return errors.New("config URL, Endpoint: both are set; keep one")
	}
	if c.URL == "" {
		c.Endpoint = first(c.Endpoint, getenv(event.EnvEndpoint))
	}
	if c.Endpoint != "" {
		if err := checkEndpoint(c.Endpoint); err != nil {
			return fmt.Errorf("config Endpoint: %w", err)
		}
		c.Token = first(c.Token, getenv(event.EnvToken))
	}
	if c.URL == "" {
		c.URL = getenv(event.EnvNATSURL)
	}
	if c.URL == "" {
		c.URL = DefaultURL
	}
	for u := range strings.SplitSeq(c.URL, ",") {
		if err := checkURL(strings.TrimSpace(u)); err != nil {
			return fmt.Errorf("config URL: %w", err)
		}
	}
	if c.Origin != event.OriginProxy { // it connects as the process that it is part of
		c.CAFile = first(c.CAFile, getenv(event.EnvCAFile))
		c.CertFile, c.KeyFile = first(c.CertFile, getenv(event.EnvCertFile)), first(c.KeyFile, getenv(event.EnvKeyFile))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("config CertFile, KeyFile (%s, %s): one is set without the other", event.EnvCertFile, event.EnvKeyFile)
	}
	if err := c.parseHosts(getenv(event.EnvHosts)); err != nil {
		return err
	}
	if err := c.checkAttrs(); err != nil {
		return err
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = DefaultMemoryLimit
	}
	if c.MemoryLimit < minMemoryLimit {
		return fmt.Errorf("config MemoryLimit: %d bytes is below %d", c.MemoryLimit, minMemoryLimit)
	}
	if c.FlushTimeout == 0 {
		c.FlushTimeout = DefaultFlushTimeout
	}
	if c.FlushTimeout < 0 {
		return fmt.Errorf("config FlushTimeout: %v is negative", c.FlushTimeout)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.userKey = []byte(getenv(event.EnvShapeKey))
	if c.shapeKey = c.userKey; len(c.shapeKey) == 0 {
		c.shapeKey = processKey()
	}
	c.labelDefaults(getenv)
	return nil
}

// parseHosts sets hosts to Hosts and the hosts of env, which are separated by commas.
func (c *Config) parseHosts(env string) (err error) {
	if c.hosts, err = newHostSet(c.Hosts); err != nil {
		return fmt.Errorf("config Hosts: %w", err)
	}
	if c.Origin == event.OriginProxy {
		return nil // its hosts are the upstreams
	}
	if c.hosts, err = newHostSet(slices.Concat(c.Hosts, strings.Split(env, ","))); err != nil {
		return fmt.Errorf("%s: %w", event.EnvHosts, err)
	}
	return nil
}

// checkAttrs replaces Attrs with a copy.
func (c *Config) checkAttrs() error {
	if len(c.Attrs) > event.MaxAttrs {
		return fmt.Errorf("config Attrs: %d attributes are more than %d", len(c.Attrs), event.MaxAttrs)
	}
	attrs := make(map[string]string, len(c.Attrs))
	for k, v := range c.Attrs {
		if !event.ValidAttrKey(k) {
			return fmt.Errorf("config Attrs: key %q does not match [a-z0-9._-]{1,64}", k)
		}
		attrs[k] = clipAttr(v)
	}
	c.Attrs = attrs
	return nil
}

// processKey returns the generated key of a process without LLMTAP_SHAPE_KEY. All hooks of a process share it, so
// their hashes are equal for equal texts.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
})

// checkURL accepts the URLs that nats.Connect accepts, provided that they have a host.
func checkURL(s string) error {
	if !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("invalid URL") // the error of url.Parse may contain a password
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("scheme %q is not one of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return errors.New("no host")
	}
	return nil
}

func (c *Config) labelDefaults(getenv func(string) string) {
	res := resourceAttributes(getenv(event.EnvResourceAttributes))
	name, version := buildIdentity()
	c.Service = first(c.Service, getenv(event.EnvService), getenv(event.EnvServiceName), res["service.name"], name, "unknown")
	c.ServiceVersion = first(c.ServiceVersion, getenv(event.EnvServiceVersion), res["service.version"], version)
	c.Environment = first(c.Environment, res["deployment.environment.name"], res["deployment.environment"])
	c.Agent = first(c.Agent, res["gen_ai.agent.name"])
}

// resourceAttributes parses key=value pairs as OpenTelemetry defines them: separated by commas, values percent-encoded.
func resourceAttributes(s string) map[string]string {
	m := make(map[string]string)
	for pair := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
			m[strings.TrimSpace(k)] = plain
		}
	}
	return m
}

// buildIdentity returns the name of the main package and the version of its module, or the commit if there is no
// version.
func buildIdentity() (name, version string) {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	if bi.Path != "" {
		name = path.Base(bi.Path)
	}
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		return name, v
	}
	var dirty bool
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			version = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if version != "" && dirty {
		version += "-dirty"
	}
	return name, version
}

func first(candidates ...string) string {
	for _, s := range candidates {
		if s != "" {
			return s
		}
	}
	return ""
}
