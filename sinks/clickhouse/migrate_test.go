package clickhouse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	client "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// files returns the first n migrations, all of them for a negative n.
func files(t *testing.T, n int) fstest.MapFS {
	t.Helper()
	names := must.Get(fs.Glob(clickhouse.Schema, "schema/*.sql"))(t)
	if n < 0 {
		n = len(names)
	}
	dir := fstest.MapFS{}
	for _, name := range names[:n] {
		text := must.Get(fs.ReadFile(clickhouse.Schema, name))(t)
		dir[strings.TrimPrefix(name, "schema/")] = &fstest.MapFile{Data: text}
	}
	return dir
}

// A migration that adds a column keeps the rows; the new column has the default of its type, and the view shows it.
func TestMigrationKeepsRows(t *testing.T) {
	t.Parallel()
	s := open(t)
	for table := range clickhouse.ColumnNames() {
		columns := strings.TrimSpace(query(t, s, "SELECT arrayStringConcat(groupArray(name || ' ' || type), ', ') FROM (SELECT * FROM system.columns WHERE database = currentDatabase() AND table = {table:String} ORDER BY position)", map[string]string{"table": table}))
		must.Do(t, s.Exec(t.Context(), fmt.Sprintf("INSERT INTO %s SELECT * FROM generateRandom('%s', 1, 10, 3) LIMIT 20 SETTINGS throw_on_max_partitions_per_insert_block = 0",
			table, strings.ReplaceAll(columns, "'", "\\'"))))
		hash := func() string {
			return query(t, s, "SELECT count(), sum(cityHash64(toString(tuple("+strings.Join(clickhouse.ColumnNames()[table], ", ")+")))) FROM "+table+"_final", nil)
		}
		before := hash()
		dir := files(t, -1)
		dir["9000_"+table+".sql"] = &fstest.MapFile{Data: []byte("ALTER TABLE " + table + " ADD COLUMN IF NOT EXISTS added LowCardinality(String);\nCREATE OR REPLACE VIEW " + table + "_final AS\nSELECT * FROM " + table + " FINAL;\n")}
		must.Do(t, s.Apply(t.Context(), dir))
		must.Equal(t, hash(), before, "rows of %s, as before the migration", table)
		must.Equal(t, query(t, s, "SELECT countIf(added != '') FROM "+table+"_final", nil), "0\n", "%s_final: rows with a value in the new column", table)
		if err := s.Exec(t.Context(), "TRUNCATE TABLE migrations"); err != nil { // the next table uses the same number
			t.Fatal(err)
		}
	}
}

// openBare returns a Sink on an empty database.
func openBare(t *testing.T, dsn string) *clickhouse.Sink {
	t.Helper()
	s := openDSN(t, dsn)
	for name := range strings.FieldsSeq(query(t, s, "SELECT name FROM system.tables WHERE database = currentDatabase()", nil)) {
		must.Do(t, s.Exec(t.Context(), "DROP TABLE "+name+" SYNC"))
	}
	return s
}

// migrateEnv makes the test binary a process that opens the database of this DSN and exits.
const migrateEnv = "LLMTAP_TEST_MIGRATE"

func runMigrate() {
	dsn := os.Getenv(migrateEnv)
	if dsn == "" {
		return
	}
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	s, err := clickhouse.Open(context.Background(), cfg, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Processes that start concurrently, with an empty and with an older database, all succeed and create the same tables.
func TestProcessesMigrateConcurrently(t *testing.T) {
	t.Parallel()
	const all = "SELECT table, name, type, compression_codec, comment FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
	want := query(t, open(t), all, nil)
	for _, from := range []int{0, 4} {
		dsn := freshDSN(t)
		s := openBare(t, dsn)
		if from > 0 {
			must.Do(t, s.Apply(t.Context(), files(t, from)))
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), migrateEnv+"="+dsn)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("from %d: %v: %s", from, err, out)
				}
			})
		}
		wg.Wait()
		must.Equal(t, query(t, s, all, nil), want, "from %d: columns", from)
		must.Equal(t, query(t, s, "SELECT uniqExact(number) FROM migrations", nil), fmt.Sprintln(len(files(t, -1))), "from %d: migrations", from)
	}
}

// A release that opens the database of a newer release works and logs a warning.
func TestOpenNewerDatabase(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s := openDSN(t, dsn)
	must.Do(t, s.Exec(t.Context(), "INSERT INTO migrations VALUES (9999, '9999_next.sql', 'x', now64(3))"))
	var logs bytes.Buffer
	older := must.Get(clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn}, slog.New(slog.NewTextHandler(&logs, nil)), nil))(t)
	older.Close()
	if want := fmt.Sprintf(`level=WARN msg="database belongs to a newer release: its new columns stay empty in rows of this release; finish the update" migration=9999_next.sql newest_known=%d`, len(files(t, -1))); !strings.Contains(logs.String(), want) {
		t.Errorf("log: %s, want %s", &logs, want)
	}
}

// A replicated table rejects concurrent changes. A rejected statement is retried.
func TestAlterIsRetried(t *testing.T) {
	t.Parallel()
	busy := &client.Exception{Code: 517, Message: "not up to date"}
	other := errors.New("gone")
	f := func(errs []error, wantErr error, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ran, err := clickhouse.RunAll(t.Context(), []string{"a", "b"}, errs)
			if !errors.Is(err, wantErr) || !slices.Equal(ran, want) {
				t.Errorf("ran %q, %v, want %q, %v", ran, err, want, wantErr)
			}
		})
	}
	f([]error{nil, nil}, nil, "a", "b")
	f([]error{busy, busy, nil, busy, nil}, nil, "a", "a", "a", "b", "b")
	f([]error{busy, other}, other, "a", "a")
	f(slices.Repeat([]error{busy}, 10), busy, slices.Repeat([]string{"a"}, 10)...)
}
