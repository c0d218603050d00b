package clickhouse_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/clickhouse/scaletest"
)

var scaleRows = flag.Int("rows", 0, "exchanges for TestScale, such as 10000000; 0 skips it")

// timeRanges are the values of since in TestScale; the empty one is the default of each query.
var timeRanges = []string{"", "7 days", "30 days"}

// baselines are lower bounds for queries that read all exchanges of a time range.
var baselines = []queries.Query{
	{Name: "(failed calls, without FINAL)", SQL: "SELECT countIf(failed) FROM exchanges WHERE started_at >= {since:DateTime64(9, 'UTC')}"},
	{Name: "(failed calls, with FINAL)", SQL: "SELECT countIf(failed) FROM exchanges_final WHERE started_at >= {since:DateTime64(9, 'UTC')}"},
}

// A cost is the cost of one query.
type cost struct {
	slowest     time.Duration // of five warm runs, about the 95th percentile
	rows        int           // in the result
	read, bytes float64       // rows and bytes read by the engine; 0 if unknown
}

// TestScale runs every query on many generated rows: 30 days of exchanges with their findings, tool calls and runs, and the
// messages and responses of the newest 100,000 conversations. One exchange in 100 is stored twice, as after a crash, and the tables
// have as many parts as the engine leaves after its merges.
//
//	go test ./sinks/clickhouse -run TestScale -rows 10000000 -v -timeout 60m
func TestScale(t *testing.T) {
	t.Parallel()
	if *scaleRows <= 0 {
		t.Skip("NOT TESTED: use -rows 10000000")
	}
	dsn := freshDSN(t)
	s := openDSN(t, dsn)
	must.Do(t, scaletest.Fill(*scaleRows, time.Now(), func(sql string) error { return s.Exec(t.Context(), sql) }, t.Logf))
	settle(t, s)
	measureScale(t, s, dsn)
}

// measureScale prints the cost of each query on s, with an explanation for each query of a second or more.
func measureScale(t *testing.T, s *clickhouse.Sink, dsn string) {
	t.Helper()
	t.Logf("%s\nrows, parts and bytes by table:\n%s", machine(t, s), query(t, s, `SELECT table, sum(rows), count(), formatReadableSize(sum(bytes_on_disk)) FROM system.parts
		WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table`, nil))
	conversation := strings.TrimSpace(query(t, s, "SELECT any(conversation_id) FROM (SELECT conversation_id FROM exchanges ORDER BY started_at DESC LIMIT 5000 OFFSET 1000)", nil))
	var table, slow strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "query\tdefault range\ts\tM rows\tMB\t7 days s\tM rows\tMB\t30 days s\tM rows\tMB\trows out\t")
	final := map[string]cost{}
	measure := func(q queries.Query, label string, given map[string]string) {
		window, rows := "", 0
		for _, p := range q.Parameters {
			if p.Name == "since" {
				window = p.Default
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t", label, window)
		costs := map[string]cost{}
		for _, since := range timeRanges {
			if since != "" && window == "" {
				fmt.Fprint(tw, "\t\t\t")
				continue
			}
			if since != "" {
				given["since"] = since
			}
			timeRange := cmp.Or(since, window)
			c, ok := costs[timeRange]
			if !ok {
				c = slowestOf5(t, s, dsn, q, given)
				costs[timeRange] = c
				t.Logf("%s, %s: %.3f s", label, cmp.Or(timeRange, "at any time"), c.slowest.Seconds())
				if c.slowest >= time.Second {
					fmt.Fprintln(&slow, explain(label, timeRange, q, c, final))
				}
			}
			if q.Name == baselines[1].Name {
				final[timeRange] = c
			}
			fmt.Fprintf(tw, "%.3f\t%.2f\t%.0f\t", c.slowest.Seconds(), c.read/1e6, c.bytes/1e6)
			rows = c.rows
		}
		fmt.Fprintf(tw, "%d\t\n", rows)
	}
	for _, q := range baselines {
		q.Parameters = []queries.Parameter{{Name: "since", Default: "1 day", Time: true}}
		measure(q, q.Name, map[string]string{})
	}
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(t)
		switch name {
		case "conversation":
			measure(q, name, map[string]string{"conversation_id": conversation})
		case "tool_replies":
			measure(q, name, map[string]string{"tool": "tool_7"})
		case "messages_with":
			for _, word := range []string{"needle", "timeout"} {
				measure(q, name+" "+word, map[string]string{"text": word})
			}
		default:
			measure(q, name, map[string]string{})
		}
	}
	must.Do(t, tw.Flush())
	if slow.Len() == 0 {
		slow.WriteString("none\n")
	}
	t.Logf("p95 of five warm runs:\n%s\nqueries of a second or more:\n%s", table.String(), slow.String())
}

