package clickhouse_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// The golden file contains all statements for a cluster; the parser of the engine accepts each of them.
func TestClusterGolden(t *testing.T) {
	t.Parallel()
	script := must.Get(clickhouse.Script("main", "llmtap"))(t)
	golden(t, "cluster.sql", script)
	s := open(t)
	for _, stmt := range clickhouse.Statements(script) {
		if strings.HasPrefix(stmt, "INSERT ") {
			continue // the parser expects rows
		}
		ast := query(t, s, "EXPLAIN AST "+stmt, nil)
		creates := strings.Contains(stmt, "\nCREATE ") || strings.HasPrefix(stmt, "CREATE ")
		if ast == "" || creates != strings.HasPrefix(ast, "CreateQuery") {
			t.Errorf("%s\nis parsed as\n%s", stmt, ast)
		}
		if !strings.Contains(stmt, " ON CLUSTER 'main'") && !strings.HasPrefix(stmt, "USE ") {
			t.Errorf("runs on one server only: %s", stmt)
		}
	}
}

func TestClusterRejectsUnknownStatements(t *testing.T) {
	t.Parallel()
	f := func(stmt, want string) {
		t.Helper()
		must.Fail(t, must.Err(clickhouse.Rewrite("main", "llmtap", stmt)), want, stmt)
		if got, err := clickhouse.Rewrite("", "llmtap", stmt); err != nil || len(got) != 1 || got[0] != stmt {
			t.Errorf("%s on one server: %q, %v", stmt, got, err)
		}
	}
	f("DROP TABLE exchanges", "statement is not supported on a cluster: DROP TABLE exchanges")
	f("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", "statement is not supported on a cluster")
	f("CREATE TABLE exchanges (n UInt8) ENGINE = ReplacingMergeTree ORDER BY n", "statement is not supported on a cluster")
	f("CREATE TABLE IF NOT EXISTS exchanges (n UInt8) ENGINE = MergeTree ORDER BY n", "table exchanges: engine MergeTree is not supported on a cluster")
	f("CREATE TABLE IF NOT EXISTS exchanges (n UInt8) ENGINE = ReplacingMergeTree(a, b) ORDER BY n", "engine has more arguments than a version")
	f("CREATE TABLE IF NOT EXISTS exchanges AS findings", "table exchanges has no engine")
	f("CREATE TABLE IF NOT EXISTS other (id UInt8) ENGINE = ReplacingMergeTree ORDER BY id", "table other has no sharding key")
	f("CREATE TABLE IF NOT EXISTS exchanges (exchange_id UInt8) ENGINE = ReplacingMergeTree ORDER BY service", "sharding key exchange_id is not in the sort key")
	f("CREATE TABLE IF NOT EXISTS exchanges (s String DEFAULT 'ENGINE = x", "table exchanges has no engine")
	f("CREATE OR REPLACE VIEW v (n UInt8) AS SELECT 1", "view v: AS SELECT must follow the name")
	f("ALTER TABLE other ADD COLUMN IF NOT EXISTS n UInt8", "ALTER TABLE other is not supported")
	f("ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS n Decimal(9, 2), DELETE WHERE n = 1", "ALTER TABLE exchanges: DELETE is not supported")
	f("ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS n UInt8, ADD INDEX IF NOT EXISTS i n TYPE minmax", "changes columns and other properties")
}

func TestClusterRewrite(t *testing.T) {
	t.Parallel()
	f := func(stmt string, want ...string) {
		t.Helper()
		got, err := clickhouse.Rewrite(`it's`, "d`b", stmt)
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %v\n got %s\nwant %s", stmt, err, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	f("-- ENGINE = x\nCREATE TABLE IF NOT EXISTS runs /* ) */ (id String COMMENT 'ENGINE = y; ''(') ENGINE = ReplacingMergeTree ORDER BY id SETTINGS a = 1",
		`-- ENGINE = x`+"\n"+`CREATE TABLE IF NOT EXISTS runs_local ON CLUSTER 'it\'s' /* ) */ (id String COMMENT 'ENGINE = y; ''(') ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}') ORDER BY id SETTINGS a = 1`,
		"CREATE TABLE IF NOT EXISTS runs ON CLUSTER 'it\\'s' AS `d\\`b`.runs_local\nENGINE = Distributed('it\\'s', 'd`b', 'runs_local', cityHash64(id))")
	f("ALTER TABLE runs ADD INDEX IF NOT EXISTS i id TYPE minmax", `ALTER TABLE runs_local ON CLUSTER 'it\'s' ADD INDEX IF NOT EXISTS i id TYPE minmax`)
	f("alter table runs add column if not exists a Map(String, UInt8), modify column if exists b String",
		`alter table runs_local ON CLUSTER 'it\'s' add column if not exists a Map(String, UInt8), modify column if exists b String`,
		`ALTER TABLE runs ON CLUSTER 'it\'s' add column if not exists a Map(String, UInt8), modify column if exists b String`)
}

// Tables on one server are not converted to a cluster.
func TestClusterRequiresEmptyDatabase(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	openDSN(t, dsn)
	s, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, Cluster: "main"}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		s.Close()
	}
	if !strings.HasSuffix(fmt.Sprint(err), "has tables on one server: cluster main requires an empty database") {
		t.Errorf("Open: %v", err)
	}
}
