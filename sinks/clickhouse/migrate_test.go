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

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// files returns the first n migrations, all for a negative n.
func files(t *testing.T, n int) fstest.MapFS {
	t.Helper()
	names, err := fs.Glob(clickhouse.Schema, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if n < 0 {
		n = len(names)
	}
	dir := fstest.MapFS{}
	for _, name := range names[:n] {
		text, err := fs.ReadFile(clickhouse.Schema, name)
		if err != nil {
			t.Fatal(err)
		}
		dir[strings.TrimPrefix(name, "schema/")] = &fstest.MapFile{Data: text}
	}
	return dir
}

// At every step a database holds rows. After it they are all there and the same, in the columns that they had; columns
// that are new have their type's default in them; the view shows what the table has.
func TestMigrationsKeepRows(t *testing.T) {
	const columns = "SELECT arrayStringConcat(groupArray(name || ' ' || type), ', '), arrayStringConcat(groupArray(name), ', ') FROM (SELECT * FROM system.columns WHERE database = currentDatabase() AND table = {table:String} ORDER BY position)"
	s := openBare(t, freshDSN(t))
	tables := func() []string {
		return strings.Fields(query(t, s, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'ReplacingMergeTree' AND name != 'migrations' ORDER BY name", nil))
	}
	type content struct{ names, hash string }
	for n := 1; n <= len(files(t, -1)); n++ {
		before := map[string]content{}
		for _, table := range tables() {
			cs := strings.Split(strings.TrimSpace(query(t, s, columns, map[string]string{"table": table})), "\t")
			if err := s.Exec(t.Context(), fmt.Sprintf("INSERT INTO %s SELECT * FROM generateRandom('%s', %d, 10, 3) LIMIT 20 SETTINGS throw_on_max_partitions_per_insert_block = 0",
				table, strings.ReplaceAll(cs[0], "'", "\\'"), n)); err != nil {
				t.Fatal(err)
			}
			before[table] = content{cs[1], hash(t, s, table, cs[1])}
		}
		if err := s.Apply(t.Context(), files(t, n)); err != nil {
			t.Fatal(err)
		}
		for table, old := range before {
			if got := hash(t, s, table, old.names); got != old.hash {
				t.Errorf("migration %d: rows of %s: %s, were %s", n, table, got, old.hash)
			}
			fresh := query(t, s, "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String} AND NOT has(splitByString(', ', {old:String}), name)",
				map[string]string{"table": table, "old": old.names})
			for line := range strings.Lines(fresh) {
				name, kind, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if got := query(t, s, fmt.Sprintf("SELECT count() FROM %s_final WHERE %s IS DISTINCT FROM defaultValueOfTypeName('%s')", table, name, strings.ReplaceAll(kind, "'", "\\'")), nil); got != "0\n" {
					t.Errorf("migration %d: %s.%s of old rows is no default in %s", n, table, name, got)
				}
			}
		}
		for _, table := range tables() {
			want := query(t, s, columns, map[string]string{"table": table})
			if got := query(t, s, columns, map[string]string{"table": table + "_final"}); got != want {
				t.Errorf("migration %d: %s_final has %s, want %s", n, table, got, want)
			}
		}
	}
	// What the steps made is what a new database has.
	fresh := open(t)
	const all = "SELECT table, name, type, compression_codec, comment FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
	if got, want := query(t, s, all, nil), query(t, fresh, all, nil); got != want {
		t.Errorf("columns after all steps:\n%s\nof a new database:\n%s", got, want)
	}
}

// hash is of what the view of table shows in these columns, and the number of its rows.
func hash(t *testing.T, s *clickhouse.Sink, table, names string) string {
	t.Helper()
	return query(t, s, "SELECT count(), sum(cityHash64(toString(tuple("+names+")))) FROM "+table+"_final", nil)
}

// openBare returns a Sink on a database that holds nothing yet.
func openBare(t *testing.T, dsn string) *clickhouse.Sink {
	t.Helper()
	s := openDSN(t, dsn)
	for name := range strings.FieldsSeq(query(t, s, "SELECT name FROM system.tables WHERE database = currentDatabase()", nil)) {
		if err := s.Exec(t.Context(), "DROP TABLE "+name+" SYNC"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// migrateEnv makes the test binary a process that opens a database of this DSN and ends.
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

// Processes that start at once, on nothing and on an older database, all succeed and make the same tables.
func TestProcessesMigrateAtOnce(t *testing.T) {
	const all = "SELECT table, name, type, compression_codec, comment FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
	want := query(t, open(t), all, nil)
	for _, from := range []int{0, 4} {
		dsn := freshDSN(t)
		s := openBare(t, dsn)
		if from > 0 {
			if err := s.Apply(t.Context(), files(t, from)); err != nil {
				t.Fatal(err)
			}
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
		if got := query(t, s, all, nil); got != want {
			t.Errorf("from %d: columns:\n%s\nwant\n%s", from, got, want)
		}
		if got, want := query(t, s, "SELECT uniqExact(number) FROM migrations", nil), fmt.Sprintln(len(files(t, -1))); got != want {
			t.Errorf("from %d: migrations: %s, want %s", from, got, want)
		}
	}
}

// A release that meets the database of a newer one goes on and says so; one that meets a changed file stops.
func TestReadSchema(t *testing.T) {
	dsn := freshDSN(t)
	states := func() string {
		t.Helper()
		sc, err := clickhouse.ReadSchema(t.Context(), clickhouse.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		fmt.Fprint(&b, sc.NoDatabase, len(sc.Tables))
		for _, m := range sc.Migrations {
			fmt.Fprintf(&b, " %s", m.State)
		}
		return b.String()
	}
	n := len(files(t, -1))
	if got, want := states(), "true 0"+strings.Repeat(" pending", n); got != want {
		t.Errorf("no database: %s, want %s", got, want)
	}
	s := openDSN(t, dsn)
	if got, want := states(), fmt.Sprint("false ", len(clickhouse.ColumnNames()), strings.Repeat(" applied", n)); got != want {
		t.Errorf("after Open: %s, want %s", got, want)
	}
	if err := s.Exec(t.Context(), "INSERT INTO migrations VALUES (9999, '9999_next.sql', 'x', now64(3)), (9998, '9998_next.sql', 'x', now64(3))"); err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	newer, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn}, slog.New(slog.NewTextHandler(&logs, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	newer.Close()
	if want := fmt.Sprintf(`level=WARN msg="database is of a newer release: what that one added stays empty in rows of this one; finish the update" migration=9998_next.sql newest_known=%d`, n); !strings.Contains(logs.String(), want) {
		t.Errorf("log: %s, want %s", &logs, want)
	}
	if err := s.Exec(t.Context(), "INSERT INTO migrations VALUES (1, '0001_old.sql', 'other', now64(3))"); err != nil {
		t.Fatal(err)
	}
	if got, want := states(), fmt.Sprint("false ", len(clickhouse.ColumnNames()), " changed", strings.Repeat(" applied", n-1), " newer newer"); got != want {
		t.Errorf("a changed and newer ones: %s, want %s", got, want)
	}
}

// A replicated table takes one change at a time. A statement that came in between is run again.
func TestAlterAgain(t *testing.T) {
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
