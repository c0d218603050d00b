package clickhouse_test

import (
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.MkdirAll("testdata", 0o755))
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	must.Agree(t, cmp.Diff(string(want), got), path, "(-update writes it)")
}

// The golden file contains the tables as the embedded engine prints them; other versions may print them differently.
func TestSchemaGolden(t *testing.T) {
	t.Parallel()
	s := open(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	res := must.Get(s.Query(t.Context(), "SELECT create_table_query, currentDatabase() FROM system.tables WHERE database = currentDatabase() ORDER BY name", nil))(t)
	var b strings.Builder
	for _, row := range res.Rows {
		ddl := strings.ReplaceAll(row[0].(string), row[1].(string)+".", "")
		ddl = regexp.MustCompile("(, )(`|INDEX )").ReplaceAllString(ddl, ",\n    $2")
		ddl = strings.Replace(ddl, " (`", "\n(\n    `", 1)
		ddl = regexp.MustCompile(` (ENGINE|PARTITION BY|ORDER BY|SETTINGS|AS SELECT) `).ReplaceAllString(ddl, "\n$1 ")
		b.WriteString(ddl + ";\n\n")
	}
	golden(t, "schema.sql", b.String())
}

func TestColumnsMatchSchema(t *testing.T) {
	t.Parallel()
	s := open(t)
	for table, got := range clickhouse.ColumnNames() {
		want := strings.Fields(query(t, s, "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String} ORDER BY name",
			map[string]string{"table": table}))
		slices.Sort(got)
		must.Agree(t, cmp.Diff(want, got), "columns of", table, "(-schema +columns.go)")
	}
}

func TestMigrationFiles(t *testing.T) {
	t.Parallel()
	files := must.Get(fs.Glob(clickhouse.Schema, "schema/*"))(t)
	for i, f := range files {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(f, want) || !strings.HasSuffix(f, ".sql") {
			t.Errorf("%s: name does not follow %sNAME.sql", f, want)
		}
		text := must.Get(fs.ReadFile(clickhouse.Schema, f))(t)
		if !strings.HasPrefix(string(text), "-- ") {
			t.Errorf("%s: does not begin with a comment that describes a row", f)
		}
		for _, stmt := range clickhouse.Statements(string(text)) {
			if !strings.Contains(stmt, " IF NOT EXISTS ") && !strings.HasPrefix(stmt, "CREATE OR REPLACE VIEW ") && !strings.Contains(stmt, " IF EXISTS ") {
				t.Errorf("%s: statement is not idempotent: %.80s", f, stmt)
			}
		}
	}
}

// No key contains a column that a second write may change: even without FINAL, a merged table has one row per id.
func TestKeysAreConstant(t *testing.T) {
	t.Parallel()
	s := open(t)
	const n = 50
	for _, b := range []func() error{
		func() error { return s.Write(t.Context(), sinktest.Rows(0, n)) },
		func() error { return s.Write(t.Context(), sinktest.Later(sinktest.Rows(0, n))) },
		func() error { return s.Write(t.Context(), sinktest.Rows(0, n)) },
	} {
		must.Do(t, b())
	}
	f := func(table, newest string) {
		t.Helper()
		must.Equal(t, query(t, s, "SELECT count(), countIf("+newest+") FROM "+table+"_final", nil), "50\t50\n", "%s_final: rows, newest rows", table)
		must.Do(t, s.Exec(t.Context(), "OPTIMIZE TABLE "+table+" FINAL"))
		must.Equal(t, query(t, s, "SELECT count(), countIf("+newest+") FROM "+table, nil), "50\t50\n", "%s after merging: rows, newest rows", table)
	}
	f("exchanges", "status = 200 AND stage = 'executor'")
	f("findings", "severity = 'lenient' AND service = 'executor-api'")
	f("tool_calls", "state = 'answered' AND answered_at IS NOT NULL")
	f("runs", "status = 'ok' AND service_version = '2.0.0' AND ended_at IS NOT NULL")
	f("alerts", "state = 'resolved' AND ended_at IS NOT NULL")
}

// Indexes are used through the _final views.
func TestIndexesAreUsed(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 100)))
	f := func(table, where, index string) {
		t.Helper()
		plan := query(t, s, "EXPLAIN indexes = 1 SELECT count() FROM "+table+"_final WHERE "+where, nil)
		must.Contain(t, plan, index, table, "WHERE", where)
	}
	f("exchanges", "started_at > now() - 60", "Partition")
	f("exchanges", "started_at > now() - 60", "toStartOfHour(started_at)")
	f("exchanges", "exchange_id = 'x'", "exchange_id_index")
	f("exchanges", "conversation_id = 'x'", "conversation_id_index")
	f("findings", "conversation_id = 'x'", "PrimaryKey")
	f("findings", "exchange_id = 'x'", "exchange_id_index")
	f("findings", "tool_call_id = 'x'", "tool_call_id_index")
	f("tool_calls", "tool_call_id = 'x'", "tool_call_id_index")
	f("tool_calls", "asked_at > now() - 60", "Partition")
	f("tool_calls", "asked_at > now() - 60", "toStartOfHour(asked_at)")
	f("runs", "id = 'x'", "PrimaryKey")
	f("runs", "run_id = 'x'", "run_id_index")
	f("runs", "seen_at > now() - 60", "seen_at_index")
}

