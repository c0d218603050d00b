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
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/event"
)

// Version of the hook, sent in every message.
const Version = "0.1.0"

// Defaults of Config.
const (
	DefaultURL          = "nats://127.0.0.1:4222"
	DefaultMemoryLimit  = 64 << 20
	DefaultFlushTimeout = 2 * time.Second
)

// minMemoryLimit leaves room for one cut body and the messages around it.
const minMemoryLimit = 1 << 20

// A Config says what a Hook records and where it publishes. Its zero value is a working one.
type Config struct {
	// URL of NATS, several separated by commas. Default: $LLMTAP_NATS_URL, else DefaultURL.
	URL string

	// Service, ServiceVersion, Environment and Agent label every message. Defaults: OTEL_SERVICE_NAME, then service.name,
	// service.version and deployment.environment.name of OTEL_RESOURCE_ATTRIBUTES, then the build information of the binary.
	Service, ServiceVersion, Environment, Agent string

	// Capture is what is published of bodies: "shape", the default, their structure with values only where the message
	// protocol has them (roles, ids, function names, parameters, usage), each text replaced by its length and keyed hash;
	// "full", all of them byte for byte; or "none". Of error answers the first 4 KiB are published in shape and none.
	//
	// The key of the hashes is $LLMTAP_SHAPE_KEY. Without it a process makes its own, and texts of different processes
	// cannot be compared: an agent that goes on with the conversation of another process needs it.
	Capture string

	// Hosts are recorded beside the known providers: "llm.example.com" (any port), "10.0.0.7:8000", ".example.com" (all
	// names below it).
	Hosts []string

	// Redact, if set, returns the body to publish instead of the one captured; it must not change its argument. It runs in
	// the background, after the call, and before a body is shaped; where it panics the body is withheld.
	Redact func(body []byte) []byte

	// OnPublished, if set, is told the id of each exchange that NATS has stored, both halves. It is called in the
	// background, one call at a time and before Close returns; publishing waits for it, so it must be quick.
	OnPublished func(exchange string)

	// Origin says which way in this process is: event.OriginHook for an agent of its own, the default, or event.OriginProxy
	// for one that passes on the calls of others, see WithCaller.
	Origin string

	// Traceparent, if set, gives the W3C trace context of a call whose request has no Traceparent header, as that of a
	// tracer's span in the call's context. It runs on the caller's goroutine.
	Traceparent func(context.Context) string

	// KeepUser publishes the user of WithUser as it is instead of hashed.
	KeepUser bool

	// MemoryLimit bounds what waits to be published, in bytes; beyond it the oldest exchanges are dropped and counted.
	// Default 64 MiB, at least 1 MiB.
	MemoryLimit int64

	// FlushTimeout is how long Close waits for what is still to be published. Default 2 s.
	FlushTimeout time.Duration

	// Logger gets what an operator should know (NATS not reachable, exchanges dropped), never message content. Default:
	// slog.Default().
	Logger *slog.Logger

	// NATSOptions are credentials, TLS and the like; they win over the hook's own options.
	NATSOptions []nats.Option

	userKey  []byte // LLMTAP_SHAPE_KEY
	shapeKey []byte // the same, or the process's own
}

// validate fills in the defaults and reports the first mistake.
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
	if c.URL == "" {
		c.URL = getenv("LLMTAP_NATS_URL")
	}
	if c.URL == "" {
		c.URL = DefaultURL
	}
	for u := range strings.SplitSeq(c.URL, ",") {
		if err := checkURL(strings.TrimSpace(u)); err != nil {
			return fmt.Errorf("config URL: %w", err)
		}
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
	c.userKey = []byte(getenv("LLMTAP_SHAPE_KEY"))
	if c.shapeKey = c.userKey; len(c.shapeKey) == 0 {
		c.shapeKey = processKey()
	}
	c.labelDefaults(getenv)
	return nil
}

// processKey is the key of a process that was given none. It is made once, so that all hooks of a process hash alike.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
})

// checkURL accepts what nats.Connect accepts, and a host.
func checkURL(s string) error {
	if !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("one address is not a URL") // the error would quote a password
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("scheme %q is none of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return errors.New("an address has no host")
	}
	return nil
}

func (c *Config) labelDefaults(getenv func(string) string) {
	res := resourceAttributes(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	name, version := buildIdentity()
	c.Service = first(c.Service, getenv("OTEL_SERVICE_NAME"), res["service.name"], name, "unknown")
	c.ServiceVersion = first(c.ServiceVersion, res["service.version"], version)
	c.Environment = first(c.Environment, res["deployment.environment.name"], res["deployment.environment"])
	c.Agent = first(c.Agent, res["gen_ai.agent.name"])
}

// resourceAttributes reads key=value pairs separated by commas, values percent-encoded, as OpenTelemetry defines them.
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

// buildIdentity is the name of the main package and its version: the module's, else the commit's.
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
