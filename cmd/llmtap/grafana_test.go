package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/llmtap/llmtap/alerts/tsdb"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/grafana"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A grafanaDashboard is what the test reads of a dashboard's file.
type grafanaDashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Panels                  []grafanaPanel
	Templating              struct{ List []grafanaVariable }
}

type grafanaPanel struct {
	Title, Type, Description string
	Datasource               grafanaSource
	Targets                  []struct {
		Datasource   grafanaSource
		RawSQL, Expr string
		Format       any
	}
}

type grafanaSource struct{ Type, UID string }

type grafanaVariable struct {
	Name, Type string
	Query      any
	Datasource grafanaSource
}

// emptyInDemo are the panels without data in the demo, with the reason.
var emptyInDemo = map[string]string{}

// testGrafana runs the query of every panel of every dashboard against the demo, for all values of the variables and for one.
func testGrafana(t *testing.T, d *pagesDemo) {
	files, err := filepath.Glob("../../dashboards/grafana/*.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	client := must.Get(remote.NewClient(strings.TrimRight(d.fleet, "/"), "", certs.Client{}, ""))(t)
	g := &grafanaTest{t: t, fleet: d.fleet, client: client, metrics: scrapedTwice(t, d)}
	for _, file := range files {
		text := filetest.Read(t, file)
		var dashboard grafanaDashboard
		must.Do(t, json.Unmarshal(text, &dashboard), file)
		g.name, g.values = strings.TrimSuffix(filepath.Base(file), ".json"), map[string][]string{}
		g.dashboard(dashboard, string(text))
	}
}

type grafanaTest struct {
	t       *testing.T
	fleet   string
	client  *remote.Client
	metrics *tsdb.DB
	name    string
	values  map[string][]string // of a variable; nil: all
}

// used matches a variable: $name, ${name} or ${name:format}.
var used = regexp.MustCompile(`\$\{?(\w+)(?::(\w+))?\}?`)

func (g *grafanaTest) dashboard(d grafanaDashboard, text string) {
	g.t.Helper()
	known := map[string]grafanaVariable{}
	for _, v := range d.Templating.List {
		known[v.Name] = v
	}
	for _, m := range used.FindAllStringSubmatch(text, -1) {
		if _, ok := known[m[1]]; !ok && !strings.HasPrefix(m[1], "__") {
			g.t.Errorf("%s: there is no variable %s", g.name, m[1])
		}
	}
	if d.UID == "" || d.Title == "" || d.Description == "" || len(d.Panels) < 4 {
		g.t.Errorf("%s: incomplete: %+v", g.name, d)
	}
	for _, v := range d.Templating.List {
		switch v.Type {
		case "textbox":
			g.values[v.Name] = []string{v.Query.(string)}
		case "query":
			g.values[v.Name] = nil
		}
	}
	g.panels(d)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		g.source(known, v.Datasource)
		all := g.choices(v)
		if len(all) == 0 {
			g.t.Errorf("%s: the variable %s has no values", g.name, v.Name)
			continue
		}
		g.values[v.Name] = all[:1]
		if v.Name == "service" {
			g.values[v.Name] = []string{"checkout-agent"}
		}
		if v.Name == "stage" {
			g.values[v.Name] = []string{"planner", "executor"}
		}
	}
	g.panels(d)
}

// source fails for an unknown data source.
func (g *grafanaTest) source(known map[string]grafanaVariable, s grafanaSource) {
	g.t.Helper()
	name := strings.TrimSuffix(strings.TrimPrefix(s.UID, "${"), "}")
	if v := known[name]; v.Type != "datasource" || v.Query != s.Type {
		g.t.Errorf("%s: unknown data source %+v", g.name, s)
	}
}

