package promapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// testStart is the first second of the counts, and testSeconds their number. They end before now, so that no answer depends on it.
var testStart = time.Now().Add(-time.Hour).Truncate(time.Minute)

const testSeconds = 20 * 60

func call(service, stage, version string) map[string]string {
	return map[string]string{"service": service, "stage": stage, "service_version": version, "provider": "openai", "environment": "prod"}
}

// newEngine returns an engine with the counts of three stages. One begins late, and one ends early; the planner fails often enough
// for an alert.
func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	cfg := engine.Default()
	cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"} // the others take time
	e := enginetest.New(t, cfg, engine.Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	for second := range testSeconds {
		counts := []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: call("checkout", "planner", "2.4.0"), N: rnd.Uint64N(9)}}
		if second > 400 {
			failed := call("checkout", "planner", "2.4.0")
			failed["cause"], failed["status"] = "orphan_tool_reply", "400"
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: failed, N: rnd.Uint64N(5)},
				analyzer.Count{Metric: analyzer.MetricCalls, Labels: call("support", `odd "stage" \ é`, "1"), N: rnd.Uint64N(3)})
		}
		if second < 600 {
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: call("research", "reader", "0.1"), N: rnd.Uint64N(2)})
		}
		add(t, e, testStart.Unix()+int64(second), counts...)
	}
	return e
}

func add(t testing.TB, e *engine.Engine, second int64, counts ...analyzer.Count) {
	t.Helper()
	must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: second, Counts: counts}))
}

func serve(t testing.TB, engines ...*engine.Engine) string {
	t.Helper()
	of := func() []*engine.Engine { return engines }
	mux := http.NewServeMux()
	mux.Handle(Path, NewHandler(Options{Engines: of, Interval: time.Second, Version: "v1.2.3", Logger: slog.New(slog.DiscardHandler)}))
	mux.Handle(FleetPath, NewFleet(of, slog.New(slog.DiscardHandler)))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// at is a time between two samples. Prometheus 2 includes the sample at the start of a range, Prometheus 3 does not.
func at(seconds int) time.Time {
	return testStart.Add(time.Duration(seconds)*time.Second + 500*time.Millisecond)
}

func TestHandler(t *testing.T) {
	e := newEngine(t)
	t.Run("client", func(t *testing.T) { testClient(t, e) })
	t.Run("bad requests", func(t *testing.T) { testBadRequests(t, e) })
	t.Run("hostile queries", func(t *testing.T) { testHostileQueries(t, e) })
	t.Run("while adding", func(t *testing.T) { testQueryWhileAdding(t, e) })
	t.Run("fleet", func(t *testing.T) { testFleet(t, e) })
}

// What Prometheus scrapes has one series per counter.
func testFleet(t *testing.T, e *engine.Engine) {
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, serve(t, e)+FleetPath, nil))(t)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	if body := must.Get(io.ReadAll(resp.Body))(t); strings.Count(string(body), "\nllmtap_calls_total{") != 3 || strings.Contains(string(body), "_created") {
		t.Errorf("%s", body)
	}
}

