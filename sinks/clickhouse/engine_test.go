package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
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
	"github.com/llmtap/llmtap/ingest/slowtest"
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
	slowtest.Waits()
	code := m.Run()
	if err := dropPool(); err != nil {
		fmt.Println("drop the databases of the tests:", err)
		code = 1
	}
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

// newDSN returns the DSN of a database that does not exist. It skips the test if there is no ClickHouse.
func newDSN(t testing.TB) string {
	t.Helper()
	engine.once.Do(startEngine)
	if engine.err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("start the embedded ClickHouse: %v", engine.err)
		}
		t.Skipf("NOT TESTED: no ClickHouse: %v", engine.err)
	}
	u := must.Get(url.Parse(engine.dsn))(t)
	u.Path = fmt.Sprintf("/llmtap_test_%d_%d", os.Getpid(), databases.Add(1))
	return u.String()
}

// freshDSN returns the DSN of a database that no other test uses. It is dropped after the test, which leaves the server of
// LLMTAP_TEST_CLICKHOUSE unchanged.
func freshDSN(t testing.TB) string {
	t.Helper()
	dsn := newDSN(t)
	t.Cleanup(func() { must.Do(t, drop(dsn), "drop", dsn) })
	return dsn
}

// forwardTo returns a handler that forwards requests to the engine at addr.
func forwardTo(addr string) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the server closes the body when the response begins. If the transport has not yet read the end of the body,
		// that is an error, and the transport closes the connection to the engine.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
}

func drop(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return clickhouse.Drop(ctx, dsn)
}

// A database is one that tests use one after another, since the schema takes a second of CPU to create.
type database struct {
	*clickhouse.Sink
	dsn    string
	schema string // see definitions
}

// pool are the databases that are not in use. They have no rows, and the schema of this release.
var pool struct {
	mu   sync.Mutex
	free []*database
}

// definitions returns the statements that would create the tables and views of d, and the number of migrations.
func (d *database) definitions(t testing.TB) string {
	t.Helper()
	return query(t, d.Sink, "SELECT arraySort(groupArray(create_table_query)), (SELECT count() FROM migrations) FROM system.tables WHERE database = currentDatabase()", nil)
}

// release deletes the rows of d and returns it to the pool, or drops it if the test has changed its schema.
func (d *database) release(t testing.TB) {
	t.Helper()
	if d.definitions(t) != d.schema {
		must.Do(t, errors.Join(d.Close(), drop(d.dsn)), "drop", d.dsn)
		return
	}
	for name := range clickhouse.ColumnNames() {
		must.Do(t, d.Exec(context.Background(), "TRUNCATE TABLE "+name))
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.free = append(pool.free, d)
}

// take returns a database from the pool, or a new one.
func take(t testing.TB) *database {
	t.Helper()
	pool.mu.Lock()
	if n := len(pool.free); n > 0 {
		d := pool.free[n-1]
		pool.free = pool.free[:n-1]
		pool.mu.Unlock()
		return d
	}
	pool.mu.Unlock()
	dsn := newDSN(t)
	d := &database{Sink: must.Get(clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn}, slog.New(slog.DiscardHandler), nil))(t), dsn: dsn}
	d.schema = d.definitions(t)
	return d
}

func dropPool() (err error) {
	for _, d := range pool.free {
		err = errors.Join(err, d.Close(), drop(d.dsn))
	}
	return err
}

// open returns a Sink on a database without rows that no other test uses at the same time.
func open(t testing.TB) *clickhouse.Sink {
	t.Helper()
	d := take(t)
	t.Cleanup(func() { d.release(t) })
	return openDSN(t, d.dsn)
}

func openDSN(t testing.TB, dsn string) *clickhouse.Sink {
	t.Helper()
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	s, err := clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	must.Do(t, err, "Open")
	t.Cleanup(func() {
		must.Do(t, s.Close(), "Close")
	})
	return s
}

// query returns the rows of sql as text with values separated by tabs and rows ending in newlines.
func query(t testing.TB, s *clickhouse.Sink, sql string, params map[string]string) string {
	t.Helper()
	res, err := s.Query(context.WithoutCancel(t.Context()), sql, params)
	must.Do(t, err, sql)
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