func (g *grafanaTest) panels(d grafanaDashboard) {
	g.t.Helper()
	known := map[string]grafanaVariable{}
	for _, v := range d.Templating.List {
		known[v.Name] = v
	}
	for _, p := range d.Panels {
		if p.Description == "" || len(p.Targets) == 0 {
			g.t.Errorf("%s: the panel %s has no description or no query", g.name, p.Title)
		}
		for _, target := range p.Targets {
			g.source(known, target.Datasource)
			rows, err := 0, error(nil)
			switch {
			case target.Datasource.Type != "prometheus":
				rows, err = g.sql(target.RawSQL)
			case g.name == "collector":
				var v promql.Vector
				v, err = g.metrics.Query(g.t.Context(), g.expand(target.Expr, "regex"), time.Unix(testScrapeStart+45, 0))
				rows = len(v)
			default:
				rows, err = g.promQL(target.Expr)
			}
			_, mayBeEmpty := emptyInDemo[g.name+"/"+p.Title]
			if err != nil || rows == 0 && !mayBeEmpty {
				g.t.Errorf("%s: the panel %s has %d rows with %v, error %v", g.name, p.Title, rows, g.values, err)
			}
		}
	}
}

// expand replaces the variables of an expression as Grafana does, and the built-in ones.
func (g *grafanaTest) expand(text, format string) string {
	return used.ReplaceAllStringFunc(text, func(s string) string {
		m := used.FindStringSubmatch(s)
		values, ok := g.values[m[1]]
		switch {
		case m[1] == "__rate_interval":
			return "1m"
		case m[1] == "__interval_s":
			return "15"
		case !ok:
			return s
		case values == nil: // allValue, or a list of all, which a condition on all has removed
			return ".*"
		case m[2] == "raw":
			return values[0]
		case m[2] == "singlequote":
			return "'" + strings.Join(values, "','") + "'"
		case format == "regex" && len(values) > 1:
			return "(" + strings.Join(values, "|") + ")"
		}
		return strings.Join(values, ",")
	})
}

// The macros of the data source, as its documentation defines them:
// https://grafana.com/docs/plugins/grafana-clickhouse-datasource/latest/query-editor/#macros
var (
	conditionalAll = regexp.MustCompile(`\$__conditionalAll\((.*), \$(\w+)\)`)
	timeFilter     = regexp.MustCompile(`\$__timeFilter\((\w+)\)`)
	timeInterval   = regexp.MustCompile(`\$__timeInterval\((\w+)\)`)
)

func (g *grafanaTest) sql(sql string) (rows int, err error) {
	from, to := time.Now().Add(-6*time.Hour).Unix(), time.Now().Unix()
	sql = conditionalAll.ReplaceAllStringFunc(sql, func(s string) string {
		m := conditionalAll.FindStringSubmatch(s)
		if g.values[m[2]] == nil {
			return "1=1"
		}
		return m[1]
	})
	sql = timeFilter.ReplaceAllString(sql, fmt.Sprintf("${1} >= toDateTime(%d) AND ${1} <= toDateTime(%d)", from, to))
	sql = timeInterval.ReplaceAllString(sql, "toStartOfInterval(toDateTime($1), INTERVAL 15 second)")
	res, err := g.client.Query(g.t.Context(), g.expand(sql, ""), nil)
	if err != nil {
		return 0, err
	}
	return len(res.Rows), nil
}

func (g *grafanaTest) get(path string, params url.Values) (data json.RawMessage, err error) {
	resp, err := http.Get(g.fleet + "api/v1/" + path + "?" + params.Encode())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Status != "success" {
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, body.Error)
	}
	return body.Data, nil
}

func (g *grafanaTest) promQL(expr string) (rows int, err error) {
	now := time.Now().Unix()
	data, err := g.get("query_range", url.Values{"query": {g.expand(expr, "regex")}, "start": {fmt.Sprint(now - 600)}, "end": {fmt.Sprint(now)}, "step": {"15"}})
	var v struct{ Result []any }
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return len(v.Result), err
}

