// Package collectortest runs collectors in tests, and reads what they stored.
package collectortest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// NeedClickHouse downloads the embedded engine. If it is unavailable, the test fails on CI and is skipped elsewhere.
func NeedClickHouse(t *testing.T) {
	t.Helper()
	_, err := chdb.FindLibrary(t.Context(), chdb.LibraryConfig{Progress: func(s string) { t.Log(s) }})
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skipf("SKIPPED, this test requires ClickHouse: %v", err)
	}
}

// SlowDownload gives the test an empty cache, and an npm that downloads ClickHouse until fail is called, after which it cannot. Once
// end is called, there is a ClickHouse.
func SlowDownload(t *testing.T) (fail, end func()) {
	t.Helper()
	NeedClickHouse(t)
	library := must.Get(chdb.FindLibrary(t.Context(), chdb.LibraryConfig{}))(t)
	dir := t.TempDir()
	ended := filepath.Join(dir, "ended")
	npm := "#!/bin/sh\nPATH=/bin:/usr/bin; while [ ! -e '" + ended + "' ]; do sleep 0.1; done; echo registry unreachable >&2; exit 1\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700))
	for name, value := range map[string]string{"PATH": dir, "HOME": dir, "XDG_CACHE_HOME": "", "LLMTAP_LIBCHDB": ""} {
		t.Setenv(name, value)
	}
	if found, err := chdb.PresentLibrary(chdb.LibraryConfig{}); found != "" || err != nil {
		t.Skipf("SKIPPED, npm has no ClickHouse for this machine: %s %v", found, err)
	}
	fail = func() { must.Do(t, os.WriteFile(ended, nil, 0o600)) }
	return fail, func() {
		t.Setenv("LLMTAP_LIBCHDB", library)
		fail()
	}
}

// StartNATS runs an embedded NATS server until the test ends, and returns its URL. Clients need the token unless it is
// empty.
func StartNATS(t testing.TB, token string) string {
	t.Helper()
	cfg := natsserver.Default()
	cfg.AllowAll = true
	cfg.Dir, cfg.Port, cfg.Token, cfg.Logger = filepath.Join(t.TempDir(), "nats"), -1, token, slog.New(slog.DiscardHandler)
	srv := must.Get(natsserver.Start(t.Context(), cfg))(t)
	t.Cleanup(srv.Shutdown)
	return srv.URL()
}

// StartClickHouse runs an embedded ClickHouse until the test ends.
func StartClickHouse(t testing.TB) *chdb.Server {
	t.Helper()
	cfg := chdb.Default()
	cfg.Dir, cfg.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
	srv := must.Get(chdb.Start(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = srv.Close(t.Context()) }) // its context has ended: it is killed
	return srv
}

// OpenClickHouse runs an embedded ClickHouse with all tables until the test ends.
func OpenClickHouse(t testing.TB) *clickhouse.Sink {
	t.Helper()
	cfg := clickhouse.Default()
	cfg.DSN = StartClickHouse(t).DSN()
	sink := must.Get(clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// ConnectNATS connects to a NATS server and creates the streams. The connection is closed when the test ends.
func ConnectNATS(t testing.TB, url string, reg prometheus.Registerer) *jetstream.Conn {
	t.Helper()
	cfg := jetstream.Default()
	cfg.URL, cfg.Token = url, CollectorToken // a token in url overrides it
	conn := must.Get(jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), reg))(t)
	t.Cleanup(conn.Close)
	must.Do(t, conn.Ensure(t.Context()))
	return conn
}

// CollectorToken is the token with which tests may do everything on the embedded NATS of a Config.
const CollectorToken = "token-of-the-test"

// Config returns the default configuration with free ports and a temporary data directory, modified by change.
func Config(t *testing.T, change func(*config.Config)) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.Listen, cfg.UI.Listen, cfg.NATSServer.Port = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", -1
	cfg.NATSServer.CollectorToken = CollectorToken
	cfg.Proxy.Listen, cfg.Receive.Listen, cfg.Receive.GRPCListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	change(&cfg)
	must.Do(t, cfg.Validate())
	return cfg
}

