package web

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fakeExplorer answers every statement with a table, and remembers it.
type fakeExplorer struct {
	table  *Table
	err    error
	sql    string
	params map[string]string
}

func (f *fakeExplorer) query(_ context.Context, sql string, params map[string]string) (*Table, error) {
	f.sql, f.params = sql, params
	return f.table, f.err
}

func writeCSV(w io.Writer, t *Table, _ string) error {
	out := csv.NewWriter(w)
	for _, r := range t.Rows {
		_ = out.Write([]string{fmt.Sprint(r...)})
	}
	out.Flush()
	return out.Error()
}

// explored returns a page of a server whose stored queries and own statements are answered by f.
func explored(t *testing.T, f *fakeExplorer, path string) (*http.Response, string) {
	t.Helper()
	return get(handler(t, Options{ClickHouse: f.query, Explorer: f.query, Write: writeCSV}), path)
}

// Every stored query has a page with a form for all its parameters.
func TestExploreForms(t *testing.T) {
	_, list := explored(t, &fakeExplorer{table: &Table{}}, "/explore/queries?service=a")
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(t)
		wantAll(t, list, "/explore/"+name+"?service=a")
		resp, body := explored(t, &fakeExplorer{table: &Table{}}, "/explore/"+name)
		required := false
		for _, p := range q.Parameters {
			if !p.Time {
				wantAll(t, body, `<input name="`+p.Name+`"`)
			}
			required = required || p.Required
		}
		if want := map[bool]string{true: "<p>Enter ", false: "llmtap query " + name}[required]; resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, no %q", name, resp.StatusCode, want)
		}
	}
	if resp, _ := explored(t, &fakeExplorer{}, "/explore/nonsense"); resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("unknown query: status %d", resp.StatusCode)
	}
}

func TestExploreResult(t *testing.T) {
	f := &fakeExplorer{table: &Table{
		Columns: []Column{
			{"service", "LowCardinality(String)"},
			{"cause", "String"},
			{"last_conversation_id", "String"},
			{"examples", "Array(String)"},
			{"failed_calls", "UInt64"},
			{"percent", "Nullable(Float64)"},
			{"attributes", "Map(String, String)"},
			{"at", "DateTime64(9, 'UTC')"},
		},
		Rows: [][]any{
			{hostile, hostile, hostile, []string{"e/1", hostile}, uint64(12345), 45.5, map[string]string{"tenant": hostile}, testNow},
			{"b", strings.Repeat("x", 1000), "", []string{}, uint64(1), nil, map[string]string{}, testNow},
		},
	}}
	_, body := explored(t, f, "/explore/causes?range=6h&cause=it's&stage=planner&attr=a%3D1&attr=b")
	wantAll(t, body, "2 rows", `href="/exchange/e%2F1"`, `href="/conversation/%22`, "12345", "45.5", `class="bar"`, `width="100.0"`, "/explore/causes?attr=a%3D1&amp;attr=b&amp;cause=it%27s&amp;format=csv&amp;range=6h&amp;stage=planner",
		`llmtap query causes --since 6h --cause &#39;it&#39;\&#39;&#39;s&#39; --stage planner --attr a=1 --attr b`, "cause = &#39;it\\&#39;s&#39;", "Edit it")
	harmless(t, body)
	if strings.Contains(body, "data-live") {
		t.Error("the page is refreshed")
	}
	if f.params["cause"] != "it's" || !strings.Contains(f.sql, "{cause:String}") {
		t.Errorf("bound %v to %s", f.params, f.sql)
	}
	// A query over time has a chart, with the names before the time as series.
	f.table = &Table{
		Columns: []Column{{"service", "String"}, {"stage", "String"}, {"time", "DateTime('UTC')"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}},
		Rows: [][]any{
			{"trips", "plan", testNow.Add(-30 * time.Minute), uint64(10), uint64(3)},
			{"trips", "plan", testNow.Add(-15 * time.Minute), uint64(10), uint64(4)},
			{hostile, "", testNow.Add(-time.Minute).Truncate(15 * time.Minute), uint64(10), uint64(0)},
		},
	}
	_, body = explored(t, f, "/explore/failures_over_time")
	wantAll(t, body, `aria-label="failed calls over time"`, "trips/plan <b>7</b>", "bar=calls", `aria-current="true">24h`)
	harmless(t, body)
	_, body = explored(t, f, "/explore/failures_over_time?bar=calls")
	wantAll(t, body, `aria-label="calls over time"`, "trips/plan <b>20</b>")
}

