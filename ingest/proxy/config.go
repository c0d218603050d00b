package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/loopback"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Config configures the listener of the proxy, its upstreams, and what it records.
type Config struct {
	// Listen is the address of the listener. Addresses other than loopback addresses require a token.
	Listen string `yaml:"listen"`
	// Token, if set, is required in the header X-Llmtap-Token of every request.
	Token string `yaml:"token" secret:"all"`
	// TokenFile is a file that contains the token; it replaces Token.
	TokenFile string `yaml:"token_file"`
	// Upstreams adds to the known providers or overrides them. It maps names to base URLs.
	Upstreams map[string]string `yaml:"upstreams"`

	// Capture is "shape" (bodies without their texts), "full" (bodies byte for byte) or "none". In the modes shape
	// and none, the first 4 KiB of error responses are recorded.
	Capture string `yaml:"capture"`
	// Service, Environment and Agent are the labels of calls without the corresponding headers.
	Service     string `yaml:"service"`
	Environment string `yaml:"environment"`
	Agent       string `yaml:"agent"`
	// KeepUser publishes the header X-Llmtap-User without hashing it.
	KeepUser bool `yaml:"keep_user"`
	// QueueBytes is the maximum memory of the queue to NATS. If it is exceeded, the oldest exchanges are dropped and
	// counted.
	QueueBytes int64 `yaml:"queue_bytes" unit:"bytes"`

	Key []byte `yaml:"-"` // of the hash of X-Llmtap-User; nil: that of the environment
	// NATSURL and NATSOptions configure the connection to NATS.
	NATSURL     string        `yaml:"-"`
	NATSOptions []nats.Option `yaml:"-"`
	Logger      *slog.Logger  `yaml:"-"` // nil: slog.Default()
}

// Default returns the configuration for agents on this machine. It does not record texts.
func Default() Config {
	return Config{Listen: "127.0.0.1:8089", Capture: event.CaptureShape, QueueBytes: llmtap.DefaultMemoryLimit}
}

// Validate returns all errors in c.
func (c *Config) Validate() error {
	var errs []error
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("listen: %q is not host:port, for example 127.0.0.1:8089", c.Listen))
	case c.Token != "" && c.TokenFile != "":
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	case c.Token == "" && c.TokenFile == "" && !loopback.Is(host):
		errs = append(errs, fmt.Errorf("listen: %s is not loopback; set token or token_file, or everyone with access to it can use it", c.Listen))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		if _, err := newUpstream(name, c.Upstreams[name]); err != nil {
			errs = append(errs, fmt.Errorf("upstreams: %w", err))
		}
	}
	switch c.Capture {
	case event.CaptureShape, event.CaptureFull, event.CaptureNone:
	default:
		errs = append(errs, fmt.Errorf("capture: %q is not one of shape, full, none", c.Capture))
	}
	if c.QueueBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("queue_bytes: %d bytes is below 1 MiB", c.QueueBytes))
	}
	return errors.Join(errs...)
}
