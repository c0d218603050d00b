package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// callRows are n calls as the query calls returns them.
func callRows(n int) *Table {
	t := &Table{Columns: []Column{{"started_at", "DateTime64"}, {"service", "String"}, {"status", "UInt16"}, {"cause", "String"}, {"seconds", "Float64"}, {"cost", "Nullable(Float64)"}, {"conversation_id", "String"}, {"exchange_id", "String"}, {"next", "String"}}}
	for i := range n {
		id := fmt.Sprintf("e%d", i)
		t.Rows = append(t.Rows, []any{testNow.Add(-time.Minute), hostile, uint16(400), hostile, 0.25, 0.00012, hostile, id, "7 " + id})
	}
	return t
}

func TestTraffic(t *testing.T) {
	f := func(path string, rows *Table, wants ...string) {
		t.Helper()
		resp, body := get(newTest(t, fakeSource{rows: map[string]*Table{"Which calls were made": rows, "by conversation, run, user": rows}}, ""), path)
		must.Equal(t, resp.StatusCode, http.StatusOK, "%s", path)
		wantAll(t, body, wants...)
		harmless(t, body)
	}
	f("/traffic/calls?service=a&cause=x", callRows(3), `href="/exchange/e0"`, "$0.00012", "0.25 s", "/traffic/runs?cause=x&amp;service=a", "sort=cost", `name="cause" value="x"`, `<span>cause</span> x`)
	f("/traffic/calls", callRows(trafficRows+1), `after=7&#43;e49`, "Next page")
	f("/traffic/calls?after=7+e49", callRows(1), "First page")
	f("/traffic/calls?follow=yes", callRows(1), "data-live data-tail", "Stop following")
	f("/traffic/calls?sort=cost&text=two+words&cost=0.5", callRows(1), `<span>text</span> two words`, `name="cost" value="0.5"`)
	f("/traffic/calls?text=x", &Table{}, "No calls are stored")
	f("/versions?service=a", &Table{}, `<form action="/traffic/calls" class="fields"`, "List such calls", `name="text"`)
	f("/traffic/calls?col=cost", callRows(1), `value="cost" checked`)
	by := &Table{Columns: []Column{{"group", "String"}, {"calls", "UInt64"}, {"failed_calls", "UInt64"}, {"main_reason", "String"}, {"last_call", "DateTime64"}, {"next", "String"}}, Rows: [][]any{{"c/1", uint64(1030), uint64(7), "root cause x", testNow, "1 c/1"}}}
	f("/traffic/conversations?range=6h", by, `href="/timeline?conversation=c%2F1&amp;range=6h"`, `href="/traffic/calls?conversation=c%2F1&amp;failed=yes&amp;range=6h"`, "1,030")
	f("/traffic/users", by, `href="/traffic/calls?user=c%2F1"`)
	by.Rows[0][0], by.Rows[0][3] = "probably cause x", "probably cause x"
	f("/traffic/users", by, "probably x")
	resp, _ := get(newTest(t, fakeSource{}, ""), "/traffic/nothing")
	must.Equal(t, resp.StatusCode, http.StatusNotFound, "an unknown list")
}

// The newest calls are read hour by hour, as far back as there are too few; a list in another order is read at once.
func TestNewest(t *testing.T) {
	f := func(path string, rows int, want string) {
		t.Helper()
		var since []string
		source := func(_ context.Context, sql string, params map[string]string) (*Table, error) {
			if !strings.Contains(sql, "Which calls were made") {
				return &Table{}, nil
			}
			from := must.Get(time.Parse("2006-01-02 15:04:05.999999999", params["since"]))(t)
			since = append(since, from.Format("02 15:04"))
			return callRows(rows * len(since)), nil
		}
		get(handler(t, Options{ClickHouse: source}), path)
		must.Equal(t, strings.Join(since, ", "), want, "%s", path)
	}
	f("/traffic/calls?from=24h", trafficRows+1, "23 08:30")
	f("/traffic/calls?from=24h", trafficRows/2+1, "23 08:30, 23 01:30")
	f("/traffic/calls?from=24h", 1, "23 08:30, 23 01:30, 22 09:30")
	f("/traffic/calls?from=24h&sort=cost", 1, "22 09:30")
	f("/traffic/calls?from=24h&after="+fmt.Sprint(testNow.Add(-5*time.Hour).UnixNano())+"+e1", trafficRows+1, "23 03:30")
}