func TestExploreCSV(t *testing.T) {
	f := &fakeExplorer{table: &Table{Columns: []Column{{"a", "String"}}, Rows: [][]any{{hostile}}}}
	resp, body := explored(t, f, "/explore/causes?format=csv")
	if resp.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(resp.Header.Get("Content-Disposition"), `"causes-20261123-093000.csv"`) || !strings.Contains(body, "alert(1)") {
		t.Errorf("%v: %s", resp.Header, body)
	}
	f.table.Truncated = true
	if resp, _ := explored(t, f, "/explore/causes?format=csv"); !strings.Contains(resp.Header.Get("Content-Disposition"), `"causes-20261123-093000-only-first-1-rows.csv"`) {
		t.Errorf("of a part of the rows: %v", resp.Header)
	}
	f.err = errors.New("run query: code: 62, message: Syntax error")
	if resp, body = explored(t, f, "/explore/sql?format=csv&sql=x"); resp.StatusCode != http.StatusBadRequest || body != "Syntax error\n" {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	f.err = fmt.Errorf("dial: %w", ErrUnavailable)
	resp, _ = explored(t, f, "/explore/causes?format=csv")
	must.Equal(t, resp.StatusCode, http.StatusServiceUnavailable, "status")
}

// The statement of a viewer is run by the Explorer only, with the time range and the filters.
func TestExploreOwnSQL(t *testing.T) {
	f := &fakeExplorer{table: &Table{}}
	path := "/explore/sql?service=o'hara&sql=" + url.QueryEscape("SELECT 1 FROM exchanges_final WHERE {filter exchanges}")
	_, body := explored(t, f, path)
	if !strings.Contains(f.sql, "service = {service_0:String}") || f.params["service_0"] != "o'hara" || f.params["since"] == "" {
		t.Errorf("bound %v to %s", f.params, f.sql)
	}
	wantAll(t, body, "0 rows", "o\\&#39;hara", "llmtap query --sql &#39;SELECT 1", "{filter exchanges}</textarea>")
	f.sql = ""
	if _, body = explored(t, f, "/explore/sql"); f.sql != "" || !strings.Contains(body, "Enter a statement") {
		t.Errorf("ran %q", f.sql)
	}
	if _, body = explored(t, f, "/explore/sql?sql="+strings.Repeat("x", maxOwnSQL+1)); f.sql != "" || !strings.Contains(body, "longer than 16 KiB") {
		t.Errorf("ran a statement of %d bytes", len(f.sql))
	}
	var logged bytes.Buffer
	f.err = errors.New("run query: sendQuery: [HTTP 404] code: 47, message: Unknown expression `" + hostile + "`. (UNKNOWN_IDENTIFIER) (version 26.7 (official build))")
	h := handler(t, Options{Explorer: f.query, Logger: testLogger(&logged)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/explore/sql?sql=x", nil))
	wantAll(t, w.Body.String(), "This statement failed", "<pre>Unknown expression", "(UNKNOWN_IDENTIFIER)</pre>")
	harmless(t, w.Body.String())
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged.String())
	}
}

func TestInline(t *testing.T) {
	params := map[string]string{"a": `it's \ {b:String}`, "b": "x", "n": "50", "t": "2026-11-23 09:30:00.000000000", "s": "1 OR 1=1", "d": "2.5"}
	f := func(sql, want string) {
		t.Helper()
		must.Equal(t, inline(sql, params), want, "inline")
	}
	f("SELECT {a:String}, {b:String}", `SELECT 'it\'s \\ {b:String}', 'x'`)
	f("LIMIT {n:UInt32}", "LIMIT 50")
	f("x = {s:UInt32}", "x = CAST('1 OR 1=1', 'UInt32')")
	f("x = {d:Float64}", "x = CAST('2.5', 'Float64')")
	f("x > {t:DateTime64(9, 'UTC')}", `x > CAST('2026-11-23 09:30:00.000000000', 'DateTime64(9, \'UTC\')')`)
	f("x = {unknown:String}", "x = {unknown:String}")
	f("-- What?\n-- group G\n-- since 1 hour\n-- A note.\nSELECT 1 -- group\n", "-- What?\n-- A note.\nSELECT 1 -- group\n")
}

func testLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