// A Collector is implemented by *collector.Collector.
type Collector interface {
	Run(ctx context.Context) error
	WaitReady(ctx context.Context) error
	Close()
}

// RunReady runs c until the test ends, and waits until it is ready.
func RunReady(t *testing.T, c Collector) {
	t.Helper()
	Run(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must.Do(t, c.WaitReady(ctx))
}

// Run runs c until the test ends.
func Run(t *testing.T, c Collector) {
	t.Helper()
	t.Cleanup(c.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must.Do(t, <-stopped)
	})
}

// RunAgents runs a few agents and waits until sink has their exchanges.
func RunAgents(t *testing.T, natsURL string, sink *clickhouse.Sink) {
	t.Helper()
	p := httptest.NewServer(provider.New(provider.Config{}))
	defer p.Close()
	report, err := agents.Run(t.Context(), agents.Config{ProviderURL: p.URL, NATSURL: natsURL, Tasks: 10})
	if err != nil || report.Exchanges == 0 {
		t.Fatalf("run the agents: %+v, %v", report, err)
	}
	var counts map[string]uint64
	must.Wait(t, fmt.Sprint(report.Published, " calls are stored"), func() bool {
		counts, err = sink.Counts(t.Context())
		return err == nil && counts["exchanges"] >= report.Published
	}, func() any { return fmt.Sprint(counts, err) })
}

// WithProvider configures the proxy of cfg to listen on a free port, record full bodies and forward calls to a strict
// provider named openai.
func WithProvider(t *testing.T, cfg *config.Config) {
	t.Helper()
	p := httptest.NewServer(provider.New(provider.Config{}))
	t.Cleanup(p.Close)
	cfg.Proxy.Listen, cfg.Proxy.Capture = fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t)), event.CaptureFull
	cfg.Proxy.Upstreams = map[string]string{"openai": strings.TrimSuffix(p.URL+provider.OpenAIPath, "/v1")}
}

// CallProxy makes two calls through the proxy at addr, as stage planner of service checkout: one that the provider accepts,
// and one with an orphan tool reply.
func CallProxy(t *testing.T, addr string) {
	t.Helper()
	ask := func(history string) int {
		body := `{"model":"gpt-4.1","messages":[` + history + `]}`
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/openai/v1/chat/completions", strings.NewReader(body)))(t)
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Llmtap-Service": {"checkout"}, "X-Llmtap-Stage": {"planner"}}
		resp, err := http.DefaultClient.Do(req)
		must.Do(t, err)
		defer resp.Body.Close()
		must.Get(io.Copy(io.Discard, resp.Body))(t)
		return resp.StatusCode
	}
	user := `{"role":"user","content":"read config.py"}`
	orphan := user + `,{"role":"assistant","content":"I will."},{"role":"tool","content":"PORT=80","tool_call_id":"call_1"}`
	if accepted, rejected := ask(user), ask(orphan); accepted != http.StatusOK || rejected != http.StatusBadRequest {
		t.Fatalf("statuses %d and %d", accepted, rejected)
	}
}

// Groups returns the result of sql, which selects names and counts.
func Groups(t *testing.T, sink *clickhouse.Sink, sql string) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res := must.Get(sink.Query(ctx, sql, nil))(t)
	m := map[string]uint64{}
	for _, row := range res.Rows {
		m[row[0].(string)] = row[1].(uint64)
	}
	return m
}

// ReplayStream calls fn with every message that is currently in a stream.
func ReplayStream(ctx context.Context, js natsjs.JetStream, name string, fn func(natsjs.Msg, *natsjs.MsgMetadata) error) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", name, err)
	}
	last := stream.CachedInfo().State.LastSeq
	if last == 0 {
		return nil
	}
	consumer, err := js.OrderedConsumer(ctx, name, natsjs.OrderedConsumerConfig{DeliverPolicy: natsjs.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", name, err)
	}
	it, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read stream %s: %w", name, err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(natsjs.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		if err := fn(m, meta); err != nil {
			return fmt.Errorf("message %d of %s: %w", meta.Sequence.Stream, name, err)
		}
		if meta.Sequence.Stream >= last {
			return nil
		}
	}
}