// explain describes why a query is slow.
func explain(label, timeRange string, q queries.Query, c cost, final map[string]cost) string {
	line := fmt.Sprintf("%s, %s: %.2f s to read %.2f million rows, %.0f MB, on %d cores", label, cmp.Or(timeRange, "at any time"), c.slowest.Seconds(), c.read/1e6, c.bytes/1e6, runtime.NumCPU())
	f, ok := final[timeRange]
	switch {
	case strings.Contains(q.SQL, "FROM messages"):
		return line + ": bodies are read where the index contains the word"
	case strings.Contains(q.SQL, "FROM exchanges_final") && ok:
		return line + fmt.Sprintf(": FINAL of the %.2f million exchanges alone takes %.2f s", f.read/1e6, f.slowest.Seconds())
	}
	return line
}

func slowestOf5(t *testing.T, s *clickhouse.Sink, dsn string, q queries.Query, given map[string]string) (c cost) {
	t.Helper()
	for i := range 6 {
		begin := time.Now()
		sql, params, err := q.Bind(valuesOf(given), time.Now())
		must.Do(t, err)
		for _, bound := range q.Bound {
			params[bound] = price.Default().Bound()
		}
		if i == 0 { // warm-up
			c.read, c.bytes = reads(t, dsn, sql, params)
			continue
		}
		res, err := s.Query(t.Context(), sql, params)
		if err != nil {
			t.Errorf("%s %v: %v", q.Name, given, err)
			return cost{}
		}
		c.slowest = max(c.slowest, time.Since(begin))
		c.rows = len(res.Rows)
	}
	return c
}

// reads returns how many rows and bytes the engine reads for a query, which only HTTP reports.
func reads(t *testing.T, dsn, sql string, params map[string]string) (rows, bytes float64) {
	t.Helper()
	u := must.Get(url.Parse(dsn))(t)
	if u.Scheme == "clickhouse" {
		return 0, 0
	}
	values := url.Values{"database": {strings.Trim(u.Path, "/")}}
	for name, value := range params {
		values.Set("param_"+name, value)
	}
	u.Path, u.RawQuery = "/", values.Encode()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), strings.NewReader(sql+"\nFORMAT JSONCompact")))(t)
	req.Close = true // no connection outlives the test
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	var result struct {
		Statistics struct {
			Rows  float64 `json:"rows_read"`
			Bytes float64 `json:"bytes_read"`
		} `json:"statistics"`
	}
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %.500s", res.Status, err, body)
	} else if err := json.Unmarshal(body, &result); err != nil {
		t.Fatal(err)
	}
	return result.Statistics.Rows, result.Statistics.Bytes
}

// machine describes the machine of the measurement.
func machine(t *testing.T, s *clickhouse.Sink) string {
	t.Helper()
	line := func(file, key string) string {
		data, _ := os.ReadFile(file) // missing on systems other than Linux
		_, rest, _ := strings.Cut(string(data), key)
		rest, _, _ = strings.Cut(rest, "\n")
		return strings.Join(strings.Fields(strings.TrimLeft(rest, "\t :")), " ")
	}
	return fmt.Sprintf("%d cores of %s, %s, %s/%s, load %s\nClickHouse %s, embedded with %d MiB unless LLMTAP_TEST_CLICKHOUSE is set", runtime.NumCPU(), line("/proc/cpuinfo", "model name"),
		line("/proc/meminfo", "MemTotal:"), runtime.GOOS, runtime.GOARCH, line("/proc/loadavg", ""), strings.TrimSpace(query(t, s, "SELECT version()", nil)), chdb.Default().MemoryLimit>>20)
}

// settle waits until the background merges of the engine are complete.
func settle(t *testing.T, s *clickhouse.Sink) {
	t.Helper()
	begin, quiet := time.Now(), 0
	for deadline := begin.Add(10 * time.Minute); quiet < 3 && time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		if quiet++; strings.TrimSpace(query(t, s, "SELECT count() FROM system.merges", nil)) != "0" {
			quiet = 0
		}
	}
	t.Logf("merges took %.0f s", time.Since(begin).Seconds())
}
