package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// With a certificate, every listener of llmtap up speaks TLS, and with CAs of clients, only to clients with a certificate. Commands
// find the process and its NATS on this machine although the certificate has another name, and elsewhere by --url.
func TestTLS(t *testing.T) {
	t.Parallel()
	needClickHouse(t)
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "ca")
	cert, key := ca.Issue(t, dir, "server", "collector.internal")
	client, clientKey := ca.Issue(t, dir, "client", "")
	local, localKey := ca.Issue(t, dir, "local", "127.0.0.1")
	for _, mutual := range []bool{false, true} {
		name, text := "tls", fmt.Sprintf("tls: {cert_file: %s, key_file: %s", cert, key)
		clientFlags := ""
		if mutual {
			name, text = "mutual", text+", client_ca_file: "+ca.File
			clientFlags = fmt.Sprintf("http: {cert_file: %s, key_file: %s}\nnats: {cert_file: %[1]s, key_file: %[2]s}\n", client, clientKey)
		}
		t.Run(name, func(t *testing.T) {
			config := filetest.Temp(t, "llmtap.yaml", text+"}\n"+clientFlags)
			trust := certs.Client{CAFile: ca.File}
			if mutual {
				trust.CertFile, trust.KeyFile = client, clientKey
			}
			up := startUp(t, "--config", config)
			up.client = trusting(t, trust, cert)
			up.ready(t)
			process := running(t, up.dir)
			if !strings.HasPrefix(process.URL(), "https://") || !strings.HasPrefix(process.NATSURL, "tls://") || !strings.HasPrefix(process.PagesURL, "https://") {
				t.Errorf("%+v", process)
			}
			command := func(args ...string) string {
				t.Helper()
				stdout, stderr, code := runCommand(t, "", append(args, "--config", config, "--data-dir", up.dir)...)
				if code != 0 {
					t.Errorf("llmtap %s: %d %s%s", strings.Join(args, " "), code, stdout, stderr)
				}
				return stdout
			}
			// A machine with little free disk space, which doctor reports as a fault, is not this test's concern.
			report, _, _ := runCommand(t, "", "doctor", "--config", config, "--data-dir", up.dir)
			must.Contain(t, report, "is ready; https://")
			command("query", "--sql", "SELECT count() FROM exchanges_final")
			command("forget", "--conversation", "none", "--dry-run") // uses NATS

			proxy := up.inBanner(t, `Proxy +(https://[^/]+)/`)
			for name, url := range map[string]string{"http": process.URL(), "pages": process.PagesURL, "proxy": proxy, "receive": process.ReceiveURL, "grpc": process.OTLPURL} {
				host := strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/")
				must.Do(t, handshake(t, host, trust), name)
				must.Fail(t, handshake(t, host, certs.Client{}), "", name, "a certificate of an unknown CA is accepted")
				err := handshake(t, host, certs.Client{CAFile: ca.File})
				must.Equal(t, err != nil, mutual, "%s without a client certificate: %v", name, err)
				if answer := plainText(t, host); strings.Contains(answer, "200 OK") {
					t.Errorf("%s answers without TLS: %s", name, answer)
				}
			}
			// Hooks check the name, too.
			must.Fail(t, must.Err(nats.Connect(process.NATSURL, nats.RootCAs(ca.File))), "127.0.0.1", "NATS, a certificate with another name")
			for _, withCertificate := range []bool{true, false} {
				if !withCertificate {
					trust.CertFile, trust.KeyFile = "", ""
				}
				cfg := must.Get(trust.Config(cert))(t)
				nc, err := nats.Connect(process.NATSURL, nats.Secure(cfg))
				if err == nil {
					nc.Close()
				}
				must.Equal(t, err != nil, mutual && !withCertificate, "NATS, client certificate %v: %v", withCertificate, err)
			}
		})
	}
	t.Run("elsewhere", func(t *testing.T) {
		config := filetest.Temp(t, "llmtap.yaml", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", local, localKey))
		up := startUp(t, "--config", config)
		up.client = trusting(t, certs.Client{}, local)
		up.ready(t)
		process := running(t, up.dir)
		url := process.URL()
		other := filetest.Temp(t, "other.yaml", "http: {ca_file: "+ca.File+"}\n")
		if out, stderr, code := runCommand(t, "", "query", "--config", other, "--url", url, "--sql", "SELECT 1"); code != 0 {
			t.Errorf("with the CA: %d %s%s", code, out, stderr)
		}
		if _, stderr, code := runCommand(t, "", "query", "--url", url, "--sql", "SELECT 1"); code == 0 || !strings.Contains(stderr, "LLMTAP_HTTP_CA_FILE") {
			t.Errorf("without the CA: %d %s", code, stderr)
		}
		if _, stderr, code := runCommand(t, "", "query", "--url", strings.Replace(url, "https", "http", 1), "--sql", "SELECT 1"); code == 0 {
			t.Errorf("without TLS: %d %s", code, stderr)
		}
	})
}

// trusting returns a client that trusts one certificate.
func trusting(t *testing.T, files certs.Client, pinned string) http.Client {
	t.Helper()
	cfg := must.Get(files.Config(pinned))(t)
	return http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
}

// handshake returns the error of a connection to a listener of the certificate for collector.internal.
func handshake(t *testing.T, host string, client certs.Client) error {
	t.Helper()
	cfg := must.Get(client.Config(""))(t)
	cfg.ServerName, cfg.NextProtos = "collector.internal", []string{"http/1.1"}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", host, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: collector.internal\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1)) // a missing client certificate is an error after the handshake; gRPC closes the connection
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// plainText returns the answer of a listener to a request without TLS.
func plainText(t *testing.T, host string) string {
	t.Helper()
	c := must.Get(net.DialTimeout("tcp", host, 5*time.Second))(t)
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	must.Get(fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"))(t)
	answer, _ := io.ReadAll(c) // the server may reset the connection
	return string(answer)
}
