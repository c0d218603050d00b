package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/event"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// Config says who may ask the proxy, what it reaches, and what it records.
type Config struct {
	// Listen is the address of the listener that the proxy will serve. Any but a loopback address needs a token.
	Listen string `yaml:"listen"`
	// Token, if set, must be in the header X-Llmtap-Token of every request.
	Token string `yaml:"token" secret:"all"`
	// TokenFile is a file that holds the token; it replaces Token.
	TokenFile string `yaml:"token_file"`
	// Upstreams are reached beside the known providers, or in their place: name -> base URL.
	Upstreams map[string]string `yaml:"upstreams"`

	// Capture is "shape", bodies with values only at protocol positions, "full", the bodies byte for byte, or "none"; in
	// shape and none with the first 4 KiB of error answers.
	Capture string `yaml:"capture"`
	// Service, Environment and Agent label calls whose headers do not.
	Service     string `yaml:"service"`
	Environment string `yaml:"environment"`
	Agent       string `yaml:"agent"`
	// KeepUser publishes X-Llmtap-User as it is instead of hashed.
	KeepUser bool `yaml:"keep_user"`
	// MemoryLimit bounds what waits to be published, in bytes; beyond it the oldest exchanges are dropped and counted.
	MemoryLimit int64 `yaml:"memory_limit" unit:"bytes"`

	// NATSURL and NATSOptions are where and how events are published.
	NATSURL     string        `yaml:"-"`
	NATSOptions []nats.Option `yaml:"-"`
	Logger      *slog.Logger  `yaml:"-"` // nil: slog.Default()
}

// Default returns the configuration for agents on this machine. It records no texts: an operator who wants them says so.
func Default() Config {
	return Config{Listen: "127.0.0.1:8089", Capture: event.CaptureShape, MemoryLimit: llmtap.DefaultMemoryLimit}
}

// Validate reports every mistake in c.
func (c *Config) Validate() error {
	var errs []error
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("listen: %q is no address with a port, such as 127.0.0.1:8089", c.Listen))
	case c.Token != "" && c.TokenFile != "":
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	case c.Token == "" && c.TokenFile == "" && !loopback(host):
		errs = append(errs, fmt.Errorf("listen: %s is not loopback; set token or token_file, or everyone who reaches it can use it", c.Listen))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		if _, err := newUpstream(name, c.Upstreams[name]); err != nil {
			errs = append(errs, fmt.Errorf("upstreams: %w", err))
		}
	}
	switch c.Capture {
	case event.CaptureShape, event.CaptureFull, event.CaptureNone:
	default:
		errs = append(errs, fmt.Errorf("capture: %q is none of shape, full and none", c.Capture))
	}
	if c.MemoryLimit < 1<<20 {
		errs = append(errs, fmt.Errorf("memory_limit: %d bytes is below 1 MiB", c.MemoryLimit))
	}
	return errors.Join(errs...)
}
