package promapi

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// toolsEnv lists promtools, see alerts/rules. Beside one of them is a Prometheus.
const toolsEnv = "LLMTAP_TEST_PROMTOOL"

// tools returns the promtools to test with and the server; it skips t if they are missing.
func tools(t *testing.T) (promtools []string, prometheus string) {
	t.Helper()
	slowtest.SkipShort(t, "slow, and other processes are invisible to the race detector")
	promtools = filepath.SplitList(os.Getenv(toolsEnv))
	if len(promtools) == 0 {
		promtools = []string{"promtool"}
	}
	for _, tool := range promtools {
		path, err := exec.LookPath(filepath.Join(filepath.Dir(tool), "prometheus"))
		if filepath.Dir(tool) == "." {
			path, err = exec.LookPath("prometheus")
		}
		if err == nil {
			return promtools, path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no prometheus beside the tools of %s", toolsEnv)
	}
	t.Skipf("NOT TESTED: no prometheus; set %s, or install the package prometheus", toolsEnv)
	return nil, ""
}

// startPrometheus runs a Prometheus over the samples of e, that scrapes target, and returns its URL.
func startPrometheus(t *testing.T, binary, promtool string, e *engine.Engine, target string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	data := filepath.Join(dir, "data")
	out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", write("samples", openMetrics(t, e)), data).CombinedOutput()
	must.Do(t, err, string(out))
	config := write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
- job_name: fleet
  metrics_path: %s
  static_configs: [{targets: [%q]}]
`, FleetPath, strings.TrimPrefix(target, "http://")))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	if err := l.Close(); err != nil { // for Prometheus
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address="+addr, "--storage.tsdb.retention.time=1d")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	must.Do(t, cmd.Start())
	t.Cleanup(func() { // t.Context has ended
		_ = cmd.Wait() // error ignored: it was interrupted
		if t.Failed() {
			t.Logf("prometheus: %s", log.String())
		}
	})
	must.Wait(t, "prometheus is ready", func() bool {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}, func() any { return log.String() })
	return "http://" + addr
}

// openMetrics returns all samples of e, in the format that promtool imports.
func openMetrics(t *testing.T, e *engine.Engine) string {
	t.Helper()
	q := must.Get(e.Queryable().Querier(0, time.Now().UnixMilli()))(t)
	var b strings.Builder
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+"))
	for last := ""; set.Next(); {
		l := set.At().Labels()
		name := l.Get(model.MetricNameLabel)
		if name != last {
			fmt.Fprintf(&b, "# TYPE %s unknown\n", name)
			last = name
		}
		var pairs []string
		l.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.Name, l.Value))
			}
		})
		for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; {
			at, v := it.At()
			fmt.Fprintf(&b, "%s{%s} %v %d.%03d\n", name, strings.Join(pairs, ","), v, at/1000, at%1000)
		}
	}
	return b.String() + "# EOF\n"
}

// expressions are evaluated by both. Ranges of subqueries are not aligned with samples.
var expressions = []string{
	"llmtap_calls_total", `llmtap_calls_total{service=~"check.*|res.+"}`, `llmtap_calls_total{stage!~"p.*"}`, `{__name__=~"llmtap_.*",service="checkout"}`,
	"rate(llmtap_calls_total[1m])", "increase(llmtap_calls_total[10m])", "irate(llmtap_calls_total[30s])", "increase(llmtap_calls_total[5m] offset 3m)",
	"sum by (service) (rate(llmtap_failed_calls_total[5m])) / sum by (service) (rate(llmtap_calls_total[5m]))",
	"sum(rate(llmtap_calls_total[2m])) without (stage)", "topk(2, sum by (service) (increase(llmtap_calls_total[3m])))", "count by (cause) (llmtap_failed_calls_total)",
	"llmtap_calls_total unless on (service) llmtap_failed_calls_total", "llmtap_failed_calls_total > 100", "llmtap_calls_total > bool 700",
	"max_over_time(sum(llmtap_calls_total)[3m:7s])", "changes(llmtap_calls_total[5m])", "resets(llmtap_calls_total[5m])", "delta(llmtap_calls_total[77s])",
	"avg_over_time(llmtap_calls_total[90s])", "quantile_over_time(0.9, llmtap_calls_total[2m])", "absent(llmtap_calls_total{service=\"none\"})",
	`label_replace(llmtap_calls_total, "s", "$1", "service", "(.).*")`, "predict_linear(llmtap_calls_total[5m], 3600)", "stddev(llmtap_calls_total)",
	"sort_desc(llmtap_calls_total)", "1 / 0", "-1 / 0", "0 / 0", "1e-9 * 3", "12345678901234567890 * 1e9", "vector(time())", "scalar(sum(llmtap_calls_total))", "llmtap_calls_total[10s]",
	"rate(llmtap_calls_total[59s500ms])[1m:10s]", "none",
}

// The answers equal those of a real Prometheus over the same samples, to good requests and to bad ones; promtool asks both in the
// same way; and Prometheus scrapes the same counts.
func TestPrometheus(t *testing.T) {
	promtools, binary := tools(t)
	e := newEngine(t)
	ours := serve(t, e)
	theirs := startPrometheus(t, binary, filepath.Join(filepath.Dir(binary), "promtool"), e, ours)

	same := func(path string, params url.Values) {
		t.Helper()
		a, b := ask(t, ours, path, params), ask(t, theirs, path, params)
		if a.Status != b.Status || a.Kind != b.Kind {
			t.Errorf("%s %v: status %d %q %s\nPrometheus: %d %q %s", path, params, a.Status, a.Kind, a.Error, b.Status, b.Kind, b.Error)
			return
		}
		if a.Status != 200 || path == "rules" {
			return
		}
		if !strings.HasPrefix(path, "query") {
			must.Equal(t, string(a.Data), string(b.Data), "%s %v:\n%s\nPrometheus:\n%s", path, params, a.Data, b.Data)
			return
		}
		got, want := sortedResult(t, a), sortedResult(t, b)
		equal := len(got) == len(want)
		for i := 0; equal && i < len(got); i++ {
			equal = fmt.Sprint(got[i].Metric) == fmt.Sprint(want[i].Metric) && got[i].Value.equal(want[i].Value) && len(got[i].Values) == len(want[i].Values)
			for j := 0; equal && j < len(got[i].Values); j++ {
				equal = got[i].Values[j].equal(want[i].Values[j])
			}
		}
		if !equal {
			t.Errorf("%s %v:\n%.2000s\nPrometheus:\n%.2000s", path, params, a.Data, b.Data)
		}
	}
	for _, expr := range expressions {
		for _, seconds := range []int{130, 555, 905} {
			same("query", url.Values{"query": {expr}, "time": {fmt.Sprintf("%d.5", testStart.Unix()+int64(seconds))}})
		}
		if !strings.HasSuffix(expr, "s]") && !strings.HasPrefix(expr, "sort") {
			same("query_range", url.Values{"query": {expr}, "start": {fmt.Sprintf("%d.5", testStart.Unix()+60)}, "end": {fmt.Sprintf("%d.5", testStart.Unix()+1100)}, "step": {"13s"}})
		}
	}
	times := url.Values{"start": {testStart.Format(time.RFC3339)}, "end": {fmt.Sprint(testStart.Unix() + testSeconds)}}
	for _, match := range []string{"llmtap_calls_total", `{service="checkout"}`, `{stage=~".*odd.*"}`, "none"} {
		params := url.Values{"start": times["start"], "end": times["end"], "match[]": {match}}
		same("series", params)
		same("labels", params)
		same("label/stage/values", params)
	}
	same("label/none/values", times)
	for _, x := range badRequests {
		params := must.Get(url.ParseQuery(x.params))(t)
		if !x.stricter {
			same(x.path, params)
		}
	}

	asTool := func(tool, base string, args ...string) string {
		t.Helper()
		for i, a := range args {
			args[i] = strings.Replace(a, "URL", base, 1)
		}
		out, err := exec.CommandContext(t.Context(), tool, append([]string{"query"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s query %v: %v", tool, args, err)
		}
		return string(out)
	}
	for _, tool := range promtools {
		start, end := fmt.Sprint(testStart.Unix()), fmt.Sprint(testStart.Unix()+testSeconds)
		for _, args := range [][]string{
			{"instant", "--time=" + fmt.Sprint(testStart.Unix()+700), "URL", "sum by (service) (llmtap_calls_total)"},
			{"range", "--start=" + start, "--end=" + end, "--step=60s", "URL", `llmtap_calls_total{service="checkout"}`},
			{"series", "--start=" + start, "--end=" + end, "--match=llmtap_failed_calls_total", "URL"},
			{"labels", "--start=" + start, "--end=" + end, "URL", "stage"},
		} {
			got := asTool(tool, ours, append([]string(nil), args...)...)
			want := asTool(tool, theirs, append([]string(nil), args...)...)
			if !slices.Equal(sortedLines(got), sortedLines(want)) || got == "" {
				t.Errorf("%s query %v:\n%s\nPrometheus:\n%s", tool, args, got, want)
			}
		}
	}
	testScraped(t, e, ours, theirs)
}

// sortedLines returns the lines of a text; the order of series is not specified.
func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

// testScraped changes counts, and waits until Prometheus has the same values of the page of current values.
func testScraped(t *testing.T, e *engine.Engine, ours, theirs string) {
	t.Helper()
	second := testStart.Unix() + testSeconds
	for range 3 {
		for range 30 {
			add(t, e, second, analyzer.Count{Metric: analyzer.MetricCalls, Labels: call("checkout", "planner", "2.4.0"), N: 3})
			second++
		}
		add(t, e, second) // completes the step
		second++
		query := url.Values{"query": {"sum by (__name__, service, stage, cause) ({__name__=~\"llmtap_.*_total\"})"}, "time": {fmt.Sprint(second)}}
		want := sortedResult(t, ask(t, ours, "query", query))
		query = url.Values{"query": {"sum by (__name__, service, stage, cause) ({__name__=~\"llmtap_.*_total\",job=\"fleet\"})"}}
		var got []series
		must.Wait(t, fmt.Sprint("Prometheus has scraped ", want), func() bool {
			got = sortedResult(t, ask(t, theirs, "query", query))
			equal := len(got) == len(want) && len(got) > 0
			for i := 0; equal && i < len(got); i++ {
				equal = fmt.Sprint(got[i].Metric) == fmt.Sprint(want[i].Metric) && got[i].Value[1] == want[i].Value[1]
			}
			return equal
		}, func() any { return got })
	}
	const rises = `resets(llmtap_calls_total{job="fleet",service="checkout"}[1m]) == 0 and changes(llmtap_calls_total{job="fleet",service="checkout"}[1m]) >= 2`
	got := sortedResult(t, ask(t, theirs, "query", url.Values{"query": {rises}}))
	must.Equal(t, len(got), 1, "the scraped counter of checkout does not rise: %v", got)
}
