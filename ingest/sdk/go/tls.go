package llmtap

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// natsTLS sets the files of c for connections to NATS, which read them each time.
func (c *Config) natsTLS(o *nats.Options) {
	if c.CAFile == "" && c.CertFile == "" {
		return
	}
	o.Secure = true
	if o.TLSConfig == nil {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.CAFile != "" {
		o.RootCAsCB = c.roots
	}
	if c.CertFile != "" {
		o.TLSCertCB = c.certificate
	}
}

// clientTLS returns the settings of the endpoint's client, or an error of the files.
func (c *Config) clientTLS() (t *tls.Config, err error) {
	t = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		if t.RootCAs, err = c.roots(); err != nil {
			return nil, err
		}
	}
	if c.CertFile != "" {
		cert, err := c.certificate()
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

func (c *Config) roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CAs for TLS: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the CAs for TLS: %s has no certificate in PEM format", c.CAFile)
	}
	return pool, nil
}

func (c *Config) certificate() (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return cert, fmt.Errorf("read the certificate for TLS: %w", err)
	}
	return cert, nil
}
