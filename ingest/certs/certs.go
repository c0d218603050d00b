// Package certs makes the TLS configurations of listeners and clients from files. Certificates are read again when their files have
// changed, so a renewed certificate needs no restart.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// minVersion is the oldest version of TLS that listeners and clients accept.
const minVersion = tls.VersionTLS12

// Server names the files of the certificate of listeners, in PEM format.
type Server struct {
	CertFile     string `yaml:"cert_file"`      // the certificate and those between it and its CA; empty: no TLS
	KeyFile      string `yaml:"key_file"`       // private key of the certificate
	ClientCAFile string `yaml:"client_ca_file"` // CAs of clients; if set, clients need a certificate (mutual TLS)
}

// Enabled reports whether listeners use TLS.
func (s Server) Enabled() bool { return s.CertFile != "" }

// Validate returns an error that lists every invalid setting. It does not read the files.
func (s Server) Validate() error {
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return errors.New("cert_file, key_file: one is set without the other")
	case s.ClientCAFile != "" && s.CertFile == "":
		return errors.New("client_ca_file: is set without cert_file and key_file")
	}
	return nil
}

// Config returns the configuration of a listener, or nil without TLS. An error of the files is returned now; later, connections
// get the certificate that was read last, and the error is logged.
func (s Server) Config(logger *slog.Logger) (*tls.Config, error) {
	if !s.Enabled() {
		return nil, nil
	}
	f := &files{server: s, logger: logger}
	if _, err := f.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: minVersion, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current() },
		// Not used, but servers check that there is one.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := f.current()
			if err != nil {
				return nil, err
			}
			return &c.Certificates[0], nil
		},
	}, nil
}

// files are the files of a listener with their last content.
type files struct {
	server Server
	logger *slog.Logger

	mu      sync.Mutex // guards the fields below
	config  *tls.Config
	changed [3]time.Time // modification times of the files of config
	failed  [3]time.Time // modification times of files that could not be read
}

// current returns the configuration for a new connection.
func (f *files) current() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changed [3]time.Time
	for i, name := range []string{f.server.CertFile, f.server.KeyFile, f.server.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			changed[i] = info.ModTime()
		}
	}
	if f.config != nil && (changed == f.changed || changed == f.failed) {
		return f.config, nil
	}
	c, err := f.server.read()
	switch {
	case err == nil:
		f.config, f.changed, f.failed = c, changed, [3]time.Time{}
	case f.config == nil:
		return nil, err
	default:
		f.failed = changed
		f.logger.Error("cannot read the certificate, using the one before", "err", err)
	}
	return f.config, nil
}

func (s Server) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read cert_file and key_file: %w", err)
	}
	c := &tls.Config{MinVersion: minVersion, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
	if s.ClientCAFile != "" {
		if c.ClientCAs, err = pool(s.ClientCAFile); err != nil {
			return nil, fmt.Errorf("read client_ca_file: %w", err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// Client names the files of a client, in PEM format.
type Client struct {
	CAFile   string `yaml:"ca_file"`   // CAs of servers; empty: those of the system
	CertFile string `yaml:"cert_file"` // certificate of the client, if the server requires one
	KeyFile  string `yaml:"key_file"`
}

// Validate returns an error that lists every invalid setting.
func (c Client) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("cert_file, key_file: one is set without the other")
	}
	return nil
}

// Config returns the configuration of a client. If pinned is set, it is the file of the server's certificate: only that certificate
// is trusted, whatever its name. Programs on the machine of a server know its file, but not necessarily a name in the certificate.
func (c Client) Config(pinned string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: minVersion}
	if c.CAFile != "" {
		roots, err := pool(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		cfg.RootCAs = roots
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read cert_file and key_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if pinned != "" {
		cfg.InsecureSkipVerify = true //nolint:gosec // VerifyConnection compares the certificate itself
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return isPinned(state, pinned) }
	}
	return cfg, nil
}

// isPinned returns an error unless the server's certificate is the first in file.
func isPinned(state tls.ConnectionState, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the certificate of the server: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || !bytes.Equal(block.Bytes, state.PeerCertificates[0].Raw) {
		return fmt.Errorf("the server has another certificate than %s", file)
	}
	return nil
}

func pool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", file)
	}
	return p, nil
}
