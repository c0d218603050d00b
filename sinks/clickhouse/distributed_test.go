package clickhouse_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb/chdbtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// oneShard is a cluster that consists of one server. There is no Keeper and no network, so Distributed tables are tested, but
// ON CLUSTER and replication are not.
const oneShard = `<remote_servers><one><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></one></remote_servers>`

// startEngineWith starts a ClickHouse with another configuration and returns its address.
func startEngineWith(t *testing.T, cfg chdbtest.Config) string {
	t.Helper()
	freshDSN(t) // skips the test if there is no library
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	return chdbtest.Start(t, cfg)
}

var replicated = regexp.MustCompile(`ReplicatedReplacingMergeTree\('[^']*', '[^']*'(, )?`)

// A Distributed table accepts rows, shows the newest version of each through its view, has the same columns as the local table,
// and works with every query.
func TestDistributed(t *testing.T) {
	t.Parallel()
	slowtest.Skip(t)
	addr := startEngineWith(t, chdbtest.Config{Server: oneShard})
	script := must.Get(clickhouse.Script("one", "llmtap"))(t)
	script = strings.ReplaceAll(script, " ON CLUSTER 'one'", "")
	script = replicated.ReplaceAllString(script, "ReplacingMergeTree(")
	for range 2 { // interrupted migrations run again
		must.Do(t, clickhouse.ExecAll(t.Context(), chdbtest.DSN(addr, "default"), clickhouse.Statements(script)))
	}
	s := openDSN(t, chdbtest.DSN(addr, "llmtap"))
	const n = 200
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, n)))
	stage := clickhouse.WithScope(t.Context(), clickhouse.Scope{"exchanges": "stage = 'planner'", "history": "exchange_id IN (SELECT exchange_id FROM exchanges)"})
	for _, table := range []string{"exchanges", "exchanges_final", "exchanges_local", "history", "history_final"} {
		res := must.Get(s.Query(stage, "SELECT uniqExact(exchange_id) FROM "+table, nil))(t)
		must.Equal(t, res.Rows[0][0], any(uint64(n/3+1)), "exchanges of a scope in %s", table)
	}
	for _, b := range []*sinks.Batch{sinktest.Later(sinktest.Rows(0, n)), sinktest.Rows(0, n)} {
		must.Do(t, s.Write(t.Context(), b))
	}
	counts := must.Get(s.Counts(t.Context()))(t)
	for table := range clickhouse.ColumnNames() {
		// The rows are on the shards when Write returns.
		if got := query(t, s, "SELECT count() FROM "+table+"_local FINAL", nil); got != fmt.Sprintln(counts[table]) || counts[table] == 0 {
			t.Errorf("%s_final: %d rows, locally %s", table, counts[table], got)
		}
		columns := "SELECT arraySort(groupArray(name)) FROM system.columns WHERE database = 'llmtap' AND table = {table:String}"
		want := query(t, s, columns, map[string]string{"table": table + "_local"})
		for _, name := range []string{table, table + "_final"} {
			must.Equal(t, query(t, s, columns, map[string]string{"table": name}), want, "%s has columns", name)
		}
	}
	must.Equal(t, query(t, s, "SELECT count(), countIf(status = 200 AND stage = 'executor') FROM exchanges_final", nil), "200\t200\n", "exchanges_final: rows, newest rows")
	for _, name := range queries.Names() {
		sql, params, err := queries.Sample(name, time.Now())
		must.Do(t, err)
		must.Do(t, must.Err(s.Query(t.Context(), sql, params)), "query", name)
	}
	st := must.Get(clickhouse.Inspect(t.Context(), clickhouse.Config{DSN: chdbtest.DSN(addr, "llmtap")}))(t)
	if st.Cluster != "one" || len(st.In(clickhouse.Pending)) > 0 {
		t.Errorf("Inspect: %+v", st)
	}
	for cluster, want := range map[string]string{"one": "", "{cluster}": "", "three": "database llmtap is on cluster one, not three: correct clickhouse.cluster, or use an empty database"} {
		o, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: chdbtest.DSN(addr, "llmtap"), Cluster: cluster}, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			o.Close()
		}
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("Open with cluster %s: %v, want %q", cluster, err, want)
		}
	}
}

