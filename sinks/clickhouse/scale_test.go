package clickhouse_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var scaleRows = flag.Int("rows", 0, "exchanges for TestScale, such as 10000000; 0 skips it")

// spans are how far back TestScale asks; the empty one is the default of each question.
var spans = []string{"", "7d", "30d"}

// TestScale asks every question of many rows, made by the engine: 30 days of exchanges with their findings, tool calls and
// runs, and the messages of up to 100,000 conversations. Every hundredth row is there twice, as after a redelivery. It
// prints, of five runs after a first one, the 95th percentile, which is the slowest.
//
//	go test ./sinks/clickhouse -run TestScale -rows 10000000 -v -timeout 60m
func TestScale(t *testing.T) {
	if *scaleRows <= 0 {
		t.Skip("NOT TESTED: give -rows 10000000")
	}
	s := open(t)
	begin := time.Now()
	fill(t, s, *scaleRows)
	t.Logf("filled in %.0f s", time.Since(begin).Seconds())
	settle(t, s)
	t.Logf("rows, parts and bytes by table:\n%s", query(t, s, `SELECT table, sum(rows), count(), formatReadableSize(sum(bytes_on_disk)) FROM system.parts
		WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table`, nil))
	conversation := query(t, s, "SELECT any(conversation_id) FROM (SELECT conversation_id FROM exchanges ORDER BY started_at DESC LIMIT 5000 OFFSET 1000)", nil)
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "query\tits own window s\t7 days s\t30 days s\trows\t")
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(tw, "%s\t", name)
		rows := 0
		for _, since := range spans {
			given := map[string]string{}
			for _, p := range q.Params {
				switch {
				case p.Name == "conversation_id":
					given[p.Name] = strings.TrimSpace(conversation)
				case p.Name == "since" && since != "":
					given[p.Name] = since
				case p.Required:
					given[p.Name] = "timeout"
				}
			}
			if _, ok := given["since"]; since != "" && !ok {
				fmt.Fprint(tw, "\t")
				continue
			}
			took, n := slowestOf5(t, s, q, given)
			rows = n
			fmt.Fprintf(tw, "%.3f\t", took.Seconds())
		}
		fmt.Fprintf(tw, "%d\t\n", rows)
	}
	if err := tw.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d exchanges, p95 of five warm runs:\n%s", *scaleRows, out.String())
}

func slowestOf5(t *testing.T, s *clickhouse.Sink, q queries.Query, given map[string]string) (slowest time.Duration, rows int) {
	t.Helper()
	for i := range 6 {
		begin := time.Now()
		params, err := q.Bind(given)
		if err != nil {
			t.Fatal(err)
		}
		for _, bound := range q.Bound {
			params[bound] = queries.DefaultPrices().Bound()
		}
		res, err := s.Query(t.Context(), q.SQL, params)
		if err != nil {
			t.Errorf("%s %v: %v", q.Name, given, err)
			return 0, 0
		}
		if i > 0 { // the first one warms up
			slowest = max(slowest, time.Since(begin))
		}
		rows = len(res.Rows)
	}
	return slowest, rows
}

// settle waits until the engine has merged what it merges by itself.
func settle(t *testing.T, s *clickhouse.Sink) {
	t.Helper()
	quiet := 0
	for deadline := time.Now().Add(10 * time.Minute); quiet < 3 && time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		if quiet++; strings.TrimSpace(query(t, s, "SELECT count() FROM system.merges", nil)) != "0" {
			quiet = 0
		}
	}
}

// fill makes n exchanges and what belongs to them, the older ones first, in inserts as large as memory allows.
func fill(t *testing.T, s *clickhouse.Sink, n int) {
	t.Helper()
	begin := time.Now().UTC().AddDate(0, 0, -30)
	number := strings.NewReplacer("{total}", fmt.Sprint(n), "{begin}", fmt.Sprint(begin.UnixMilli()), "{span}", fmt.Sprint((30 * 24 * time.Hour).Milliseconds()))
	exec := func(sql string) {
		t.Helper()
		if err := s.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.200s: %v", sql, err)
		}
	}
	const chunk = 500_000
	for from := range slices.Values(steps(n, chunk)) {
		to := min(from+chunk, n)
		source := fmt.Sprintf("numbers(%d, %d)", from, to-from)
		exec(number.Replace(strings.ReplaceAll(scaleExchanges, "{source}", source)))
		exec(number.Replace(strings.ReplaceAll(scaleExchanges, "{source}", fmt.Sprintf("(SELECT number FROM %s WHERE number %% 100 = 0)", source))))
		for _, sql := range scaleOthers {
			exec(strings.NewReplacer(
				"{from}", fmt.Sprint(2*from), "{to}", fmt.Sprint(2*to), // seq
			).Replace(sql))
		}
	}
	conversations := min(100_000, n/12)
	for from := range slices.Values(steps(conversations, 10_000)) {
		source := fmt.Sprintf("numbers(%d, %d)", from*20, min(10_000, conversations-from)*20)
		for _, sql := range scaleMessages {
			exec(number.Replace(strings.ReplaceAll(sql, "{source}", source)))
		}
	}
}

func steps(n, step int) (from []int) {
	for i := 0; i < n; i += step {
		from = append(from, i)
	}
	return from
}
