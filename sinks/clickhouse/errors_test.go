package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	chgo "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

func TestFault(t *testing.T) {
	t.Parallel()
	f := func(err error, want string) {
		t.Helper()
		must.Equal(t, clickhouse.Fault(fmt.Errorf("insert: %w", err)), want, "fault of %v", err)
	}
	exception := func(code int32) error { return &chgo.Exception{Code: code, Message: "x"} }
	// Errors of the server.
	f(exception(241), "server")
	f(exception(252), "server")
	f(exception(242), "server")
	f(exception(159), "server")
	f(&chgo.HTTPError{StatusCode: 500, Err: exception(241)}, "server")
	f(clickhouse.PrepareError(exception(241)), "server")
	// Errors that require an operator.
	f(exception(16), "setup")  // NO_SUCH_COLUMN_IN_TABLE
	f(exception(60), "setup")  // UNKNOWN_TABLE
	f(exception(497), "setup") // ACCESS_DENIED
	f(exception(516), "setup") // AUTHENTICATION_FAILED
	f(&chgo.HTTPError{StatusCode: 404, Err: exception(60)}, "setup")
	f(clickhouse.PrepareError(exception(1001)), "setup")
	f(clickhouse.PrepareError(errors.New("column x is not present in the table")), "setup")
	// Errors possibly caused by the rows.
	f(exception(469), "rows") // VIOLATED_CONSTRAINT
	f(exception(53), "rows")  // TYPE_MISMATCH
	f(exception(1001), "rows")
	f(&chgo.HTTPError{StatusCode: 500, Err: exception(53)}, "rows")
	f(chgo.ErrBatchInvalid, "rows")
	f(&chgo.HTTPError{StatusCode: 413, Err: errors.New("too large")}, "rows")
	// Errors from a load balancer.
	f(&chgo.HTTPError{StatusCode: 503, Err: errors.New("response body: no healthy upstream")}, "server")
	f(&chgo.HTTPError{StatusCode: 429, Err: errors.New("slow down")}, "server")
	f(&chgo.HTTPError{StatusCode: 403, Err: errors.New("forbidden")}, "setup")
	// Errors of the network.
	f(&url.Error{Op: "Post", URL: "http://x", Err: errors.New("boom")}, "server")
	f(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "server")
	f(clickhouse.PrepareError(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "server")
	f(io.ErrUnexpectedEOF, "server")
	f(context.DeadlineExceeded, "server")
	f(chgo.ErrAcquireConnTimeout, "server")
}

// Faults are injected by a proxy between the sink and a real server.
func TestWriteThroughFaults(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	if !strings.HasPrefix(dsn, "http://") {
		t.Skip("the proxy supports only HTTP")
	}
	target := must.Get(url.Parse(dsn))(t)
	var fault atomic.Pointer[http.HandlerFunc]
	forward := forwardTo(target.Host)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := fault.Load(); h != nil && strings.HasPrefix(r.URL.Query().Get("query"), "INSERT INTO exchanges") {
			(*h)(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	proxied := *target
	proxied.Host = strings.TrimPrefix(proxy.URL, "http://")
	cfg := clickhouse.Default()
	cfg.DSN, cfg.WriteTimeout = proxied.String(), 2*time.Second
	s := must.Get(clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	defer s.Close()

	exception := func(status, code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
			w.WriteHeader(status)
			fmt.Fprintf(w, "Code: %d. DB::Exception: %s", code, text)
		}
	}
	f := func(what string, h http.HandlerFunc, retry bool) {
		t.Helper()
		fault.Store(&h)
		err := s.Write(t.Context(), sinktest.Rows(0, 100))
		fault.Store(nil)
		var later *sinks.RetryError
		if err == nil || errors.As(err, &later) != retry {
			t.Errorf("%s: %v, want an error that is a RetryError: %v", what, err, retry)
		}
	}
	f("memory limit", exception(500, 241, "Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"), true)
	f("too many parts", exception(500, 252, "Too many parts. (TOO_MANY_PARTS)"), true)
	f("type mismatch", exception(500, 53, "Type mismatch. (TYPE_MISMATCH)"), false)
	f("load balancer", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, true)
	f("connection reset", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, true)
	f("no response", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
		<-r.Context().Done()
	}, true)
	// The rows are stored, but the response is lost.
	f("response lost", func(w http.ResponseWriter, r *http.Request) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}, true)

	cfg.WriteTimeout = clickhouse.Default().WriteTimeout // as long as a busy machine needs
	patient := must.Get(clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	defer patient.Close()
	must.Do(t, patient.Write(t.Context(), sinktest.Rows(0, 100)))
	if counts := must.Get(patient.Counts(t.Context()))(t); counts["exchanges"] != 100 || counts["findings"] != 100 {
		t.Errorf("after all faults: %v", counts)
	}
}

func TestServerIsDown(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Do(t, l.Close())
	for _, scheme := range []string{"http", "clickhouse"} {
		_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: scheme + "://user:secret@" + addr + "/llmtap"}, slog.New(slog.DiscardHandler), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "connect to ClickHouse: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open %s: %v", scheme, err)
		}
	}
}

