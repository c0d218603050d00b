package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestEnsureIsIdempotent(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publish(t, ctx, c, 1, 4)
	kv := must.Get(c.KV(ctx, event.BucketLedger))(t)
	must.Do(t, kv.Put(ctx, "k", []byte("v")))
	limits := func() natsjs.StreamConfig {
		t.Helper()
		s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
		must.Equal(t, s.CachedInfo().State.Msgs, 3, "messages")
		return s.CachedInfo().Config
	}
	if cfg := limits(); cfg.MaxAge != 24*time.Hour || cfg.MaxBytes != -1 || cfg.Duplicates != 10*time.Second || cfg.Storage != natsjs.FileStorage {
		t.Errorf("limits %+v", cfg)
	}
	c.cfg.MaxAge, c.cfg.MaxBytes, c.cfg.Compress = time.Hour, 64<<20, true
	for range 2 {
		must.Do(t, c.Ensure(ctx))
		if cfg := limits(); cfg.MaxAge != time.Hour || cfg.MaxBytes != 64<<20 || cfg.Compression != natsjs.S2Compression {
			t.Errorf("limits %+v", cfg)
		}
	}

	// Settings added by an operator are kept.
	cfg := limits()
	cfg.Subjects, cfg.Description, cfg.MaxMsgSize = append(cfg.Subjects, "mine.>"), "mine", 1<<20
	must.Get(c.js.UpdateStream(ctx, cfg))(t)
	c.cfg.MaxAge, c.cfg.Compress = 2*time.Hour, false
	must.Do(t, c.Ensure(ctx))
	if cfg := limits(); cfg.MaxAge != 2*time.Hour || !slices.Contains(cfg.Subjects, "mine.>") || cfg.MaxMsgSize != 1<<20 || cfg.Compression != natsjs.S2Compression {
		t.Errorf("after a change by an operator: %+v", cfg)
	}
	if v, _, err := kv.Get(ctx, "k"); err != nil || string(v) != "v" {
		t.Errorf("ledger: %q, %v", v, err)
	}
}

func TestKV(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	kv := must.Get(c.KV(ctx, event.BucketAlerts))(t)
	keys := func() (n int) {
		t.Helper()
		must.Do(t, kv.Each(ctx, func(string, []byte, uint64) error { n++; return nil }))
		return n
	}
	must.Equal(t, keys(), 0, "keys in an empty bucket")
	_, _, err := kv.Get(ctx, "a")
	must.Is(t, err, ErrKeyNotFound, "get")
	rev := must.Get(kv.Update(ctx, "a", []byte("1"), 0))(t)
	must.Is(t, must.Err(kv.Update(ctx, "a", []byte("2"), 0)), ErrKeyConflict, "create twice")
	must.Get(kv.Update(ctx, "a", []byte("2"), rev))(t)
	must.Is(t, must.Err(kv.Update(ctx, "a", []byte("3"), rev)), ErrKeyConflict, "update an old revision")
	must.Do(t, kv.Put(ctx, "b", []byte("x")))
	must.Equal(t, keys(), 2, "keys")
	if v, _, err := kv.Get(ctx, "a"); err != nil || string(v) != "2" {
		t.Errorf("got %q, %v", v, err)
	}
	must.Do(t, kv.kv.Delete(ctx, "a"))
	_, _, err = kv.Get(ctx, "a")
	must.Is(t, err, ErrKeyNotFound, "get a deleted key")
	must.Do(t, must.Err(kv.Update(ctx, "a", []byte("4"), 0)), "create a deleted key")
	must.Fail(t, must.Err(c.KV(ctx, "no_such_bucket")), "", "opened a missing bucket")
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	p := c.NewPublisher(2)
	p.alone = true
	for range 2 { // the second round publishes duplicates
		for i := range 10 {
			must.Do(t, p.Publish(ctx, testEvent(i, 10)))
		}
		must.Do(t, p.Flush(ctx))
	}
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	if n := s.CachedInfo().State.Msgs; n != 10 || p.Acked() != 20 || p.Failed() != 0 {
		t.Errorf("%d stored, %d acked, %d failed", n, p.Acked(), p.Failed())
	}

	// An event too large for the connection fails immediately and does not stop the publisher.
	must.Is(t, p.Publish(ctx, testEvent(10, 9<<20)), nats.ErrMaxPayload, "an event over max_payload")
	// An event too large for the stream fails at its acknowledgement.
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = 10_000
	must.Get(c.js.UpdateStream(ctx, cfg))(t)
	for _, size := range []int{20_000, 30_000, 10} {
		must.Do(t, p.Publish(ctx, testEvent(20+size, size)))
	}
	must.Fail(t, p.Flush(ctx), "exceeds maximum", "flush after a rejection")
	must.Do(t, p.Flush(ctx), "rejection reported twice")
	if p.Acked() != 21 || p.Failed() != 3 {
		t.Errorf("%d acked, %d failed", p.Acked(), p.Failed())
	}
	must.Equal(t, testutil.ToFloat64(c.m.dropped.WithLabelValues(reasonPublishFailed)), 3, "events counted as dropped")
}

