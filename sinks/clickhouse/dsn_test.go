package clickhouse_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	f := func(dsn string, want ...string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, must.Get(clickhouse.Addresses(dsn))(t)), dsn)
	}
	f("clickhouse://h/db", "h:9000")
	f("clickhouse://h/db?secure=true", "h:9440")
	f("clickhouse://h/db?secure", "h:9440")
	f("clickhouse://h/db?secure=false", "h:9000")
	f("http://h", "h:8123")
	f("https://u:p@h/db", "h:8443")
	f("http://a,b:81,c/db?connection_open_strategy=round_robin", "a:8123", "b:81", "c:8123")
	f("http://a/db?alt_hosts=b,c:81", "a:8123", "b:8123", "c:81")
	f("clickhouse://[::1]:9001,[::2]/db", "[::1]:9001", "[::2]:9000")
	f("http://h/db?max_threads=2", "h:8123")
}

func TestInvalidDSN(t *testing.T) {
	t.Parallel()
	f := func(dsn, want string) {
		t.Helper()
		err := clickhouse.Config{DSN: dsn}.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "dsn: "+want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", dsn, err, want)
		}
	}
	f("u:secret@h:9000", "has no scheme")
	f("http://u:secret@h:80000/db", `address "h:80000" does not have the form host:port`)
	f("clickhouse://u:secret@::1/db", "")
	f("http://u:secret@a,,b/db", "parse: empty host")
	f("http://u:secret@h/db?secure=true", "http with secure=true: use https://")
	f("https://u:secret@h/db?secure=false", "https with secure=false: use http://")
	f("clickhouse://u:secret@h/db?secure=perhaps", "parse: ")
	f("clickhouse://u:secret@h/db?ca_file=ca.pem", "ca_file, cert_file and key_file require TLS")
	f("https://u:secret@h/db?cert_file=c.pem", "cert_file and key_file must both be set")
	f("https://u:secret@h/db?skip_verify=true", "skip_verify=true allows a man in the middle to read and change rows")
	f("http://u:secret@h/db?connection_open_strategy=any", `connection_open_strategy: "any" is not one of in_order, round_robin, random`)
	f("http://u:secret@h/db?compress=rar", `compress: "rar" is not one of`)
	f("http://u:secret@h/db?max_threads=1&max_threads=2", "option max_threads is given twice")
	f("http://u:secret@h/db?a=%zz", "parse options")
	must.Do(t, (clickhouse.Config{DSN: "https://h/?skip_verify=true", AllowSkipVerify: true}).Validate(), "skip_verify with permission")
	if err := (clickhouse.Config{DSN: "http://h/", Cluster: "a b"}).Validate(); err == nil || !strings.HasPrefix(err.Error(), `cluster: "a b" is not the name`) {
		t.Errorf("cluster: %v", err)
	}
}

// An address that drops packets uses only its share of the time.
func TestDialEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &client.Options{Addr: []string{"a", "b", "c"}, DialTimeout: 30 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), o.DialTimeout)
		defer cancel()
		start := time.Now()
		var dialled []string
		_, err := clickhouse.DialEvenly(ctx, 1, o, func(ctx context.Context, addr string, o *client.Options) (client.DialResult, error) {
			dialled = append(dialled, addr)
			if addr == "c" {
				return client.DialResult{}, ctx.Err()
			}
			must.Equal(t, o.DialTimeout, 10*time.Second, "%s: timeout", addr)
			<-ctx.Done()
			return client.DialResult{}, ctx.Err()
		})
		if err != nil || strings.Join(dialled, "") != "abc" || time.Since(start) != 20*time.Second {
			t.Errorf("dialled %s, %v, after %v", dialled, err, time.Since(start))
		}
	})
}

// reverseProxy starts a proxy in front of the engine. It returns the proxy, and the DSN of a fresh database on the engine.
func reverseProxy(t *testing.T, start func(*httptest.Server)) (*httptest.Server, *url.URL) {
	t.Helper()
	u := must.Get(url.Parse(freshDSN(t)))(t)
	if u.Scheme != "http" {
		t.Skip("not the embedded server")
	}
	srv := httptest.NewUnstartedServer(forwardTo(u.Host))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(srv)
	t.Cleanup(srv.Close)
	return srv, u
}

func TestFailover(t *testing.T) {
	t.Parallel()
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	dead.Close()
	first, u := reverseProxy(t, (*httptest.Server).Start)
	engineHost := u.Host
	u.Host = dead.Addr().String() + "," + first.Listener.Addr().String() + "," + engineHost
	s := openDSN(t, u.String())
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 10)))
	first.CloseClientConnections()
	first.Close()
	// A broken connection is a RetryError; the next connection is made to the remaining address.
	var retry *sinks.RetryError
	for attempt := 0; ; attempt++ {
		err := s.Write(t.Context(), sinktest.Rows(0, 20))
		if err == nil {
			break
		}
		if !errors.As(err, &retry) || attempt > 10 {
			t.Fatalf("Write after the first server stopped: %v", err)
		}
	}
	must.Equal(t, query(t, s, "SELECT count() FROM exchanges_final", nil), "20\n", "exchanges")
}