// threeShards is a cluster of three databases of one engine, which inserts into them over the native protocol.
const threeShards = `<remote_servers><three>%s</three></remote_servers>`

const shardOfThree = `<shard><internal_replication>true</internal_replication><replica><host>127.0.0.1</host><port>%s</port>
	<user>default</user><password>` + chdbtest.Password + `</password><default_database>shard%d</default_database></replica></shard>`

var ofLocalTable = regexp.MustCompile(`(?m)^(CREATE TABLE IF NOT EXISTS|ALTER TABLE) \w+_local`)

// An insert into a Distributed table stores each row on the shard of its sharding key, all of its versions on the same one, also
// if a shard fails in the middle of an insert that is then repeated.
func TestShards(t *testing.T) {
	t.Parallel()
	slowtest.Skip(t)
	native := chdbtest.ListenNative(t)
	_, port, err := net.SplitHostPort(native.Addr)
	must.Do(t, err)
	var shards strings.Builder
	for i := range 3 {
		fmt.Fprintf(&shards, shardOfThree, port, i)
	}
	addr := startEngineWith(t, chdbtest.Config{Server: fmt.Sprintf(threeShards, &shards)})
	native.Serve(addr)
	script := must.Get(clickhouse.Script("three", "llmtap"))(t)
	script = replicated.ReplaceAllString(strings.ReplaceAll(script, " ON CLUSTER 'three'", ""), "ReplacingMergeTree(")
	// The database of a shard is then the default database of its connections.
	script = strings.ReplaceAll(script, "Distributed('three', 'llmtap', ", "Distributed('three', '', ")
	stmts := clickhouse.Statements(script)
	for i := range 3 {
		stmts = append(stmts, fmt.Sprintf("CREATE DATABASE shard%d", i), fmt.Sprintf("USE `shard%d`", i))
		for _, stmt := range clickhouse.Statements(script) {
			if ofLocalTable.MatchString(stmt) {
				stmts = append(stmts, stmt)
			}
		}
	}
	must.Do(t, clickhouse.ExecAll(t.Context(), chdbtest.DSN(addr, "default"), stmts))
	s := openDSN(t, chdbtest.DSN(addr, "llmtap"))

	const n = 300
	rows := func() *sinks.Batch {
		b := sinktest.Rows(0, n)
		for i := range b.Contents { // ids begin with the millisecond in which the conversation began
			b.Contents[i].ID = fmt.Sprintf("%012x%020x", i/12, i)
		}
		return b
	}
	native.Refuse("shard1")
	var retry *sinks.RetryError
	if err := s.Write(t.Context(), rows()); !errors.As(err, &retry) {
		t.Errorf("Write while a shard fails: %v, want a RetryError", err)
	}
	native.Refuse("")
	for _, b := range []*sinks.Batch{rows(), sinktest.Later(rows()), rows()} {
		must.Do(t, s.Write(t.Context(), b))
	}
	for table := range clickhouse.ColumnNames() {
		key := query(t, s, "SELECT sorting_key, extract(engine_full, 'cityHash64\\\\((.*)\\\\)\\\\)$') FROM system.tables WHERE database = 'llmtap' AND name IN ({table:String}, {table:String} || '_local') ORDER BY name DESC",
			map[string]string{"table": table})
		local, distributed, _ := strings.Cut(key, "\n")
		sortKey, shardKey := strings.TrimSpace(local), strings.TrimSpace(distributed)
		var union []string
		for i := range 3 {
			union = append(union, fmt.Sprintf("SELECT %d AS shard, cityHash64(%s) %% 3 AS want, (%s) AS row FROM shard%d.%s_local FINAL", i, shardKey, sortKey, i, table))
		}
		got := query(t, s, "SELECT count(), uniqExact(row), countIf(shard != want), uniqExact(shard) FROM ("+strings.Join(union, " UNION ALL ")+")", nil)
		must.Equal(t, got, fmt.Sprintf("%d\t%d\t0\t3\n", n, n), "%s (%s, %s): rows, different rows, rows on a wrong shard, shards with rows", table, sortKey, shardKey)
	}
}