// Prometheus's own client library understands every endpoint.
func testClient(t *testing.T, e *engine.Engine) {
	client := must.Get(api.NewClient(api.Config{Address: serve(t, e)}))(t)
	c, ctx := v1.NewAPI(client), t.Context()
	check := func(what string, err error, got any, want string) {
		t.Helper()
		if text := fmt.Sprint(got); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %.300s, error %v; want %q", what, text, err, want)
		}
	}
	v, _, _, err := c.Query(ctx, "count(llmtap_calls_total)", at(700))
	check("query", err, v, "{} => 3 ")
	v, _, _, err = c.Query(ctx, "1 + 1", at(700))
	check("scalar", err, v, "scalar: 2 ")
	v, _, _, err = c.Query(ctx, "llmtap_calls_total[3s]", at(700))
	check("matrix", err, v, "@[")
	v, warnings, _, err := c.Query(ctx, "llmtap_calls_total", at(700), v1.WithLimit(1))
	check("limit", err, len(v.(model.Vector)), "1")
	check("limit", err, warnings, "truncated")
	_, _, infos, err := c.Query(ctx, "sum by (a) (rate(llmtap_expected_service[1m]))", at(700))
	check("infos", err, infos, "")
	v, _, _, err = c.QueryRange(ctx, "sum(rate(llmtap_calls_total[1m]))", v1.Range{Start: at(100), End: at(1000), Step: 15 * time.Second})
	check("range", err, v, "{} =>")
	if err == nil {
		check("range", err, len(v.(model.Matrix)[0].Values), "61")
	}
	series, _, _, err := c.Series(ctx, []string{`llmtap_calls_total{service="checkout"}`, "llmtap_failed_calls_total"}, at(0), at(testSeconds))
	check("series", err, len(series), "2")
	series, _, _, err = c.Series(ctx, []string{"llmtap_failed_calls_total"}, at(0), at(100)) // they began later
	check("series", err, len(series), "0")
	names, _, _, err := c.LabelNames(ctx, nil, at(0), at(testSeconds))
	check("labels", err, names, "cause, environment, provider, service")
	values, _, _, err := c.LabelValues(ctx, "stage", []string{"llmtap_calls_total"}, at(0), at(testSeconds))
	check("label values", err, values, `[odd "stage" \ é planner reader]`)
	metadata, err := c.Metadata(ctx, "llmtap_calls_total", "")
	check("metadata", err, metadata, "counter Calls to models")
	build, err := c.Buildinfo(ctx)
	check("buildinfo", err, build, "v1.2.3")
	groups, err := c.Rules(ctx, nil)
	check("rules", err, len(groups.Groups), "")
	if err == nil {
		firing := 0
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if a := r.(v1.AlertingRule); a.State == "firing" {
					firing++
				}
			}
		}
		if firing == 0 {
			t.Error("no rule fires")
		}
	}
	groups, err = c.Rules(ctx, []string{`{severity="critical"}`})
	if err != nil || len(groups.Groups) == 0 {
		t.Errorf("critical rules: %+v, error %v", groups, err)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			a := r.(v1.AlertingRule)
			must.Equal(t, a.Labels["severity"], "critical", "%s of severity is among the critical rules", a.Name)
		}
	}
	alerts, err := c.Alerts(ctx)
	check("alerts", err, len(alerts.Alerts), "")
	if err == nil && (len(alerts.Alerts) == 0 || alerts.Alerts[0].Labels["alertname"] == "") {
		t.Errorf("alerts: %+v", alerts.Alerts)
	}
	_, err = c.QueryExemplars(ctx, "llmtap_calls_total", at(0), at(100))
	check("exemplars", err, "", "")
	formatted, err := c.FormatQuery(ctx, "sum( llmtap_calls_total )")
	check("format", err, formatted, "sum(llmtap_calls_total)")
	_, _, _, err = c.Query(ctx, "sum(", at(700))
	check("an error", nil, err, "bad_data: invalid parameter \"query\"")
}

// The version in buildinfo is that of the library.
func TestAPIVersion(t *testing.T) {
	text := must.Get(os.ReadFile("../../go.mod"))(t)
	v := regexp.MustCompile(`github.com/prometheus/prometheus v0\.(\d)(\d\d)\.(\d+)`).FindSubmatch(text)
	must.Equal(t, fmt.Sprintf("%s.%s.%s", v[1], strings.TrimPrefix(string(v[2]), "0"), v[3]), apiVersion, "version of the library and apiVersion")
}

// An answer is the status and the decoded body of a request.
type answer struct {
	Status    int
	Kind      string `json:"errorType"`
	Error     string
	Data      json.RawMessage
	ErrorText string `json:"-"`
}

