package chdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

type everyType struct {
	TS  time.Time         `ch:"ts"`
	N   uint32            `ch:"n"`
	S   string            `ch:"s"`
	U   uuid.UUID         `ch:"u"`
	NN  *int64            `ch:"nn"`
	M   map[string]string `ch:"m"`
	A   []string          `ch:"a"`
	E   string            `ch:"e"`
	D   string            `ch:"d"`
	B   bool              `ch:"b"`
	F   float64           `ch:"f"`
	FS  string            `ch:"fs"`
	Raw string            `ch:"raw"`
}

func everyTypeRow(i int) everyType {
	r := everyType{
		TS: time.Date(2026, 11, 21, 1, 2, 3, 456789000, time.UTC), N: uint32(i), S: fmt.Sprint("k", i%5), U: uuid.UUID{byte(i), 1, 2},
		M: map[string]string{"k": fmt.Sprint(i), "\x00 \xff'\\\n": "'); DROP TABLE x; --"}, A: []string{"", "b"}, E: "a",
		D: "1.5", B: i%2 == 0, F: 1.25, FS: "abcd", Raw: strings.Repeat("body\n'\xff", 100),
	}
	if i%3 == 0 {
		n := int64(-i)
		r.NN = &n
	}
	return r
}

// Every type is written and read with every compression of the client.
func TestCompressions(t *testing.T) {
	s := server(t)
	for name, method := range map[string]clickhouse.CompressionMethod{
		"none": clickhouse.CompressionNone, "lz4": clickhouse.CompressionLZ4, "zstd": clickhouse.CompressionZSTD,
		"gzip": clickhouse.CompressionGZIP, "deflate": clickhouse.CompressionDeflate, "br": clickhouse.CompressionBrotli,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := open(t, s, func(o *clickhouse.Options) {
				o.Compression = &clickhouse.Compression{Method: method, Level: 3}
			})
			table := "types_" + name
			mustExec(t, c, `CREATE TABLE `+table+` (ts DateTime64(6), n UInt32, s LowCardinality(String), u UUID, nn Nullable(Int64),
				m Map(LowCardinality(String), String), a Array(String), e Enum8('a' = 1, 'b' = 2), d Decimal(18, 4), b Bool, f Float64,
				fs FixedString(4), raw String CODEC(ZSTD(3))) ENGINE = MergeTree ORDER BY n`)
			const rows = 1000
			b := must.Get(c.PrepareBatch(ctx, "INSERT INTO "+table))(t)
			for i := range rows {
				r := everyTypeRow(i)
				must.Do(t, b.AppendStruct(&r))
			}
			must.Do(t, b.Send())
			var got []everyType
			must.Do(t, c.Select(ctx, &got, "SELECT * REPLACE (toString(d) AS d) FROM "+table+" ORDER BY n"))
			if len(got) != rows {
				t.Fatalf("%d rows, want %d", len(got), rows)
			}
			for i, r := range got {
				if d := cmp.Diff(everyTypeRow(i), r); d != "" {
					t.Fatal(d)
				}
			}
			lateException(t, c)
		})
	}
}

// lateException tests an exception after the first rows were sent.
func lateException(t *testing.T, c driver.Conn) {
	t.Helper()
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 1000, "max_threads": 1}))
	rows := must.Get(c.Query(ctx, "SELECT throwIf(number = 300000, 'it broke'), toString(number) FROM numbers(400000)"))(t)
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	var ex *clickhouse.Exception
	if !errors.As(rows.Err(), &ex) || ex.Code != 395 || !strings.Contains(ex.Message, "it broke") {
		t.Errorf("after %d rows: %v", n, rows.Err())
	}
	if n == 0 || n > 300000 {
		t.Errorf("%d rows before the exception", n)
	}
}

