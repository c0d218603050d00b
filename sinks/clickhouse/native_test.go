package clickhouse_test

import (
	"bytes"
	"math/big"
	"regexp"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// NULL and [] have the type Nothing, which is written as String.
func TestNativeNothing(t *testing.T) {
	t.Parallel()
	res := must.Get(open(t).QueryBounded(t.Context(), "SELECT NULL AS a, [] AS b", nil))(t)
	var b bytes.Buffer
	must.Do(t, res.WriteNative(&b))
	got := must.Get(clickhouse.ReadNative(&b))(t)
	must.Agree(t, cmp.Diff([]any{nil, []string{}}, got.Rows[0]))
}

// A result that is written and read again has the same columns and values.
func TestNative(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 3)))
	statements := []string{
		`SELECT 'a' AS s, unhex('ff00fe') AS bytes, toLowCardinality('b') AS l, toNullable(1.5) AS f, toNullable('x') AS t,
			toDateTime64('2026-11-20 09:30:00.123456789', 9, 'Asia/Shanghai') AS at, toDateTime('2026-11-20 09:30:00') AS second, toDate('2026-11-20') AS day,
			['x', 'y'] AS list, map('k', toUInt64(18446744073709551615)) AS m, true AS yes, ('a', 1) AS pair, -7 AS negative, nan AS n, -inf AS i,
			[['a'], []] AS nested, toDecimal64(1.25, 2) AS d, toUUID('019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f') AS u, toIPv4('127.0.0.1') AS ip,
			CAST('b', 'Enum8(\'a\' = 1, \'b\' = 2)') AS e, toFixedString('ab', 3) AS fixed, toInt128(-5) AS big, map('a', 'b')::Map(LowCardinality(String), String) AS attributes`,
		"SELECT number, toString(number) AS text FROM system.numbers LIMIT 10000",
		"SELECT 1 AS x WHERE false",
	}
	for _, table := range []string{"exchanges", "findings", "tool_calls", "messages", "history", "runs", "alerts", "alert_actions"} {
		statements = append(statements, "SELECT * FROM "+table+"_final")
	}
	for _, sql := range statements {
		want := must.Get(s.QueryBounded(t.Context(), sql, nil))(t)
		var b bytes.Buffer
		must.Do(t, want.WriteNative(&b))
		got := must.Get(clickhouse.ReadNative(&b))(t)
		must.Agree(t, cmp.Diff(want, got, cmpopts.EquateNaNs(), cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 })), sql)
	}
}

func TestQueryBounded(t *testing.T) {
	t.Parallel()
	s := open(t)
	f := func(sql, want string) {
		t.Helper()
		res, err := s.QueryBounded(t.Context(), sql, nil)
		must.Fail(t, err, want, sql, res)
	}
	for _, sql := range []string{
		"DROP TABLE exchanges", "INSERT INTO exchanges (exchange_id) VALUES ('x')", "TRUNCATE TABLE findings", "SET readonly = 0", "SET max_result_bytes = 0",
		"ALTER TABLE exchanges DELETE WHERE 1", "CREATE TEMPORARY TABLE x (a UInt8)", "OPTIMIZE TABLE exchanges", "SYSTEM FLUSH LOGS", "KILL QUERY WHERE 1",
		"SELECT 1 SETTINGS readonly = 0", "SELECT 1 SETTINGS max_execution_time = 0",
	} {
		f(sql, "read")
	}
	for _, sql := range []string{
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')", "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
		"SELECT * FROM remote('127.0.0.1', system.one)", "SELECT * FROM s3('http://127.0.0.1:1/a', 'CSV')", "SELECT * FROM executable('x', 'CSV', 'a String', (SELECT 1))",
		"SELECT 1 INTO OUTFILE '/tmp/llmtap-outfile'", "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
	} {
		f(sql, "")
	}
	for _, sql := range []string{
		"DESCRIBE TABLE url('http://127.0.0.1:1/')", "SELECT 1 FROM `URL` ('x')", `SELECT 1 FROM "u\x72l"('x')`, "SELECT 1 FROM s3Cluster('a', 'b')",
		"SELECT 1 WHERE 1 IN remote /* x */ ('127.0.0.1', system.one)",
	} {
		f(sql, "is not allowed: it reads from files or other servers")
	}
	// Every table function that readonly forbids is refused, except those that read nothing from elsewhere.
	res := must.Get(s.QueryBounded(t.Context(), "SELECT name FROM system.table_functions WHERE NOT allow_readonly", nil))(t)
	harmless := regexp.MustCompile("^(format|loop|viewExplain|zeros|zeros_mt|timeSeries.*|prometheusQuery.*)$")
	for _, row := range res.Rows {
		if name := row[0].(string); !harmless.MatchString(name) {
			f("SELECT * FROM "+name+"('x')", "the function "+name+" is not allowed")
		}
	}
	f("SELECT repeat('x', 1000000) FROM system.numbers LIMIT 200", "larger than 64 MiB")
	// One block of 100 MB is refused before this process receives it.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f("SELECT repeat('x', 10000 + number % 2) FROM numbers(10000)", "larger than 64 MiB")
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 50 {
		t.Errorf("a result that is too large allocates %d MiB", n)
	}
}
