// Package certstest issues certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A CA issues certificates.
type CA struct {
	File string // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a CA whose certificate is dir/name.pem.
func NewCA(t testing.TB, dir, name string) *CA {
	t.Helper()
	ca := &CA{File: filepath.Join(dir, name+".pem"), key: newKey(t)}
	ca.cert = &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	write(t, ca.File, "CERTIFICATE", sign(t, ca.cert, ca.cert, ca.key, ca.key))
	return ca
}

// Issue writes dir/name.pem and dir/name.key: a certificate for servers with this host, an IP address or a name, and for clients.
func (ca *CA) Issue(t testing.TB, dir, name, host string) (certFile, keyFile string) {
	t.Helper()
	return ca.IssueUntil(t, dir, name, host, time.Now().Add(time.Hour))
}

// IssueUntil is like Issue, but the certificate ends at a time.
func (ca *CA) IssueUntil(t testing.TB, dir, name, host string, until time.Time) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: until.Add(-100 * 24 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else if host != "" {
		c.DNSNames = []string{host}
	}
	der := must.Get(x509.MarshalECPrivateKey(key))(t)
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	write(t, certFile, "CERTIFICATE", sign(t, c, ca.cert, key, ca.key))
	write(t, keyFile, "EC PRIVATE KEY", der)
	return certFile, keyFile
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func sign(t testing.TB, c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	return must.Get(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey))(t)
}

func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
