package web

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A query is built from the URL: a chart of the groups of the table, and numbers that lead to the calls behind them.
func TestBuild(t *testing.T) {
	f := func(path, group string, params map[string]string, wants ...string) {
		t.Helper()
		columns := []Column{{"group", "String"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"failed_percent", "Float64"}, {"p95", "Nullable(Float64)"}, {"cost", "Float64"}}
		by := &Table{Columns: append(columns, Column{"next", "String"}), Rows: [][]any{{group, uint64(1030), uint64(515), 50.0, 0.25, 0.00012, "1 x"}}}
		over := &Table{Columns: append(columns, Column{"time", "DateTime"})}
		for i := range 3 {
			over.Rows = append(over.Rows, []any{group, uint64(7), uint64(2), 28.6, 0.5, 0.1, testNow.Truncate(time.Minute).Add(-time.Duration(i) * 10 * time.Minute)})
		}
		got := map[string]string{}
		source := func(_ context.Context, sql string, given map[string]string) (*Table, error) {
			over, by := over, by
			maps.Copy(got, given)
			if strings.Contains(sql, "change over time") {
				return over, nil
			}
			return by, nil
		}
		resp, body := get(handler(t, Options{ClickHouse: source}), path)
		must.Equal(t, resp.StatusCode, http.StatusOK, "%s", path)
		wantAll(t, body, wants...)
		harmless(t, body)
		for name, want := range params {
			must.Equal(t, got[name], want, "%s: %s", path, name)
		}
	}
	f("/explore", "trips/plan", map[string]string{"by": "stage", "sort": "calls", "step": "60s", "groups": `["trips/plan"]`}, `<option value="calls" selected>`, "trips/plan <b>14</b>",
		`href="/traffic/calls?failed=yes&amp;service=trips&amp;stage=plan"`, `aria-sort="descending"`, `href="/explore?format=jsonl"`)
	f("/explore?measure=p95&by=attr&key=tenant&step=10+minutes&attr=vip&cause=x&range=6h", hostile, map[string]string{"by": "attr.tenant", "sort": "p95", "step": "600s", "cause_0": "x"},
		"Latency, 95%", `value="tenant"`, `<option value="10 minutes" selected>`, "/traffic/calls?attr=vip&amp;attr=tenant%3D%22", `class="line c1"`,
		"/explore/calls_over_time?attr=vip&amp;bar=p95&amp;by=attr.tenant&amp;cause=x&amp;range=6h&amp;step=10&#43;minutes")
	f("/explore?measure=cost&by=cause", "root cause x", nil, "/traffic/calls?cause=x&amp;sort=cost", "$0.00012")
	for _, wrong := range []string{"measure=x", "by=x", "by=attr", "by=attr.", "step=x", "step=1s&range=7d", "step=0"} {
		f("/explore?"+wrong, "a/b", map[string]string{"by": "stage"}, `class="problem" role="alert"`)
	}
}