// OpenLazy does not connect. Write and Ping state why ClickHouse is not usable, and Write works once it is.
func TestOpenLazy(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(freshDSN(t))
	if err != nil || target.Scheme != "http" {
		t.Skip("the proxy supports only HTTP")
	}
	var code atomic.Int32 // exception code; 0: ClickHouse works
	code.Store(745)       // SERVER_OVERLOADED
	forward := forwardTo(target.Host)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := code.Load(); n != 0 {
			w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(n))
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "Code: %d. DB::Exception: unavailable", n)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	target.Host = strings.TrimPrefix(proxy.URL, "http://")
	cfg := clickhouse.Default()
	cfg.DSN = target.String()
	s := must.Get(clickhouse.OpenLazy(cfg, slog.New(slog.DiscardHandler), nil))(t)
	defer s.Close()
	var later *sinks.RetryError
	if err := s.Write(t.Context(), sinktest.Rows(0, 10)); !errors.As(err, &later) || later.Hint != "" {
		t.Errorf("Write while ClickHouse is overloaded: %v", err)
	}
	code.Store(516) // AUTHENTICATION_FAILED
	if err := s.Write(t.Context(), sinktest.Rows(0, 10)); !errors.As(err, &later) || later.Hint == "" {
		t.Errorf("Write while ClickHouse rejects the login: %v", err)
	}
	must.Fail(t, s.Ping(t.Context()), "516", "Ping while ClickHouse rejects the login")
	code.Store(0)
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 10)))
	must.Equal(t, must.Get(s.Counts(t.Context()))(t)["exchanges"], 10, "Counts once ClickHouse is back")
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	f := func(cfg clickhouse.Config, want string) {
		t.Helper()
		got := ""
		if err := cfg.Validate(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") || strings.Contains(got, "secret") {
			t.Errorf("Validate(%q): %q, want %q", cfg.DSN, got, want)
		}
	}
	f(clickhouse.Config{DSN: "clickhouse://user:secret@host:9000/llmtap?dial_timeout=5s"}, "")
	f(clickhouse.Config{DSN: "http://host:8123/llmtap"}, "")
	f(clickhouse.Config{DSN: "https://user:secret@host:8443/llmtap?secure=true"}, "")
	f(clickhouse.Config{}, "dsn: is empty; examples are http://")
	f(clickhouse.Config{DSN: "clickhouse://user:sec ret@host:port/"}, "dsn: parse: ")
	f(clickhouse.Config{DSN: "clickhouse://user:%zzsecret@host/"}, "dsn: parse: ")
	f(clickhouse.Config{DSN: "host:8123"}, "dsn: has no scheme: ")
	f(clickhouse.Config{DSN: "ftp://user:secret@host/"}, "dsn: scheme is \"ftp\"")
	f(clickhouse.Config{DSN: "http://h/", WriteTimeout: -1}, "write_timeout: -1ns is below 0")
	f(clickhouse.Config{DSN: "http://h/", Retention: time.Minute}, "retention: 1m0s is below 1h")
}
