package certs_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// dial returns the error of a handshake with server, after which both have sent a byte.
func dial(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", server))(t)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte{1}) // after the handshake; the client sees an error
			_ = c.Close()
		}
	}()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", l.Addr().String(), client)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1)) // a missing client certificate is an error after the handshake
	return err
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, other := certstest.NewCA(t, dir, "ca"), certstest.NewCA(t, dir, "other")
	cert, key := ca.Issue(t, dir, "server", "127.0.0.1")
	named, namedKey := ca.Issue(t, dir, "named", "collector.internal")
	client, clientKey := ca.Issue(t, dir, "client", "")
	stranger, strangerKey := other.Issue(t, dir, "stranger", "")
	f := func(server certs.Server, c certs.Client, pinned, want string) {
		t.Helper()
		s := must.Get(server.Config(slog.New(slog.DiscardHandler)))(t)
		cfg := must.Get(c.Config(pinned))(t)
		err := dial(t, s, cfg)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v, %+v, %s: %v, want %q", server, c, pinned, err, want)
		}
	}
	plain := certs.Server{CertFile: cert, KeyFile: key}
	mutual := certs.Server{CertFile: cert, KeyFile: key, ClientCAFile: ca.File}
	f(plain, certs.Client{CAFile: ca.File}, "", "")
	f(plain, certs.Client{}, "", "certificate")
	f(plain, certs.Client{CAFile: other.File}, "", "unknown authority")
	f(certs.Server{CertFile: named, KeyFile: namedKey}, certs.Client{CAFile: ca.File}, "", "127.0.0.1")
	f(certs.Server{CertFile: named, KeyFile: namedKey}, certs.Client{}, named, "") // on the same machine
	f(plain, certs.Client{}, named, "has another certificate")
	f(mutual, certs.Client{CAFile: ca.File}, "", "certificate required")
	f(mutual, certs.Client{CAFile: ca.File, CertFile: stranger, KeyFile: strangerKey}, "", "certificate required")
	f(mutual, certs.Client{CAFile: ca.File, CertFile: client, KeyFile: clientKey}, "", "")
	s := must.Get(plain.Config(slog.New(slog.DiscardHandler)))(t)
	must.Fail(t, dial(t, s, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10, InsecureSkipVerify: true}), "", "TLS 1.1 is accepted")
}

// A renewed certificate is used for new connections. Files that cannot be read leave the one before.
func TestRenewal(t *testing.T) {
	dir := t.TempDir()
	ca, next := certstest.NewCA(t, dir, "ca"), certstest.NewCA(t, dir, "next")
	cert, key := ca.Issue(t, dir, "server", "127.0.0.1")
	var log strings.Builder
	s := must.Get(certs.Server{CertFile: cert, KeyFile: key}.Config(slog.New(slog.NewTextHandler(&log, nil))))(t)
	trusts := func(ca *certstest.CA) error {
		t.Helper()
		cfg := must.Get(certs.Client{CAFile: ca.File}.Config(""))(t)
		return dial(t, s, cfg)
	}
	must.Do(t, trusts(ca))
	later := time.Now().Add(time.Minute)
	must.Do(t, os.WriteFile(cert, []byte("half a file"), 0o600))
	must.Do(t, trusts(ca), "with a file that cannot be read")
	next.Issue(t, dir, "server", "127.0.0.1")
	for _, name := range []string{cert, key} {
		must.Do(t, os.Chtimes(filepath.Clean(name), later, later))
	}
	must.Do(t, trusts(next), "the renewed certificate is not used")
	if n := strings.Count(log.String(), "using the one before"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "ca")
	cert, key := ca.Issue(t, dir, "server", "127.0.0.1")
	for _, s := range []certs.Server{{CertFile: cert}, {KeyFile: key}, {ClientCAFile: ca.File}} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
	for _, s := range []certs.Server{{CertFile: cert, KeyFile: dir + "/none"}, {CertFile: key, KeyFile: cert}, {CertFile: cert, KeyFile: key, ClientCAFile: key}} {
		if _, err := s.Config(slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if c, err := (certs.Server{}).Config(nil); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	for _, c := range []certs.Client{{CAFile: dir + "/none"}, {CAFile: key}, {CertFile: cert, KeyFile: dir + "/none"}} {
		if _, err := c.Config(""); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	if (certs.Client{CertFile: cert}).Validate() == nil {
		t.Error("a certificate without a key is valid")
	}
}
