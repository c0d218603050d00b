package chdb

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) {
	if library := os.Getenv(standInEnv); library != "" {
		if err := standIn(library); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	RunChild()
	if dir := os.Getenv(parentEnv); dir != "" {
		parentMain(dir)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Println(err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// needLibrary installs the library or skips the test; in CI a missing library is an error.
func needLibrary(t testing.TB) {
	t.Helper()
	_, err := FindLibrary(t.Context(), LibraryConfig{Progress: func(line string) { t.Log(line) }})
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skipf("NOT TESTED: the embedded ClickHouse: %v", err)
	}
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
	dir    string
}

// server returns the server shared by all tests that do not stop it.
func server(t testing.TB) *Server {
	t.Helper()
	needLibrary(t)
	shared.once.Do(func() {
		//nolint:usetesting // it outlives the first test
		if shared.dir, shared.err = os.MkdirTemp("", "llmtap-chdb-test-"); shared.err != nil {
			return
		}
		cfg := Default()
		cfg.Dir = filepath.Join(shared.dir, "db & <more>") // the configuration is XML
		cfg.Logger = testLogger()
		shared.server, shared.err = Start(context.Background(), cfg)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func stopShared() error {
	defer os.RemoveAll(shared.dir)
	if shared.server == nil {
		return nil
	}
	start := time.Now()
	if err := shared.server.Close(context.Background()); err != nil {
		return err
	}
	if d := time.Since(start); d > childGrace {
		return fmt.Errorf("the server took %s to stop", d)
	}
	return nil
}

func testLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// start runs a separate server in dir.
func start(t testing.TB, dir string) *Server {
	t.Helper()
	needLibrary(t)
	cfg := Default()
	cfg.Dir = dir
	cfg.Logger = testLogger()
	s := must.Get(Start(t.Context(), cfg))(t)
	t.Cleanup(func() {
		must.Do(t, s.Close(context.Background()))
	})
	return s
}

// open connects clickhouse-go to s.
func open(t testing.TB, s *Server, change ...func(*clickhouse.Options)) driver.Conn {
	t.Helper()
	opt := must.Get(clickhouse.ParseDSN(s.DSN()))(t)
	for _, c := range change {
		c(opt)
	}
	conn := must.Get(clickhouse.Open(opt))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}