func TestConnectRetries(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	cfg := Default()
	cfg.URL = n.s.URL()
	n.s.Shutdown()
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Connect(short, cfg, nil, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), cfg.URL) {
		t.Errorf("connect without a server: %v", err)
	}
	connected := make(chan error, 1)
	go func() {
		c, err := Connect(context.Background(), cfg, nil, nil)
		if err == nil {
			err = c.Healthy()
			c.Close()
		}
		connected <- err
	}()
	n.start()
	must.Do(t, <-connected)
}

func TestConnectWithToken(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	n.s.Shutdown()
	n.cfg.Token = "secret"
	n.start()
	cfg := Default()
	cfg.URL = n.s.URL()
	must.Is(t, must.Err(Connect(t.Context(), cfg, nil, nil)), nats.ErrAuthorization, "connect without a token")
	cfg.TokenFile = filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(cfg.TokenFile, []byte("secret\n"), 0o600))
	c := must.Get(Connect(t.Context(), cfg, nil, nil))(t)
	c.Close()
}

func TestValidate(t *testing.T) {
	t.Parallel()
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := Default()
		change(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("", func(*Config) {})
	f("", func(c *Config) { c.URL = "nats://a:4222, tls://b:4222" })
	f("url: ", func(c *Config) { c.URL = "" })
	f("url: ", func(c *Config) { c.URL = "localhost" })
	f("user, token", func(c *Config) { c.User, c.CredsFile = "u", "f" })
	f("password: ", func(c *Config) { c.Password = "p" })
	f("password, password_file: ", func(c *Config) { c.User, c.Password, c.PasswordFile = "u", "p", "f" })
	f("cert_file, key_file: ", func(c *Config) { c.CertFile = "f" })
	f("max_age: ", func(c *Config) { c.MaxAge = time.Second })
	f("max_bytes: ", func(c *Config) { c.MaxBytes = -1 })
	f("replicas: ", func(c *Config) { c.Replicas = 0 })

	c := Default()
	c.URL = "nats://u:hunter2@host"
	if _, err := Connect(canceled(), c, nil, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error contains the password: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestTransient(t *testing.T) {
	t.Parallel()
	f := func(err error, want bool) {
		t.Helper()
		must.Equal(t, IsTransient(fmt.Errorf("publish: %w", err)), want, "%v: transient", err)
	}
	f(nats.ErrTimeout, true)
	f(nats.ErrDisconnected, true)
	f(natsjs.ErrAsyncPublishTimeout, true)
	f(&natsjs.APIError{Code: 503, Description: "JetStream system temporarily unavailable"}, true)
	f(&net.OpError{Op: "write", Err: syscall.ECONNRESET}, true) // seen in one of 200 restarts under bodies of 20 KB
	f(&net.OpError{Op: "write", Err: net.ErrClosed}, true)
	f(nats.ErrMaxPayload, false)
	f(nats.ErrConnectionClosed, false)
	f(natsjs.ErrStreamMessageExceedsMaximum, false)
	f(context.Canceled, false)
	f(ErrKeyConflict, false)
	f(&LeaseHeldError{}, false)
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	newMetrics(reg).dropped.WithLabelValues(reasonLost).Inc()
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Open does not wait for NATS or for a valid login. Requests wait, and Healthy states the reason.
func TestOpen(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	cfg := Default()
	cfg.URL = n.s.URL()
	n.s.Shutdown()
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	defer log.Close()
	c := must.Get(Open(cfg, slog.New(slog.NewTextHandler(log, nil)), nil))(t)
	defer c.Close()
	expect := func(want string) {
		t.Helper()
		var err error
		must.Wait(t, want, func() bool {
			err = c.Healthy()
			return err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
		}, func() any { return err })
	}
	expect("NATS at " + cfg.URL + " is unreachable: ")
	expect("connection refused")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created := make(chan error, 1)
	go func() {
		if err := c.WaitConnected(ctx); err != nil {
			created <- err
			return
		}
		created <- c.Ensure(ctx)
	}()
	n.cfg.Token = "secret"
	n.start()
	expect("rejects the login: nats: Authorization Violation; set nats.user")
	n.s.Shutdown()
	n.cfg.Token = ""
	n.start()
	must.Do(t, <-created)
	expect("")
	// A login that is rejected later does not close the connection either.
	n.cfg.Token = "secret"
	n.restart()
	expect("rejects the login")
	n.cfg.Token = ""
	n.restart()
	expect("")
	// nats.go reports a connection after it is made.
	logged := ""
	must.Wait(t, "the refused login and the connection are logged", func() bool {
		logged = string(must.Get(os.ReadFile(log.Name()))(t))
		return strings.Contains(logged, "NATS rejects the login, retrying") && strings.Contains(logged, "connected to NATS")
	}, func() any { return logged })
}
