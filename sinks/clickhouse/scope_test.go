package clickhouse_test

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// A query sees only the rows of its scope, however it names the table.
func TestScope(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 4)))
	db := strings.TrimSpace(query(t, s, "SELECT currentDatabase()", nil))
	stage := clickhouse.Scope{"exchanges": "stage = 'planner'", "audit": clickhouse.Nothing}
	ctx := clickhouse.WithScope(t.Context(), stage)
	f := func(sql string, want uint64) {
		t.Helper()
		for name, query := range map[string]func() (*clickhouse.Result, error){
			"Query":        func() (*clickhouse.Result, error) { return s.Query(ctx, sql, nil) },
			"QueryBounded": func() (*clickhouse.Result, error) { return s.QueryBounded(ctx, sql, nil) },
		} {
			res, err := query()
			if err != nil || len(res.Rows) != 1 || res.Rows[0][0] != want {
				t.Errorf("%s: %s: %v, %v, not %d", name, sql, res, err, want)
			}
		}
	}
	f("SELECT count() FROM findings", 4)
	for _, from := range []string{
		"exchanges", "exchanges_final", "`exchanges`", db + ".exchanges", "exchanges FINAL", "(SELECT * FROM exchanges)", "view(SELECT * FROM exchanges)",
	} {
		f("SELECT count() FROM "+from, 2)
	}
	f("WITH x AS (SELECT * FROM exchanges) SELECT count() FROM x", 2)
	f("SELECT (SELECT count() FROM exchanges)", 2)
	f("SELECT count() FROM findings WHERE exchange_id IN (SELECT exchange_id FROM exchanges_final)", 2)
	f("SELECT uniqExact(_part) FROM exchanges WHERE stage != 'planner'", 0)

	ctx = clickhouse.WithScope(t.Context(), clickhouse.Scope{"exchanges": `match(stage, '^(?s:pl\\w{2}ner|\\\\|\'|\{x:y\})$')`})
	f("SELECT count() FROM exchanges_final", 2)
	ctx = clickhouse.WithScope(t.Context(), stage)

	refused := func(sql, want string) {
		t.Helper()
		_, err := s.QueryBounded(ctx, sql, nil)
		must.Fail(t, err, want, sql)
	}
	refused("SELECT count() FROM audit", "the table audit needs the role admin")
	refused(`SELECT count() FROM "audit_final"`, "the table audit needs the role admin")
	refused("SELECT count() FROM merge('', '^exch')", "the function merge")
	refused("SELECT count() FROM mergeTreeIndex(currentDatabase(), exchanges)", "the function mergeTreeIndex")
	refused("SELECT count() FROM `mergeTreeAnalyzeIndexes`(currentDatabase(), exchanges)", "mergeTreeAnalyzeIndexes")
	refused("SELECT count() FROM clusterAllReplicas('main', currentDatabase(), exchanges)", "clusterAllReplicas")
	refused("SELECT count() FROM exchanges SETTINGS additional_table_filters = {}", "readonly")
	must.Equal(t, query(t, s, "SELECT count() FROM audit_final", nil), "4\n", "without a scope")
}