func ask(t testing.TB, base, path string, params url.Values) answer {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base+Path+path, strings.NewReader(params.Encode())))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(path, "label/") || path == "rules" || path == "metadata" { // have no POST
		r.Method, r.Body, r.URL.RawQuery = http.MethodGet, http.NoBody, params.Encode()
		r.ContentLength = 0
	}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(t)
	var fields struct {
		Status, Error string
		ErrorType     string
		Data          json.RawMessage
	}
	must.Do(t, json.Unmarshal(text, &fields), path, params, "status", resp.StatusCode, string(text))
	return answer{Status: resp.StatusCode, Kind: fields.ErrorType, Error: fields.Error, Data: fields.Data}
}

// badRequests are refused in the same way by Prometheus, unless stricter is set.
var badRequests = []struct {
	path, params string
	status       int
	kind         string
	stricter     bool
}{
	{"query", "query=sum(", 400, "bad_data", false},
	{"query", "", 400, "bad_data", false},
	{"query", "query=up&time=NaN", 400, "bad_data", true},
	{"query", "query=up&time=yesterday", 400, "bad_data", false},
	{"query", "query=up&timeout=x", 400, "bad_data", false},
	{"query", "query=foo%2Bon(a)group_left()bar&time=0", 200, "", false},
	{"query", "query=%22a%22%2B1", 400, "bad_data", false},
	{"query", "query=count_values(%22%FF%22,vector(1))", 400, "bad_data", false},
	{"query", `query=label_replace(vector(1),"a","$1","b","(")`, 422, "execution", false},
	{"query", `query={__name__=~".*"}`, 400, "bad_data", false},
	{"query_range", "query=up&start=0&end=10&step=0", 400, "bad_data", false},
	{"query_range", "query=up&start=0&end=10&step=-1", 400, "bad_data", false},
	{"query_range", "query=up&start=0&end=10&step=NaN", 400, "bad_data", false},
	{"query_range", "query=up&start=10&end=0&step=1", 400, "bad_data", false},
	{"query_range", "query=up&start=0&end=1000000&step=1", 400, "bad_data", false},
	{"query_range", "query=up&start=0&step=1", 400, "bad_data", false},
	{"query_range", "query=up[5m]&start=0&end=10&step=1", 400, "bad_data", false},
	{"query_range", "query=up&start=-Inf&end=%2BInf&step=1", 400, "bad_data", true},
	{"series", "", 400, "bad_data", false},
	{"series", "match[]={", 400, "bad_data", false},
	{"series", "match[]={a=~\"(\"}", 400, "bad_data", false},
	{"labels", "match[]=sum(up)", 400, "bad_data", false},
	{"rules", "type=other", 400, "bad_data", false},
}

func testBadRequests(t *testing.T, e *engine.Engine) {
	base := serve(t, e)
	for _, x := range badRequests {
		params := must.Get(url.ParseQuery(x.params))(t)
		if got := ask(t, base, x.path, params); got.Status != x.status || got.Kind != x.kind {
			t.Errorf("%s %s: status %d, %q %.100s; want %d, %q", x.path, x.params, got.Status, got.Kind, got.Error, x.status, x.kind)
		}
	}
	for path, status := range map[string]int{"targets": 404, "admin/tsdb/snapshot": 404, "status/config": 404} {
		if got := ask(t, base, path, nil); got.Status != status || got.Kind != "not_found" {
			t.Errorf("%s: status %d, %q", path, got.Status, got.Kind)
		}
	}
	if got := ask(t, serve(t), "query", url.Values{"query": {"1"}}); got.Status != 503 || !strings.Contains(got.Error, "NATS") {
		t.Errorf("without tallies: status %d, %s", got.Status, got.Error)
	}
}