func TestOpenConcurrently(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn}, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := s.Write(t.Context(), sinktest.Rows(0, 10)); err != nil {
				t.Errorf("Write: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	s := openDSN(t, dsn)
	if got := query(t, s, "SELECT number, name FROM migrations FINAL ORDER BY number", nil); !strings.HasPrefix(got, "1\t0001_exchanges.sql\n2\t0002_findings.sql\n") {
		t.Errorf("migrations:\n%s", got)
	}
	must.Equal(t, query(t, s, "SELECT count() FROM exchanges_final", nil), "10\n", "exchanges")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := files(t, -1)
	next := fmt.Sprintf("%04d_next.sql", len(dir)+1)
	f := func(text, want string) {
		t.Helper()
		dir[next] = &fstest.MapFile{Data: []byte(text)}
		err := s.Apply(t.Context(), dir)
		switch {
		case want == "" && err != nil:
			t.Errorf("Apply: %v", err)
		case want != "" && (err == nil || !regexp.MustCompile(want).MatchString(err.Error())):
			t.Errorf("Apply: %v, want %s", err, want)
		}
	}
	// A migration that fails half-way is run again from the start.
	f("CREATE TABLE IF NOT EXISTS next (n UInt8) ENGINE = Memory;\nnonsense;\n", "run statement 2 of migration "+next+": .*nonsense")
	f("CREATE TABLE IF NOT EXISTS next (n UInt8) ENGINE = Memory;\n", "")
	f("CREATE TABLE IF NOT EXISTS next (n UInt8) ENGINE = Memory;\n", "")
	f("CREATE TABLE IF NOT EXISTS next (n UInt16) ENGINE = Memory;\n",
		"^migration "+next+" was changed after it was applied as "+next+` \(SHA-256 [0-9a-f]{12}, now [0-9a-f]{12}\): restore the file, or use an empty database$`)
	// An older release works with the database of a newer one.
	delete(dir, next)
	must.Do(t, s.Apply(t.Context(), dir), "Apply of an older release")
}

func TestRetention(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	ttl := func(s *clickhouse.Sink) string {
		return query(t, s, "SELECT extract(engine_full, 'TTL .*Second\\\\(\\\\d+\\\\)') FROM system.tables WHERE database = currentDatabase() AND name IN ('alerts', 'exchanges', 'findings', 'tool_calls') ORDER BY name", nil)
	}
	openWith := func(d time.Duration) *clickhouse.Sink {
		t.Helper()
		cfg := clickhouse.Default()
		cfg.DSN, cfg.Retention = dsn, d
		s := must.Get(clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	must.Equal(t, ttl(openWith(0)), "\n\n\n\n", "TTL by default")
	day := "TTL toDateTime(started_at) + toIntervalSecond(86400)\nTTL toDateTime(stored_at) + toIntervalSecond(86400)\n" +
		"TTL toDateTime(stored_at) + toIntervalSecond(86400)\nTTL toDateTime(stored_at) + toIntervalSecond(86400)\n"
	s := openWith(24 * time.Hour)
	must.Equal(t, ttl(s), day, "TTL of a day")
	// Rows that were stored long ago are deleted, new ones are kept, whatever the times of the traffic: it may be imported.
	b, ago, now := sinktest.Rows(0, 2), time.Now().Add(-48*time.Hour), time.Now()
	b.Exchanges[0].StoredAt, b.Exchanges[1].StoredAt = ago, now
	b.Findings[0].StoredAt, b.Findings[1].StoredAt = ago, now
	b.ToolCalls[0].StoredAt, b.ToolCalls[1].StoredAt = ago, now
	must.Do(t, s.Write(t.Context(), b))
	for _, table := range []string{"exchanges", "findings", "tool_calls"} {
		must.Do(t, s.Exec(t.Context(), "OPTIMIZE TABLE "+table+" FINAL"))
		must.Equal(t, query(t, s, "SELECT exchange_id FROM "+table+"_final", nil), b.Exchanges[1].ID+"\n", "%s after the retention", table)
	}
	must.Equal(t, ttl(openWith(0)), day, "TTL with retention 0 afterwards")
	must.Equal(t, ttl(openWith(48*time.Hour)), strings.ReplaceAll(day, "86400", "172800"), "TTL of two days")
}