// choices returns the values of a variable.
func (g *grafanaTest) choices(v grafanaVariable) (out []string) {
	g.t.Helper()
	if v.Datasource.Type == "prometheus" {
		m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
		data, err := g.get("label/"+m[2]+"/values", url.Values{"match[]": {m[1]}})
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			g.t.Errorf("%s: the variable %s: %v", g.name, v.Name, err)
		}
		return out
	}
	sql := timeFilter.ReplaceAllString(v.Query.(string), "$1 >= toDateTime(0)")
	res, err := g.client.Query(g.t.Context(), sql, nil)
	if err != nil {
		g.t.Errorf("%s: the variable %s: %v", g.name, v.Name, err)
		return nil
	}
	for _, r := range res.Rows {
		out = append(out, fmt.Sprint(r[0]))
	}
	return out
}

// testScrapeStart is the time of the first scrape of scrapedTwice.
const testScrapeStart = 1_700_000_000

// scrapedTwice returns the metrics of the collector as a Prometheus stores them that has scraped them twice, half a minute apart.
func scrapedTwice(t *testing.T, d *pagesDemo) *tsdb.DB {
	t.Helper()
	db := tsdb.Open(tsdb.Options{Lookback: 5 * time.Minute, Step: time.Second})
	t.Cleanup(func() { _ = db.Close() })
	for i := range 2 {
		_, text := fetch(t, "http://"+running(t, d.dir).HTTPAddr+"/metrics", "")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families := must.Get(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnix(testScrapeStart + int64(i)*30)}, slices.Collect(maps.Values(families))...)
		must.Do(t, err)
		for _, s := range samples {
			b := labels.NewScratchBuilder(len(s.Metric) + 1)
			for k, v := range s.Metric {
				b.Add(string(k), string(v))
			}
			b.Add("instance", "collector")
			b.Sort()
			must.Get(db.Append(0, b.Labels(), s.Timestamp.Time(), float64(s.Value)))(t)
		}
	}
	return db
}

// Grafana's schema knows every field of the dashboards.
func TestGrafanaSchema(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	files := must.Get(filepath.Glob("../../dashboards/grafana/*.json"))(t)
	check := func(files ...string) string {
		t.Helper()
		python := pythontest.Interpreter(t, "grafana-foundation-sdk==1769699998!10.1.0")
		pythontest.Watch(t, "testdata")
		out, err := exec.CommandContext(t.Context(), python, append([]string{"testdata/grafana_schema.py"}, files...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	for _, file := range files { // so that the cached result depends on them
		text := filetest.Read(t, file)
		if strings.HasSuffix(file, "fleet.json") {
			wrong := filetest.Temp(t, "wrong.json", strings.Replace(string(text), `"graphTooltip"`, `"tooltip"`, 1))
			if out := check(wrong); !strings.HasSuffix(out, ".tooltip\n") {
				t.Errorf("an unknown field is not found: %q", out)
			}
		}
	}
	must.Equal(t, check(files...), "", "unknown fields")
}

// The dashboards choose the provisioned data sources.
func TestGrafanaProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			JSONData                     map[string]any    `yaml:"jsonData"`
			SecureJSONData               map[string]string `yaml:"secureJsonData"`
		}
	}
	must.Do(t, yaml.UnmarshalWithOptions([]byte(source(t, "deploy/grafana/datasources.yaml")), &sources, yaml.Strict()))
	files := grafana.Files()
	for _, s := range sources.Datasources {
		chosen := fmt.Sprintf("\"text\": %q,\n     \"value\": %q", s.Name, s.UID)
		if !slices.ContainsFunc(slices.Collect(maps.Values(files)), func(text []byte) bool { return strings.Contains(string(text), chosen) }) {
			t.Errorf("no dashboard chooses %s (%s)", s.Name, s.UID)
		}
	}
	must.Equal(t, len(sources.Datasources), 3, "data sources")
	for name, text := range files {
		must.Equal(t, string(text), source(t, "dashboards/grafana/"+name), "%s is not current: go generate ./dashboards/grafana", name)
	}
}