// If the whole time range is too much for ClickHouse, a list has what is known of its end, and says so.
func TestTooMuch(t *testing.T) {
	f := func(path string, most time.Duration, rows int, wants ...string) {
		t.Helper()
		source := func(_ context.Context, sql string, params map[string]string) (*Table, error) {
			if from := must.Get(time.Parse("2006-01-02 15:04:05.999999999", params["since"]))(t); testNow.Sub(from) > most {
				return nil, fmt.Errorf("run query: %w", ErrTooMuch)
			}
			return callRows(rows), nil
		}
		_, body := get(handler(t, Options{ClickHouse: source}), path)
		wantAll(t, body, wants...)
		harmless(t, body)
	}
	f("/traffic/calls?from=24h&text=x", 9*time.Hour, 1, "Only since 01:30", "add a filter", `href="/exchange/e0"`)
	f("/traffic/calls?from=24h&text=x", time.Minute*8, 1, "Only since 09:22:30", `href="/exchange/e0"`)
	f("/traffic/calls?from=24h&text=x&sort=cost", time.Hour, trafficRows+1, "Only since 09:07:30", "Next page")
	f("/traffic/calls?from=24h&text=x", 0, 1, "needs more memory than there is")
}

// A file has all rows, with one head, from as many statements as are needed.
func TestExport(t *testing.T) {
	var after []string
	source := func(_ context.Context, _ string, params map[string]string) (*Table, error) {
		after = append(after, params["after"])
		if len(after) < 3 {
			return callRows(exportRows), nil
		}
		return callRows(2), nil
	}
	write := func(w io.Writer, rows *Table, _ string) error {
		_, err := fmt.Fprintf(w, "head\n%s", strings.Repeat("row\n", len(rows.Rows)))
		return err
	}
	h := handler(t, Options{ClickHouse: source, Write: write})
	resp, body := get(h, "/traffic/calls?format=csv")
	must.Equal(t, resp.Header.Get("Content-Disposition"), `attachment; filename="calls-20261123-093000.csv"`, "name of the file")
	must.Equal(t, strings.Count(body, "head\n"), 1, "heads")
	must.Equal(t, strings.Count(body, "row\n"), 2*exportRows+2, "rows")
	must.Equal(t, strings.Join(after, ","), ",7 e4999,7 e4999", "continued after")
}

func TestSuggest(t *testing.T) {
	h := newTest(t, fakeSource{rows: map[string]*Table{"by conversation, run, user": {Columns: []Column{{"group", "String"}, {"calls", "UInt64"}}, Rows: [][]any{{"root cause x", uint64(3)}}}}}, "")
	_, body := get(h, "/suggest/cause?service=a")
	must.Equal(t, strings.TrimSpace(body), `[["x",3]]`, "causes")
	// A stage is suggested as the filter takes it, once for all services.
	stages := &Table{Columns: []Column{{"group", "String"}, {"of_service", "String"}, {"calls", "UInt64"}}, Rows: [][]any{
		{"a/plan", "a", uint64(3)}, {"b/run", "b", uint64(2)}, {"b/", "b", uint64(2)}, {"b/plan", "b", uint64(1)},
	}}
	_, body = get(newTest(t, fakeSource{rows: map[string]*Table{"by conversation, run, user": stages}}, ""), "/suggest/stage")
	must.Equal(t, strings.TrimSpace(body), `[["plan",4],["run",2]]`, "stages")
	// A list that is empty because of a misspelt name says so.
	shops := fakeSource{rows: map[string]*Table{
		"by conversation, run, user": {Columns: []Column{{"group", "String"}, {"calls", "UInt64"}}, Rows: [][]any{{"shop", uint64(3)}}},
		"did the newest stored call": {Columns: []Column{{"newest", "DateTime64"}}, Rows: [][]any{{testNow}}},
		"Which calls were made":      {},
	}}
	for value, want := range map[string]string{"shopp": "No such call has the service “shopp”; did you mean “shop”?", "other": "No such call has the service “other”; there are shop."} {
		_, body = get(newTest(t, shops, ""), "/traffic/calls?service="+value)
		wantAll(t, body, want)
	}
	_, body = get(newTest(t, shops, ""), "/traffic/calls?service=shop")
	must.Equal(t, strings.Contains(body, "No such call"), false, "a known service")
	resp, _ := get(h, "/suggest/nothing")
	must.Equal(t, resp.StatusCode, http.StatusNotFound, "an unknown filter")
}