func TestQueries(t *testing.T) {
	ctx := t.Context()
	c := open(t, server(t))
	mustExec(t, c, "CREATE TABLE q (n UInt32, s String) ENGINE = MergeTree ORDER BY n")
	mustExec(t, c, "INSERT INTO q SELECT number, concat('k', toString(number % 3)) FROM numbers(10)")
	f := func(want uint64, ctx context.Context, sql string, args ...any) {
		t.Helper()
		var got uint64
		if err := c.QueryRow(ctx, sql, args...).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", sql, got, err, want)
		}
	}
	with := func(p clickhouse.Parameters) context.Context {
		return clickhouse.Context(ctx, clickhouse.WithParameters(p))
	}
	// Parameters are always values.
	f(5, with(clickhouse.Parameters{"n": "5"}), "SELECT count() FROM q WHERE n < {n:UInt32}")
	f(10, with(clickhouse.Parameters{"s": "k1' OR 1 = 1; --"}), "SELECT count() FROM q WHERE s != {s:String}")
	f(7, with(clickhouse.Parameters{"a": "['k0','k1']"}), "SELECT count() FROM q WHERE s IN {a:Array(String)}")
	f(0, with(clickhouse.Parameters{"s": ""}), "SELECT count() FROM q WHERE s = {s:String}")
	f(7, ctx, "SELECT count() FROM q WHERE n < {n:UInt32}", clickhouse.Named("n", "7"))
	f(2, ctx, "SELECT count() FROM q WHERE n < ? AND s = ?", 5, "k1")
	f(3, ctx, "WITH 3 AS x SELECT toUInt64(x)")
	f(10, clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1})), "(SELECT count() FROM q)")
	// Forms of INSERT.
	mustExec(t, c, "INSERT INTO q VALUES (100, 'a;b'), (101, 'c\\'d') -- ; end")
	mustExec(t, c, "INSERT INTO q (n, s) FORMAT JSONEachRow\n{\"n\": 102, \"s\": \"file(x); INTO OUTFILE\"}\n{\"n\": 103}")
	must.Do(t, c.Exec(with(clickhouse.Parameters{"n": "104", "s": "p"}), "INSERT INTO q VALUES ({n:UInt32}, {s:String})"))
	must.Do(t, c.Exec(clickhouse.Context(ctx, clickhouse.WithAsync(true)), "INSERT INTO q (n, s) VALUES (105, 'async')"))
	f(6, ctx, "SELECT count() FROM q WHERE n >= 100")
	rows := must.Get(c.Query(ctx, "SELECT n, s FROM q WHERE 0"))(t)
	if rows.Next() || rows.Err() != nil {
		t.Error(rows.Err())
	}
	rows.Close()
	var ddl string
	if err := c.QueryRow(ctx, "SHOW CREATE TABLE q").Scan(&ddl); err != nil || !strings.Contains(ddl, "MergeTree") {
		t.Error(ddl, err)
	}
	db := clickhouse.OpenDB(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{server(t).listener.Addr().String()},
		Auth: clickhouse.Auth{Database: "default", Username: "default", Password: server(t).config.Password},
	})
	defer db.Close()
	var name string
	if err := db.QueryRowContext(ctx, "SELECT currentDatabase()").Scan(&name); err != nil || name != "default" {
		t.Error(name, err)
	}
}

// Columns of semi-structured types are written and read.
func TestSemistructured(t *testing.T) {
	ctx := t.Context()
	c := open(t, server(t))
	mustExec(t, c, "CREATE TABLE semi (j JSON, v Variant(String, UInt64), d Dynamic, t Tuple(x UInt8, y String)) ENGINE = MergeTree ORDER BY tuple()")
	b := must.Get(c.PrepareBatch(ctx, "INSERT INTO semi"))(t)
	j := clickhouse.NewJSON()
	j.SetValueAtPath("a.b", int64(5))
	must.Do(t, b.Append(j, "str", clickhouse.NewDynamicWithType(int64(9), "Int64"), map[string]any{"x": uint8(1), "y": "q"}))
	must.Do(t, b.Send())
	var n int64
	var v, d, y string
	err := c.QueryRow(ctx, "SELECT j.a.b::Int64, v::String, d::String, t.y FROM semi").Scan(&n, &v, &d, &y)
	if err != nil || n != 5 || v != "str" || d != "9" || y != "q" {
		t.Error(n, v, d, y, err)
	}
	var back clickhouse.JSON
	must.Do(t, c.QueryRow(ctx, "SELECT j FROM semi").Scan(&back))
}

func TestExceptions(t *testing.T) {
	c := open(t, server(t))
	f := func(sql string, settings clickhouse.Settings, code int32, status int) {
		t.Helper()
		err := c.Exec(clickhouse.Context(t.Context(), clickhouse.WithSettings(settings)), sql)
		var ex *clickhouse.Exception
		var he *clickhouse.HTTPError
		if !errors.As(err, &ex) || ex.Code != code || !errors.As(err, &he) || he.StatusCode != status {
			t.Errorf("%s: %v; want code %d, status %d", sql, err, code, status)
		}
	}
	f("SELECT * FROM nosuch", nil, 60, 404)
	f("SELECT nosuch", nil, 47, 404)
	f("SELEC 1 1", nil, 62, 400)
	f("", nil, 62, 400)
	f("SELECT 1; SELECT 2", nil, 62, 400)
	f("SELECT 1", clickhouse.Settings{"nosuch": 1}, 115, 404)
	f("SELECT 1", clickhouse.Settings{"a' = 1, b": 1}, 115, 404)
	f("SELECT sleep(1), number FROM numbers(10) SETTINGS max_block_size = 1", clickhouse.Settings{"max_execution_time": "0.1"}, 159, 408)
	f("SELECT groupArray(repeat('x', 1000)) FROM numbers(10000000)", clickhouse.Settings{"max_memory_usage": 10 << 20}, 241, 500)
	f("SELECT 1", clickhouse.Settings{"session_id": "nosuch", "session_check": 1}, 372, 500)
	if err := c.Exec(t.Context(), "SELECT 1"); err != nil { // the server still works
		t.Error(err)
	}
}

