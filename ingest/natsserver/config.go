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
	Dir        string // of the streams; made when missing; one server at a time
	Host       string // loopback unless Token is set
	Port       int    // -1: any free port
	Token      string // clients must present it; empty: none needed
	MaxPayload int    // largest message in bytes, headers included

	Logger *slog.Logger // nil: slog.Default()
}

// Default returns the configuration of a server for this machine only, without its directory.
func Default() Config {
	return Config{Host: "127.0.0.1", Port: 4222, MaxPayload: maxPayloadLimit}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("dir: is empty; name the directory that keeps the streams")
	case c.Port < -1 || c.Port == 0 || c.Port > 65535:
		return fmt.Errorf("port: %d is not between 1 and 65535; -1 takes a free one", c.Port)
	case c.MaxPayload < 1<<20 || c.MaxPayload > maxPayloadLimit:
		return fmt.Errorf("max_payload: %d is not between 1 MiB and 8 MiB", c.MaxPayload)
	case c.Token == "" && !loopback(c.Host):
		return fmt.Errorf("host: %s is not loopback; set a token, or everyone who reaches it can read every call", c.Host)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