// A name of a user is looked up by its hash, too.
func TestUserByName(t *testing.T) {
	var got []string
	source := func(_ context.Context, sql string, params map[string]string) (*Table, error) {
		if strings.Contains(sql, "Which calls were made") {
			got = append(got, params["user_0"], params["user_1"])
		}
		return &Table{}, nil
	}
	get(handler(t, Options{ClickHouse: source, HashUser: func(name string) []string { return []string{"hash of " + name} }}), "/traffic/calls?user=ann")
	must.Equal(t, strings.Join(got, ","), "ann,hash of ann", "users")
}

// Users whose hashes have no key can be guessed; their list says so.
func TestNoUserKey(t *testing.T) {
	h := handler(t, Options{ClickHouse: fakeSource{}.options().ClickHouse, NoUserKey: hostile})
	_, body := get(h, "/traffic/users")
	must.Equal(t, strings.Count(body, `<p class="problem down">`), 1, "notes")
	harmless(t, body)
	_, body = get(h, "/traffic/calls")
	must.Equal(t, strings.Count(body, `<p class="problem down">`), 0, "notes of calls")
}

func TestTimeline(t *testing.T) {
	began := testNow.Add(-time.Hour)
	columns := []Column{{"kind", "String"}, {"name", "String"}, {"began", "DateTime64"}, {"seconds", "Float64"}, {"first_byte", "Float64"}, {"status", "Int64"}, {"failed", "Bool"}, {"cause", "String"}, {"messages", "Int64"}, {"input_tokens", "Nullable(Int64)"}, {"cost", "Nullable(Float64)"}, {"retry", "Int64"}, {"exchange", "String"}}
	rows := &Table{Columns: columns, Rows: [][]any{
		{"call", hostile, began, 2.0, 1.0, int64(200), false, "", int64(3), int64(1500), 0.5, int64(0), "e1"},
		{"tool", hostile, began.Add(2 * time.Second), 1.0, 0.0, int64(0), true, "missing", int64(0), nil, nil, int64(0), "e1"},
		{"call", "b", began.Add(10 * time.Minute), 1.0, 0.0, int64(400), true, hostile, int64(5), nil, nil, int64(0), "e2"},
	}}
	h := newTest(t, fakeSource{rows: map[string]*Table{"In which order did": rows}}, "")
	_, body := get(h, "/timeline?conversation=c1")
	wantAll(t, body, "Conversation c1", `x="0.0" width="500.0"`, `class="wait" x="0.0" width="250.0"`, `class="c1" x="500.0" width="250.0"`, "9 min in which nothing ran", `class="c1" x="750.0" width="250.0"`, "+2", "10 min", "1 call without a price")
	harmless(t, body)
	resp, _ := get(h, "/timeline")
	must.Equal(t, resp.StatusCode, http.StatusNotFound, "of nothing")
}

