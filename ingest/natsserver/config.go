package natsserver

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/loopback"
)

// maxPayloadLimit is the payload limit above which nats-server logs a warning.
const maxPayloadLimit = 8 << 20

// Config configures the storage and the listener of the server.
type Config struct {
	Dir        string `yaml:"-"`                        // directory of the streams; created if missing
	Host       string `yaml:"host"`                     // must be loopback unless Token or TokenFile is set
	Port       int    `yaml:"port"`                     // -1: any free port
	Token      string `yaml:"token" secret:"all"`       // tokens that hooks must send, if set; see secret.ReadTokens
	TokenFile  string `yaml:"token_file"`               // file that contains the tokens; replaces Token
	MaxPayload int    `yaml:"max_payload" unit:"bytes"` // maximum message size, including headers

	// ServiceTokens are tokens of hooks that may publish the events of one service only, by service.
	ServiceTokens map[string]string `yaml:"service_tokens" secret:"all"`
	// CollectorToken and CollectorTokenFile are the tokens of llmtap on other machines, which may do everything. The llmtap of
	// this machine has a token of its own, see Server.Token.
	CollectorToken     string `yaml:"collector_token" secret:"all"`
	CollectorTokenFile string `yaml:"collector_token_file"`
	// EncryptionKeyFile is a file with the key that encrypts the streams on disk; empty: not encrypted.
	EncryptionKeyFile string `yaml:"encryption_key_file"`

	TLS      certs.Server `yaml:"-"`
	AllowAll bool         `yaml:"-"` // every client may do everything, for tests; see Server.Token otherwise

	Logger     *slog.Logger          `yaml:"-"` // nil: slog.Default()
	Registerer prometheus.Registerer `yaml:"-"` // nil: the metrics are not registered
}

// Default returns the configuration of a server that listens on loopback, without Dir.
func Default() Config {
	return Config{Host: "127.0.0.1", Port: 4222, MaxPayload: maxPayloadLimit}
}

// Validate returns an error that lists every invalid setting.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Dir != "", "dir: is empty; set it to the directory of the streams")
	check(c.Port == -1 || c.Port > 0 && c.Port <= 65535, "port: %d is not between 1 and 65535 (or -1 for a free port)", c.Port)
	check(c.MaxPayload >= 1<<20 && c.MaxPayload <= maxPayloadLimit, "max_payload: %d is not between 1 MiB and 8 MiB", c.MaxPayload)
	check(c.Token == "" || c.TokenFile == "", "token, token_file: both are set; keep one")
	check(c.CollectorToken == "" || c.CollectorTokenFile == "", "collector_token, collector_token_file: both are set; keep one")
	check(loopback.Is(c.Host) || c.Token != "" || c.TokenFile != "" || len(c.ServiceTokens) > 0,
		"host: %q is not loopback; set token_file or service_tokens, otherwise anyone who can connect can publish events", c.Host)
	return errors.Join(errs...)
}
