package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
)

// maxPayloadLimit is where nats-server itself begins to warn.
const maxPayloadLimit = 8 << 20

// Config says where the server keeps its streams and where it listens.
type Config struct {
	Dir        string `yaml:"-"`                        // of the streams; made when missing; one server at a time
	Host       string `yaml:"host"`                     // loopback unless Token or TokenFile is set
	Port       int    `yaml:"port"`                     // -1: any free port
	Token      string `yaml:"token" secret:"all"`       // clients must present it; empty: none needed
	TokenFile  string `yaml:"token_file"`               // a file that holds the token; it replaces Token
	MaxPayload int    `yaml:"max_payload" unit:"bytes"` // largest message in bytes, headers included

	Logger *slog.Logger `yaml:"-"` // nil: slog.Default()
}

// Default returns the configuration of a server for this machine only, without its directory.
func Default() Config {
	return Config{Host: "127.0.0.1", Port: 4222, MaxPayload: maxPayloadLimit}
}

// Validate reports every setting that cannot work.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Dir != "", "dir: is empty; name the directory that keeps the streams")
	check(c.Port == -1 || c.Port > 0 && c.Port <= 65535, "port: %d is not between 1 and 65535; -1 takes a free one", c.Port)
	check(c.MaxPayload >= 1<<20 && c.MaxPayload <= maxPayloadLimit, "max_payload: %d is not between 1 MiB and 8 MiB", c.MaxPayload)
	check(c.Token == "" || c.TokenFile == "", "token, token_file: both are set; keep one")
	check(loopback(c.Host) || c.Token != "" || c.TokenFile != "",
		"host: %q is not loopback; set token or token_file, or everyone who reaches it can read every call", c.Host)
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
