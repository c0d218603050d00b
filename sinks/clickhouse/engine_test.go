package clickhouse_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// server is the DSN of the ClickHouse that the tests of this package share, without a database; each test has one of its
// own. Empty when there is none; why says the reason.
var server, why string

func TestMain(m *testing.M) {
	server = os.Getenv("LLMTAP_TEST_CLICKHOUSE")
	why = "no server"
	os.Exit(m.Run())
}

var databases atomic.Int64

// freshDSN returns the DSN of a database that no other test uses. It is dropped after the test, so that a server given
// by LLMTAP_TEST_CLICKHOUSE stays as it was.
func freshDSN(t testing.TB) string {
	t.Helper()
	if server == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no ClickHouse to test against: %s", why)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no ClickHouse: %s", why)
	}
	name := fmt.Sprintf("llmtap_test_%d_%d", os.Getpid(), databases.Add(1))
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
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

// query returns the rows of sql as text: values parted by tabs, rows by newlines.
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
