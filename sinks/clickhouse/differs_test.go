package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/differs"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/clickhouse/scaletest"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// differ returns what differs between two sets of calls.
func differ(t *testing.T, s *clickhouse.Sink, values queries.Values) *differs.Result {
	t.Helper()
	q := must.Get(queries.Get(differs.Query))(t)
	sql, params, err := q.Bind(values, time.Now())
	must.Do(t, err)
	res := must.Get(s.Query(t.Context(), sql, params))(t)
	return differs.Of(stored.Rows(res.Rows, func(column int) string { return res.Columns[column].Name }))
}

// texts returns a line for each part.
func texts(r *differs.Result) string {
	var lines []string
	for _, p := range r.Parts {
		lines = append(lines, fmt.Sprintf("%s: %d of %d, %d of %d", p, p.Hits, r.SomeHits, p.Others, r.SomeOthers))
	}
	return strings.Join(lines, "\n")
}

// The numbers are counted by hand from incident. What came with the version explains the same calls.
func TestDiffers(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := incident()
	for range 2 { // rows written twice must not be counted twice
		must.Do(t, s.Write(t.Context(), b))
	}
	f := func(want, sentence string, pairs ...string) {
		t.Helper()
		values := queries.Values{"since": {"3 hours"}, "service": {"trips"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			values[pairs[i]] = []string{pairs[i+1]}
		}
		r := differ(t, s, values)
		must.Equal(t, r.Sentence, sentence, "%v: sentence", pairs)
		must.Equal(t, texts(r), want, "%v: parts", pairs)
	}
	const bad, sentence = "version 1.5.0 and streaming yes: 10 of 10, 0 of 29", "only version 1.5.0 and streaming yes: 10 of 10 calls; 0 of 29 others"
	f(bad, sentence, "why", "tool_calls_dropped_on_save")
	f(bad, sentence, "rules", "tool_calls_dropped_on_save") // findings with a root cause
	f("", "", "why", "rate_limit")
	// Two sets that a person marks: a version, slow calls, and two times.
	const marked = "declared tools fedc00: 19 of 19, 0 of 20\nparameter temperature 0.9: 19 of 19, 0 of 20\nsystem prompt abcd00: 19 of 19, 0 of 20\ntool write_file: 19 of 19, 0 of 20"
	f(marked, "only declared tools fedc00: 19 of 19 calls; 0 of 20 others", "hits", "version=1.5.0")
	f("version 1.5.0: 19 of 19, 0 of 20\n"+marked, "only version 1.5.0: 19 of 19 calls; 0 of 20 others", "slower", "20")
	f("version 1.5.0: 19 of 19, 0 of 20\n"+marked, "only version 1.5.0: 19 of 19 calls; 0 of 20 others", "hits_since", b.Exchanges[20].StartedAt.Format(time.RFC3339Nano))
}

// A model fails in one region. Neither the model alone nor the region alone explains that.
func TestDiffersPair(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := sinktest.Rows(0, 400)
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.StartedAt, e.Status, e.Failed, e.Cause, e.RootCause = time.Now().Add(-time.Minute), 200, false, "", ""
		e.Attrs = map[string]string{"region": []string{"eu-west", "us-east"}[i%2], "tenant": fmt.Sprint("t", i%7)}
		e.Model = []string{"gpt-5-mini", "gpt-5"}[i/2%2]
		e.Messages, e.Labels.ServiceVersion = 3+i%5, "1.4.0"
		if i%4 == 0 && i%100 != 0 {
			e.Status, e.Failed, e.Cause = 500, true, "server_error"
		}
	}
	must.Do(t, s.Write(t.Context(), &sinks.Batch{Exchanges: b.Exchanges}))
	r := differ(t, s, queries.Values{})
	must.Equal(t, r.Sentence, "only model gpt-5-mini and region eu-west: 96 of 100 calls; 0 of 300 others", "sentence")
	must.Equal(t, texts(r), "model gpt-5-mini and region eu-west: 96 of 96, 4 of 304", "parts")
}

// The samples of the two groups are bounded separately: a few failures are compared completely with many other calls.
func TestDiffersSample(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), incident()))
	r := differ(t, s, queries.Values{"since": {"3 hours"}, "service": {"trips"}, "sample": {"11"}})
	if r.Hits != 10 || r.SomeHits != 10 || r.Others != 29 || r.SomeOthers == 0 || r.SomeOthers > 20 || !r.Sampled() {
		t.Errorf("%+v", r)
	}
}

// TestDiffersScale measures how long the comparison of failed calls with all others takes, beside a query that only counts them.
//
//	go test ./sinks/clickhouse -run TestDiffersScale -rows 1000000 -v -timeout 60m
func TestDiffersScale(t *testing.T) {
	t.Parallel()
	if *scaleRows <= 0 {
		t.Skip("NOT TESTED: use -rows 1000000")
	}
	s := open(t)
	must.Do(t, scaletest.Fill(*scaleRows, time.Now(), func(sql string) error {
		if strings.Contains(sql, "INTO exchanges") || strings.Contains(sql, "INTO findings") {
			return s.Exec(t.Context(), sql)
		}
		return nil // the query reads no other table
	}, t.Logf))
	settle(t, s)
	for _, pair := range []string{"", "hits=version=1.5.3", "slower=10", "why=rate_limit"} {
		values := queries.Values{"since": {"31 days"}}
		name, value, ok := strings.Cut(pair, "=")
		if ok {
			values[name] = []string{value}
		}
		for range 3 {
			began := time.Now()
			query(t, s, "SELECT countIf(failed) FROM exchanges_final", nil)
			t.Logf("failed calls counted: %v", time.Since(began))
			began = time.Now()
			r := differ(t, s, values)
			t.Logf("%s: %d and %d calls compared of %d and %d: %v\n%s\n%s", pair, r.SomeHits, r.SomeOthers, r.Hits, r.Others, time.Since(began), r.Sentence, texts(r))
		}
	}
}