// Hostile expressions end soon, with an error.
func testHostileQueries(t *testing.T, e *engine.Engine) {
	base := serve(t, e)
	for name, expr := range map[string]string{
		"5 MB":         strings.Repeat("a", 5<<20),
		"parentheses":  strings.Repeat("(", maxExpr/2-1) + "1" + strings.Repeat(")", maxExpr/2-1),
		"signs":        strings.Repeat("-", maxExpr-1) + "1",
		"not UTF-8":    "up{a=\"\xff\xfe\"}",
		"zero byte":    "up\x00",
		"samples":      "sum_over_time((count_over_time({__name__=~\".+\"}[1h:1s]))[1h:1s])",
		"long regex":   `llmtap_calls_total{service=~"` + strings.Repeat("(a|b)*", 2000) + `"}`,
		"nested":       "max_over_time(max_over_time(vector(1)[20h:1s])[20h:1s])",
		"a huge range": "max_over_time(vector(1)[200y:1s])",
	} {
		begin := time.Now()
		got := ask(t, base, "query", url.Values{"query": {expr}, "time": {fmt.Sprint(at(1000).Unix())}, "timeout": {"2s"}})
		t.Logf("%s: status %d after %v: %.120s", name, got.Status, time.Since(begin).Round(time.Millisecond), got.Error)
		if got.Status == 500 {
			t.Errorf("%s: status %d", name, got.Status)
		}
	}
}

// Queries run while counts are added, and see no sample that is half written; the race detector watches.
func testQueryWhileAdding(t *testing.T, e *engine.Engine) {
	base := serve(t, e)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			got := ask(t, base, "query_range", url.Values{"query": {"sum(increase(llmtap_calls_total[1m]))"}, "start": {fmt.Sprint(testStart.Unix())}, "end": {fmt.Sprint(testStart.Unix() + 2*testSeconds)}, "step": {"7"}})
			must.Equal(t, got.Status, http.StatusOK, "status: %s", got.Error)
		}
	}()
	for second := range int64(300) {
		add(t, e, testStart.Unix()+testSeconds+second, analyzer.Count{Metric: analyzer.MetricCalls, Labels: call("checkout", "planner", "2.4.0"), N: uint64(second) % 300})
	}
	stop()
	<-done
}

// sortedResult decodes the result of a query, sorted by series.
func sortedResult(t *testing.T, a answer) []series {
	t.Helper()
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	var out []series
	err := json.Unmarshal(a.Data, &data)
	if err == nil && data.ResultType != "scalar" {
		err = json.Unmarshal(data.Result, &out)
	} else if err == nil {
		out = make([]series, 1)
		err = json.Unmarshal(data.Result, &out[0].Value)
	}
	must.Do(t, err, a.Data)
	slices.SortFunc(out, func(a, b series) int { return strings.Compare(fmt.Sprint(a.Metric), fmt.Sprint(b.Metric)) })
	return out
}

type series struct {
	Metric map[string]string
	Value  point
	Values []point
}

// A point is a time in Unix seconds and a value.
type point [2]float64

func (p *point) UnmarshalJSON(text []byte) error {
	var v string
	if err := json.Unmarshal(text, &[]any{&p[0], &v}); err != nil {
		return err
	}
	_, err := fmt.Sscan(v, &p[1])
	return err
}

// equal compares values as exactly as the order of additions allows.
func (p point) equal(o point) bool {
	return p[0] == o[0] && (p[1] == o[1] || math.Abs(p[1]-o[1]) <= 1e-12*math.Abs(o[1]) || math.IsNaN(p[1]) && math.IsNaN(o[1]))
}

// Any parameters get an answer in JSON, with an error that is the client's.
func FuzzHandler(f *testing.F) {
	e := newEngine(f)
	h := NewHandler(Options{Engines: func() []*engine.Engine { return []*engine.Engine{e} }, Interval: time.Second, Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	for _, path := range []string{
		"query?query=up", "query_range?query=rate(llmtap_calls_total[5m])&start=1e9&end=1e9&step=15", "series?match[]={__name__=~%22.*%22}",
		"labels?limit=-1", "label/stage/values?start=2026-01-01T00:00:00Z", "query?query=1&time=NaN&timeout=1e300", "parse_query?query=sum(", "rules?type=alert",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(Path + path)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 300 && w.Code < 400 { // another way to write the path
			return
		}
		if w.Code == http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
	})
}
