package clickhouse_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
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
	addr := startEngineWith(t, chdbtest.Config{Server: oneShard})
	script, err := clickhouse.Script("one", "llmtap")
	must(t, err)
	script = strings.ReplaceAll(script, " ON CLUSTER 'one'", "")
	script = replicated.ReplaceAllString(script, "ReplacingMergeTree(")
	must(t, clickhouse.ExecAll(t.Context(), chdbtest.DSN(addr, "default"), clickhouse.Statements(script)))
	s := openDSN(t, chdbtest.DSN(addr, "llmtap"))
	const n = 200
	for _, b := range []*sinks.Batch{sinktest.Rows(0, n), sinktest.Later(sinktest.Rows(0, n)), sinktest.Rows(0, n)} {
		must(t, s.Write(t.Context(), b))
	}
	counts, err := s.Counts(t.Context())
	must(t, err)
	for table := range clickhouse.ColumnNames() {
		// The rows are on the shards when Write returns.
		if got := query(t, s, "SELECT count() FROM "+table+"_local FINAL", nil); got != fmt.Sprintln(counts[table]) || counts[table] == 0 {
			t.Errorf("%s_final: %d rows, locally %s", table, counts[table], got)
		}
		columns := "SELECT arraySort(groupArray(name)) FROM system.columns WHERE database = 'llmtap' AND table = {table:String}"
		want := query(t, s, columns, map[string]string{"table": table + "_local"})
		for _, name := range []string{table, table + "_final"} {
			if got := query(t, s, columns, map[string]string{"table": name}); got != want {
				t.Errorf("%s has columns %s, want %s", name, got, want)
			}
		}
	}
	if got := query(t, s, "SELECT count(), countIf(status = 200 AND stage = 'executor') FROM exchanges_final", nil); got != "200\t200\n" {
		t.Errorf("exchanges_final: rows, newest rows = %q", got)
	}
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		must(t, err)
		given := map[string]string{}
		for _, p := range q.Parameters {
			if p.Required {
				given[p.Name] = "x"
			}
		}
		sql, params, err := q.Bind(valuesOf(given), time.Now())
		must(t, err)
		params["prices"] = "[]"
		if _, err := s.Query(t.Context(), sql, params); err != nil {
			t.Errorf("query %s: %v", name, err)
		}
	}
	st, err := clickhouse.Inspect(t.Context(), clickhouse.Config{DSN: chdbtest.DSN(addr, "llmtap")})
	must(t, err)
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
