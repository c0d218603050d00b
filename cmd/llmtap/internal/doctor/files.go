package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// expiryWarn is how long before the end of a certificate it is reported. Let's Encrypt advises to renew 30 days before.
const expiryWarn = 14 * 24 * time.Hour

// checkConfig reports which configuration is in effect, and the files named in it that are unusable or not private.
func (c *checker) checkConfig() {
	set, keys := 0, c.cfg.Keys()
	for _, k := range keys {
		if c.cfg.Origin(k.Path) != "default" {
			set++
		}
		file := k.File()
		if file == "" {
			continue
		}
		if b, err := os.ReadFile(file); err != nil {
			c.fail("config", "create it, or make it readable for the user that runs llmtap", "%s: %v", k.Path, err)
		} else if strings.TrimSpace(string(b)) == "" {
			c.fail("config", "write the secret to it", "%s: %s is empty", k.Path, file)
		} else if !isPublic(k.Path) && readableByAll(file) {
			c.warn("config", "chmod o-r "+file, "%s: every user of this machine can read %s", k.Path, file)
		}
	}
	c.ok("config", "%s, %d of %d keys set; see llmtap config", c.cfg.Source(), set, len(keys))
}

// isPublic reports whether the key names a file of certificates.
func isPublic(key string) bool {
	return strings.HasSuffix(key, "cert_file") || strings.HasSuffix(key, "ca_file")
}

// readableByAll reports whether all users can read a file. Kubernetes mounts secrets as links to such files, in a file system that
// only the container has.
func readableByAll(file string) bool {
	info, err := os.Lstat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// checkCertificates checks the certificates that the configuration names.
func (c *checker) checkCertificates() {
	if _, err := c.cfg.TLS.Config(slog.New(slog.DiscardHandler)); err != nil {
		c.fail("certificates", "see deploy/CONNECT.md, TLS, for what the files must contain", "tls: %v", err)
	}
	for _, k := range c.cfg.Keys() {
		file := k.File()
		if file == "" || !isPublic(k.Path) {
			continue
		}
		cert, err := firstCertificate(file)
		if err != nil {
			c.fail("certificates", "write a certificate in PEM format to it", "%s: %v", k.Path, err)
			continue
		}
		if !strings.HasSuffix(k.Path, "cert_file") { // a bundle of CAs may contain old ones
			continue
		}
		const fix = "renew it; llmtap reads the new file without a restart"
		text := fmt.Sprintf("%s: %s", k.Path, describe(cert))
		switch {
		case c.now.After(cert.NotAfter):
			c.fail("certificates", fix, "%s, expired on %s", text, cert.NotAfter.Format(time.DateOnly))
		case c.now.Before(cert.NotBefore):
			c.fail("certificates", "correct the clock, or wait", "%s, is not valid before %s", text, cert.NotBefore.Format(time.RFC3339))
		case cert.NotAfter.Sub(c.now) < expiryWarn:
			c.warn("certificates", fix, "%s, expires in %s, on %s", text, quantity.Plural(int(cert.NotAfter.Sub(c.now).Hours()/24), "day"), cert.NotAfter.Format(time.DateOnly))
		default:
			c.ok("certificates", "%s, valid until %s", text, cert.NotAfter.Format(time.DateOnly))
		}
	}
}

// firstCertificate reads the first certificate of a file in PEM format, which is the one of the server or client.
func firstCertificate(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s has no certificate", file)
}

// describe returns whom a certificate names, such as "collector.internal, 10.0.0.7".
func describe(cert *x509.Certificate) string {
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return cert.Subject.String()
	}
	return strings.Join(names, ", ")
}