// A million rows are read while they are generated.
func TestStreaming(t *testing.T) {
	for _, m := range []clickhouse.CompressionMethod{clickhouse.CompressionNone, clickhouse.CompressionLZ4} {
		c := open(t, server(t), func(o *clickhouse.Options) { o.Compression = &clickhouse.Compression{Method: m} })
		rows := must.Get(c.Query(t.Context(), "SELECT number, toString(number) FROM numbers(1000000)"))(t)
		var n, sum, x uint64
		var s string
		for rows.Next() {
			must.Do(t, rows.Scan(&x, &s))
			n++
			sum += x
		}
		if rows.Err() != nil || n != 1000000 || sum != 999999*1000000/2 {
			t.Error(n, sum, rows.Err())
		}
		rows.Close()
	}
}

// The engine stops the statements of cancelled requests.
func TestCancel(t *testing.T) {
	c := open(t, server(t))
	const endless = "SELECT count() FROM numbers_mt(1000000000000) WHERE sipHash64(number) = 3"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		waitRunning(t, c, 1)
	}()
	var n uint64
	must.Is(t, c.QueryRow(ctx, endless).Scan(&n), context.Canceled)
	waitRunning(t, c, 0)
	// A client that disconnects from a stream.
	ctx, cancel = context.WithCancel(t.Context())
	rows := must.Get(c.Query(ctx, "SELECT number, repeat('x', 100) FROM numbers(1000000000)"))(t)
	rows.Next()
	cancel()
	waitRunning(t, c, 0)
	rows.Close()
}

// waitRunning waits until n other statements are running.
func waitRunning(t *testing.T, c driver.Conn, n uint64) {
	t.Helper()
	var got uint64
	must.Wait(t, fmt.Sprintf("%d running statements", n), func() bool {
		must.Do(t, c.QueryRow(context.Background(), "SELECT count() FROM system.processes WHERE query LIKE '%numbers%' AND query NOT LIKE '%processes%'").Scan(&got))
		return got == n
	}, func() any { return got })
}

func TestSessions(t *testing.T) {
	c := open(t, server(t))
	in := func(s clickhouse.Settings) context.Context {
		return clickhouse.Context(t.Context(), clickhouse.WithSettings(s))
	}
	ctx := in(clickhouse.Settings{"session_id": "s1", "session_timeout": 60})
	must.Do(t, c.Exec(ctx, "CREATE TEMPORARY TABLE tmp (a UInt8)"))
	must.Do(t, c.Exec(ctx, "INSERT INTO tmp VALUES (1), (2)"))
	// A failed statement does not affect the next one, and settings apply to one request only.
	must.Fail(t, c.Exec(in(clickhouse.Settings{"session_id": "s1", "max_threads": 1}), "SELECT throwIf(1) AS leaked FORMAT TSVWithNames"), "", "no exception")
	var n, threads uint64
	if err := c.QueryRow(ctx, "SELECT count(), toUInt64(getSetting('max_threads')) FROM tmp").Scan(&n, &threads); err != nil || n != 2 || threads == 1 {
		t.Error(n, threads, err)
	}
	must.Fail(t, c.QueryRow(in(clickhouse.Settings{"session_id": "s2"}), "SELECT count() FROM tmp").Scan(&n), "", "the temporary table is visible in another session")
	// A session runs one request at a time.
	wait, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Exec(wait, "SELECT count() FROM numbers_mt(1000000000000) WHERE sipHash64(number) = 3")
	}()
	waitRunning(t, c, 1)
	var ex *clickhouse.Exception
	if err := c.Exec(ctx, "SELECT 1"); !errors.As(err, &ex) || ex.Code != 373 {
		t.Error(err)
	}
	cancel()
	<-ended
	waitRunning(t, c, 0)
}

// The deduplication token is passed to the engine.
func TestDeduplication(t *testing.T) {
	c := open(t, server(t))
	mustExec(t, c, "CREATE TABLE dedup (n UInt32) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": "t1"}))
	for range 2 {
		insertNumbers(t, ctx, c, "dedup", 1, 2)
	}
	must.Equal(t, count(t, c, "dedup"), 2, "rows")
}

func insertNumbers(t *testing.T, ctx context.Context, c driver.Conn, table string, numbers ...uint32) {
	t.Helper()
	b := must.Get(c.PrepareBatch(ctx, "INSERT INTO "+table+" (n)"))(t)
	for _, n := range numbers {
		must.Do(t, b.Append(n))
	}
	must.Do(t, b.Send())
}

func count(t *testing.T, c driver.Conn, table string) (n uint64) {
	t.Helper()
	must.Do(t, c.QueryRow(context.Background(), "SELECT count() FROM "+table).Scan(&n))
	return n
}

func mustExec(t testing.TB, c driver.Conn, sql string) {
	t.Helper()
	must.Do(t, c.Exec(context.Background(), sql), sql)
}