// The connection to the first of two hosts is cut in the middle of an insert, and the host is gone. The rows are stored once,
// through the second host.
func TestFailoverInTheMiddleOfAnInsert(t *testing.T) {
	t.Parallel()
	f := func(name string, dsn *url.URL) {
		t.Helper()
		ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		var limit atomic.Int64 // bytes until the cut; 0: none
		var conns sync.WaitGroup
		defer conns.Wait()
		defer ln.Close()
		cut := make(chan struct{})
		cutOnce := sync.OnceFunc(func() { ln.Close(); close(cut) }) // of whichever connection is first
		host := dsn.Host
		conns.Go(func() {
			for {
				client, err := ln.Accept()
				if err != nil {
					return
				}
				conns.Go(func() { cutAfter(client, host, &limit, cutOnce) })
			}
		})
		dsn.Host = ln.Addr().String() + "," + host
		s := openDSN(t, dsn.String())
		must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 10)))
		limit.Store(100 << 10)
		var retry *sinks.RetryError
		if err := s.Write(t.Context(), sinktest.Rows(0, 500)); !errors.As(err, &retry) {
			t.Fatalf("%s: Write while the connection is cut: %v, want a RetryError", name, err)
		}
		<-cut
		for attempt := 0; ; attempt++ {
			err := s.Write(t.Context(), sinktest.Rows(0, 500))
			if err == nil {
				break
			}
			if !errors.As(err, &retry) || attempt > 10 {
				t.Fatalf("%s: Write after the first host was lost: %v", name, err)
			}
		}
		counts := must.Get(s.Counts(t.Context()))(t)
		for table, n := range counts {
			must.Equal(t, n, 500, "%s: rows of %s", name, table)
		}
		must.Do(t, s.Close())
	}
	u := must.Get(url.Parse(freshDSN(t)))(t)
	if u.Scheme != "http" {
		t.Skip("not the embedded server")
	}
	f("http", u)
	u = must.Get(url.Parse(nativeDSN(t)))(t)
	f("native", u)
}

// cutAfter forwards a connection to host. If limit is not 0, it closes the connection after that many bytes from the client and
// calls done.
func cutAfter(client net.Conn, host string, limit *atomic.Int64, done func()) {
	defer client.Close()
	server, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	buf := make([]byte, 32<<10)
	sent := int64(0)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if l := limit.Load(); l > 0 {
			if sent += int64(n); sent > l {
				done()
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	pool := x509.NewCertPool()
	pemCA := must.Get(os.ReadFile(ca))(t)
	pool.AppendCertsFromPEM(pemCA)
	pair := must.Get(tls.LoadX509KeyPair(cert, key))(t)
	srv, u := reverseProxy(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		s.StartTLS()
	})
	u.Scheme, u.Host = "https", srv.Listener.Addr().String()
	dsn := func(options ...string) string { return u.String() + "?" + strings.Join(options, "&") }
	s := openDSN(t, dsn("ca_file="+ca, "cert_file="+cert, "key_file="+key))
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 10)))
	f := func(cfg clickhouse.Config, want string) {
		t.Helper()
		s, err := clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			s.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v, want %q", cfg.DSN, err, want)
		}
	}
	f(clickhouse.Config{DSN: dsn("cert_file="+cert, "key_file="+key)}, "certificate signed by unknown authority")
	f(clickhouse.Config{DSN: dsn("ca_file=" + ca)}, "certificate required")
	f(clickhouse.Config{DSN: dsn("ca_file="+ca, "cert_file="+cert, "key_file="+key, "tls_server_name=other")}, "wanted to match other")
	f(clickhouse.Config{DSN: dsn("ca_file=nowhere.pem")}, "read ca_file: open nowhere.pem")
	f(clickhouse.Config{DSN: dsn("ca_file=" + key)}, "contains no PEM certificate")
	f(clickhouse.Config{DSN: dsn("cert_file="+key, "key_file="+cert)}, "read cert_file and key_file")
	f(clickhouse.Config{DSN: dsn("skip_verify=true", "cert_file="+cert, "key_file="+key), AllowSkipVerify: true}, "")
}

// The native protocol works over TLS, too. The server here is not a ClickHouse: it hangs up after the hello of the client.
func TestNativeTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	pair := must.Get(tls.LoadX509KeyPair(cert, key))(t)
	ln := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}}))(t)
	defer ln.Close()
	hello := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			hello <- err.Error()
			return
		}
		defer c.Close()
		b := make([]byte, 64)
		n, _ := bufio.NewReader(c).Read(b)
		hello <- string(b[:n])
	}()
	_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: "clickhouse://u:p@" + ln.Addr().String() + "/db?secure=true&ca_file=" + ca}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		t.Fatal("Open: no error")
	}
	if got := <-hello; !strings.HasPrefix(got, "\x00") || !strings.Contains(got, "clickhouse-go") {
		t.Errorf("hello: %q, %v", got, err)
	}
}

// certificates writes a self-signed certificate for 127.0.0.1, which is CA, server and client certificate, and its key.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "llmtap test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	pkcs8 := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must.Do(t, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600),
	))
	return cert, cert, key
}
