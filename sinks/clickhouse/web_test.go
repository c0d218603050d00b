package clickhouse_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// webStatements returns the statements of dashboards/web.
func webStatements(t *testing.T) map[string]queries.Query {
	t.Helper()
	return must.Get(queries.Load(os.DirFS("../../dashboards/web/sql")))(t)
}

// ClickHouse can run every statement of the web pages, with the filters that it has and without.
func TestWebStatements(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), incident()))
	filters := map[string]string{"status": "4xx", "attr": "tenant=tenant-1", "service": "trips"}
	for name, q := range webStatements(t) {
		for _, filtered := range []bool{false, true} {
			values := queries.Values{}
			for _, p := range q.Parameters {
				switch {
				case p.Required:
					values[p.Name] = []string{"conv-22"}
				case p.Filter && filtered && filters[p.Name] != "":
					values[p.Name] = []string{filters[p.Name]}
				}
			}
			sql, params, err := q.Bind(values, time.Now())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, bound := range q.Bound {
				params[bound] = testPrices.Bound()
			}
			must.Do(t, must.Err(s.Query(t.Context(), sql, params)), name)
		}
	}
}

// Each kind of id is found, by an index or the sort key.
func TestWebSearch(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for range 2 { // rows written twice must not be found twice
		must.Do(t, s.Write(t.Context(), b))
	}
	statements := webStatements(t)
	find := func(statement, id string) string {
		t.Helper()
		sql, params, err := statements[statement].Bind(queries.Values{"id": {id}}, time.Now())
		must.Do(t, err)
		res := must.Get(s.Query(t.Context(), sql, params))(t)
		return pick(res, "kind= exchange= conversation= calls= failed_calls=")
	}
	f := func(statement, id, want string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, find(statement, id)), statement, id)
	}
	e, call := &b.Exchanges[22], &b.ToolCalls[22]
	f("search_ids", e.ID, "kind=exchange exchange="+e.ID+" conversation=conv-22 calls=1 failed_calls=1")
	f("search_ids", "conv-38", "kind=conversation exchange="+b.Exchanges[39].ID+" conversation=conv-38 calls=2 failed_calls=1")
	f("search_ids", call.CallID, "kind=tool call exchange="+e.ID+" conversation="+call.Conversation+" calls=1 failed_calls=0")
	finding := &b.Findings[0] // its id is also that of the alert
	f("search_ids", finding.ID, "kind=alert exchange="+finding.Exchange+" conversation= calls=1030 failed_calls=412\n"+
		"kind=finding exchange="+finding.Exchange+" conversation="+finding.Conversation+" calls=1 failed_calls=0")
	f("search_ids", "conv-3", "kind=conversation exchange="+b.Exchanges[3].ID+" conversation=conv-3 calls=1 failed_calls=0")
	f("search_ids", "nothing", "")
	f("search_ids", "", "")
	f("search_provider_ids", e.ProviderRequestID, "kind=provider request exchange="+e.ID+" conversation=conv-22 calls=1 failed_calls=1")
	f("search_provider_ids", b.Exchanges[23].ResponseID, "kind=response exchange="+b.Exchanges[23].ID+" conversation=conv-23 calls=1 failed_calls=0")
	f("search_prefixes", e.ID[:len(e.ID)-1], "kind=exchange exchange="+e.ID+" conversation=conv-22 calls=1 failed_calls=1")
	f("search_prefixes", "conv-22", "kind=conversation exchange="+e.ID+" conversation=conv-22 calls=1 failed_calls=1")
	f("search_prefixes", "%", "")
	if got := strings.Split(find("search_ids", e.Labels.User), "\n"); len(got) != 20 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, "kind=user") }) {
		t.Errorf("user: %q", got)
	}

	for statement, indexes := range map[string][]string{
		"search_ids":      {"exchange_id_index", "conversation_id_index", "user_index", "tool_call_id_index", "run_id_index", "finding_id_index"},
		"search_prefixes": {"(exchange_id in ['019aa0b0', '019aa0b1'))", "conversation_id_index"},
	} {
		sql, params, err := statements[statement].Bind(queries.Values{"id": {"019aa0b0"}}, time.Now())
		must.Do(t, err)
		res := must.Get(s.Query(t.Context(), "EXPLAIN indexes = 1 "+sql, params))(t)
		plan := pick(res, "explain=")
		for _, index := range indexes {
			must.Contain(t, plan, index, statement)
		}
	}
}