// An agent that another one called is indented below it, with its tools; calls of one agent that each have a span of their own are not,
// nor is an agent without the trace.
func TestNesting(t *testing.T) {
	columns := []Column{{"kind", "String"}, {"name", "String"}, {"began", "DateTime64"}, {"seconds", "Float64"}, {"exchange", "String"}, {"conversation", "String"}, {"of_service", "String"}, {"of_agent", "String"}, {"span", "String"}, {"trace", "String"}}
	rows := &Table{Columns: columns}
	for i, r := range [][]any{
		{"call", "plan", "e1", "c1", "shop", "buyer", "s1"},
		{"tool", "ask", "e1", "c1", "", "", ""},
		{"call", "search", "e2", "c2", "catalog", hostile, "s2"},
		{"tool", "find", "e2", "c2", "", "", ""},
		{"call", "rank", "e3", "c3", "ranker", "", "s3"},
		{"call", "chat", "e7", "c4", "other", "", ""},
		{"call", "search", "e4", "c2", "catalog", hostile, "s2"},
		{"call", "plan", "e5", "c1", "shop", "buyer", "s1"},
		{"call", "last", "e6", "c1", "shop", "buyer", "s4"},
	} {
		trace := "t1"
		if r[6] == "" {
			trace = ""
		}
		rows.Rows = append(rows.Rows, append([]any{r[0], r[1], testNow.Add(time.Duration(i-20) * time.Second), 0.5}, append(r[2:], trace)...))
	}
	_, body := get(newTest(t, fakeSource{rows: map[string]*Table{"In which order did": rows}}, ""), "/timeline?run=r1")
	var got []string
	for _, m := range regexp.MustCompile(`<tr class="(\w+ d\d)">`).FindAllStringSubmatch(body, -1) {
		got = append(got, m[1])
	}
	must.Equal(t, strings.Join(got, ", "), "call d0, tool d0, call d1, tool d1, call d2, call d0, call d1, call d0, call d0", "depths")
	must.Equal(t, strings.Count(body, "<small>ranker</small>"), 1, "names of the agent")
	harmless(t, body)
}

// Until the first call, the first page says how to send one; a store that does not answer is no reason to say so.
func TestFirstCall(t *testing.T) {
	f := func(rows *Table, err error, counted float64, want, no string) {
		t.Helper()
		o := fakeSource{rows: map[string]*Table{"newest stored call": rows}, err: err}.options()
		o.Refused = func() []string { return []string{"3 connections refused " + hostile} }
		o.Ways = func() []Way { return []Way{{"Python", hostile, hostile}} }
		o.Tallies = func(context.Context, string, time.Time, time.Time, time.Duration) ([]Series, error) {
			return []Series{{nil, []Point{{testNow, counted}}}}, nil
		}
		_, body := get(handler(t, o), "/")
		wantAll(t, body, want)
		must.Equal(t, strings.Contains(body, no), false, "%s", no)
		harmless(t, body)
	}
	newest := &Table{Columns: []Column{{"newest", "DateTime64"}}, Rows: [][]any{{testNow}}}
	f(&Table{}, nil, 0, "Waiting for the first call", "Why calls fail")
	f(&Table{}, nil, 0, "3 connections refused", "call of")
	f(newest, nil, 0, "Why calls fail", "Waiting for")
	f(&Table{}, nil, 1, "Why calls fail", "Waiting for")
	f(nil, ErrUnavailable, 3, "ClickHouse does not answer", "Waiting for")

	// A source that did not answer once, at the start or because the request was cancelled, says nothing about the next request.
	failed := ErrUnavailable
	o := Options{
		ClickHouse: func(context.Context, string, map[string]string) (*Table, error) { return &Table{}, failed },
		Tallies: func(context.Context, string, time.Time, time.Time, time.Duration) ([]Series, error) {
			return nil, failed
		},
		Ways: func() []Way { return nil },
	}
	h := handler(t, o)
	for _, want := range []string{"Why calls fail", "Waiting for the first call"} {
		_, body := get(h, "/")
		wantAll(t, body, want)
		failed = nil
	}
}
