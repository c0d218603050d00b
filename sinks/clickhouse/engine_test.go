package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/chdb/chdbtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// engine is the ClickHouse shared by the tests of this package: LLMTAP_TEST_CLICKHOUSE, or an embedded one started by the
// first test that needs it.
var engine struct {
	once   sync.Once
	dsn    string
	err    error
	dir    string
	server *chdb.Server
}

func TestMain(m *testing.M) {
	chdb.RunChild()
	chdbtest.RunChild()
	runMigrate()
	code := m.Run()
	if engine.server != nil {
		if err := errors.Join(engine.server.Close(context.Background()), os.RemoveAll(engine.dir)); err != nil {
			fmt.Println("stop the embedded ClickHouse:", err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func startEngine() {
	if engine.dsn = os.Getenv("LLMTAP_TEST_CLICKHOUSE"); engine.dsn != "" {
		return
	}
	if engine.dir, engine.err = os.MkdirTemp("", "llmtap-clickhouse-test-"); engine.err != nil {
		return
	}
	cfg := chdb.Default()
	cfg.Dir = filepath.Join(engine.dir, "data")
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if engine.server, engine.err = chdb.Start(context.Background(), cfg); engine.err == nil {
		engine.dsn = engine.server.DSN()
	}
}

var databases atomic.Int64

// freshDSN returns the DSN of a database that no other test uses. It is dropped after the test, which leaves the server of
// LLMTAP_TEST_CLICKHOUSE unchanged.
func freshDSN(t testing.TB) string {
	t.Helper()
	engine.once.Do(startEngine)
	if engine.err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("start the embedded ClickHouse: %v", engine.err)
		}
		t.Skipf("NOT TESTED: no ClickHouse: %v", engine.err)
	}
	name := fmt.Sprintf("llmtap_test_%d_%d", os.Getpid(), databases.Add(1))
	u := must.Get(url.Parse(engine.dsn))(t)
	u.Path = "/" + name
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := clickhouse.Drop(ctx, u.String()); err != nil {
			t.Errorf("drop %s: %v", name, err)
		}
	})
	return u.String()
}

// open returns a Sink on a fresh database.
func open(t testing.TB) *clickhouse.Sink {
	t.Helper()
	return openDSN(t, freshDSN(t))
}

func openDSN(t testing.TB, dsn string) *clickhouse.Sink {
	t.Helper()
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	s, err := clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// query returns the rows of sql as text with values separated by tabs and rows ending in newlines.
func query(t testing.TB, s *clickhouse.Sink, sql string, params map[string]string) string {
	t.Helper()
	res, err := s.Query(t.Context(), sql, params)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text(res)
}

func text(res *clickhouse.Result) string {
	var b strings.Builder
	for _, row := range res.Rows {
		for i, v := range row {
			if i > 0 {
				b.WriteByte('\t')
			}
			fmt.Fprint(&b, v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
