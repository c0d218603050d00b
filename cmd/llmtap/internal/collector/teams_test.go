package collector

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts/promapi"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	problemsapi "github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// leakFilters select the calls of a team.
const leakFilters = "service={service}"

var leakPages = map[string][]leakRequest{
	"GET /{$}":             get("/", "/?"+leakFilters, "/?range=6h&environment={environment}"),
	"GET /explore":         get("/explore", "/explore?by=service", "/explore?by=attr.tenant&"+leakFilters),
	"GET /explore/{query}": slices.Concat(get("/explore/queries", "/explore/causes?format=csv", "/explore/sql"), noRows(get("/explore/sql?sql=SELECT+service,+stage,+error_text+FROM+exchanges"))),
	"GET /search": get("/search", "/search?q={conversation}", "/search?q={call}", "/search?q={user}", "/search?q={text}", "/search?q={conv}", "/search?q={run}", "/search?q={alert}",
		"/search?q=response", "/search?q=say", "/search?q=reply"),
	"GET /alerts":                     get("/alerts", "/alerts?"+leakFilters),
	"POST /alerts/{id}/acknowledge":   post("/alerts/{alert}/acknowledge", ""),
	"POST /alerts/{id}/unacknowledge": post("/alerts/{alert}/unacknowledge", ""),
	"POST /alerts/{id}/silence":       post("/alerts/{alert}/silence", "for=1h&comment=c"),
	"POST /silences":                  slices.Concat(post("/silences", "for=1h&comment=c&matchers="+url.QueryEscape(`service="{service}"`)), post("/silences", "for=1h&comment=c&matchers="+url.QueryEscape(`service=~"service.*"`)), post("/silences", "for=1h&comment=c&matchers=severity%3Dwarning")),
	"POST /silences/{id}/expire":      post("/silences/{silence}/expire", ""),
	"GET /alerts/backtest":            get("/alerts/backtest?rule=Anything", "/alerts/backtest?rule={rule}", "/alerts/backtest"),
	"GET /versions":                   get("/versions", "/versions?"+leakFilters),
	"GET /calls":                      get("/calls", "/calls?"+leakFilters),
	"GET /traffic/{kind}":             traffics(),
	"GET /timeline":                   get("/timeline", "/timeline?conversation={conversation}", "/timeline?"+leakFilters),
	"GET /suggest/{filter}":           suggestions(),
	"GET /providers":                  get("/providers", "/providers?"+leakFilters),
	"GET /problems":                   get("/problems", "/problems?"+leakFilters),
	"GET /problem/{id}":               get("/problem/{problem}"),
	"POST /problem/{id}/assign":       post("/problem/{problem}/assign", "assignee=x"),
	"POST /problem/{id}/resolve":      post("/problem/{problem}/resolve", ""),
	"POST /problem/{id}/ignore":       post("/problem/{problem}/ignore", "for=1h"),
	"POST /problem/{id}/reopen":       post("/problem/{problem}/reopen", ""),
	"POST /problem/{id}/accept":       post("/problem/{problem}/accept", ""),
	"GET /incident":                   get("/incident?why=orphan_tool_reply", "/incident?why=orphan_tool_reply&"+leakFilters),
	"GET /incident/{id}":              get("/incident/{alert}"),
	"GET /conversation/{id}":          get("/conversation/{conversation}"),
	"GET /exchange/{id}":              get("/exchange/{call}"),
	"GET /exchange/{id}/raw":          get("/exchange/{call}/raw?part=request", "/exchange/{call}/raw?part=answer", "/exchange/{call}/raw?part=0"),
	"GET /views":                      get("/views", "/views?of=/problems"),
	"POST /views":                     slices.Concat(post("/views", "view={view}&url=/problems"), post("/views", "view=two&url="+url.QueryEscape("/?service={service}"))),
	"POST /views/rename":              post("/views/rename", "old={view}&view=stolen"),
	"POST /views/delete":              post("/views/delete", "old={view}"),
	"GET /live":                       get("/live"),
	"GET /audit":                      refused(get("/audit", "/audit?format=csv")),
	"GET /login":                      get("/login"),
	"POST /login":                     refused(post("/login", "token=x")),
	"POST /logout":                    post("/logout", ""),
	"GET /static/":                    get("/static/style.css"),
	"GET /":                           get("/nothing", "/{service}"),
}

func traffics() (out []leakRequest) {
	for _, kind := range []string{"calls", "conversations", "runs", "users"} {
		for _, query := range []string{"", "?format=csv", "?format=jsonl", "?" + leakFilters, "?text=say", "?failed=yes"} {
			out = append(out, get("/traffic/"+kind+query)...)
		}
	}
	return out
}

func suggestions() (out []leakRequest) {
	for _, name := range []string{"service", "stage", "environment", "version", "provider", "model", "status", "cause", "tool", "user", "attr", "conversation", "run"} {
		out = append(out, get("/suggest/"+name, "/suggest/"+name+"?"+leakFilters)...)
	}
	return out
}

var leakAPI = map[string][]leakRequest{
	"GET /healthz":             get("/healthz"),
	"GET /readyz":              get("/readyz"),
	"GET /metrics":             refused(get("/metrics")),
	"GET " + RefusedPath:       refused(get(RefusedPath)),
	"GET " + promapi.FleetPath: refused(get(promapi.FleetPath)),
	"POST " + remote.Path:      refused(slices.Concat(post(remote.Path, `{"sql":"SELECT * FROM exchanges"}`), post(remote.Path, `{"sql":"SELECT body FROM messages"}`))),
	"GET " + silences.Path:     get(silences.Path+"silences", silences.Path+"silence/{silence}", silences.Path+"alerts", silences.Path+"alerts/groups", silences.Path+"receivers", silences.Path+"status"),
	silences.Path: slices.Concat(post(silences.Path+"silences", `{"matchers":[{"name":"service","value":"service.*","isRegex":true,"isEqual":true}],"startsAt":"2026-01-01T00:00:00Z","endsAt":"2099-01-01T00:00:00Z","createdBy":"x","comment":"c"}`),
		[]leakRequest{{method: http.MethodDelete, path: silences.Path + "silence/{silence}"}}),
	"GET " + problemsapi.Path:       get(problemsapi.Path, problemsapi.Path+"?service={service}"),
	"GET " + problemsapi.Path + "/": get(problemsapi.Path + "/{problem}"),
	problemsapi.Path:                post(problemsapi.Path, "{}"),
	problemsapi.Path + "/":          post(problemsapi.Path+"/{problem}", `{"action":"assign","assignee":"x"}`),
	promapi.Path: get(
		promapi.Path+"query?query=llmtap_calls_total", promapi.Path+"query?query=sum(llmtap_calls_total)", promapi.Path+"query?query=sum+by+(service)+(rate(llmtap_calls_total[5m]))",
		promapi.Path+"query?query=llmtap_failed_calls_total{service=%22{service}%22}", promapi.Path+"query_range?query=llmtap_calls_total&start={now}&end={now}&step=1",
		promapi.Path+"series?match[]={__name__=~%22.%2B%22}", promapi.Path+"labels", promapi.Path+"label/service/values", promapi.Path+"label/stage/values", promapi.Path+"label/model/values",
		promapi.Path+"metadata", promapi.Path+"rules", promapi.Path+"alerts", promapi.Path+"parse_query?query=a", promapi.Path+"format_query?query=a", promapi.Path+"status/buildinfo",
		promapi.Path+"query_exemplars?query=a", promapi.Path+"label/service_version/values"),
	mcpserver.Path:    nil, // below
	tokens.Path:       refused(get(tokens.Path)),
	tokens.Path + "/": refused([]leakRequest{{method: http.MethodDelete, path: tokens.Path + "/cobaltowl"}}),
}

// leakTools are the arguments with which the tools of MCP are called.
var leakTools = map[string][]string{
	"whats_wrong": {`{}`, `{"service":"{service}"}`},
	"incident":    {`{}`, `{"service":"{service}","why":"orphan_tool_reply"}`, `{"why":"orphan_tool_reply"}`},
	"problems":    {`{}`, `{"id":"{problem}"}`, `{"service":"{service}"}`},
	"show":        {`{"id":"{call}"}`, `{"id":"{conversation}"}`, `{"id":"{conversation}","tool":"{tool}"}`},
	"query":       nil, // each stored query
	"sql":         {`{"sql":"SELECT * FROM exchanges_final"}`, `{"sql":"SELECT body FROM messages"}`},
	"explain":     {`{"error":"x"}`},
	"lint":        {`{"history":"[]"}`},
	"repair":      {`{"history":"[]"}`},
	"rules":       {`{}`},
	"backtest":    {`{}`, `{"rules":"groups: [{name: a, rules: [{alert: A, expr: 'sum by (service, stage) (increase(llmtap_failed_calls_total[10m])) > 0'}]}]","since":"1h"}`},
	"acknowledge": {`{"id":"{problem}"}`},
	"assign":      {`{"id":"{problem}","to":"x"}`},
	"resolve":     {`{"id":"{problem}"}`},
	"silence":     {`{"id":"{problem}","for":"1h"}`},
	"reopen":      {`{"id":"{problem}"}`},
}

// leakValues returns the parameters with which a stored query is run.
func leakValues(t *testing.T, name string) map[string]string {
	out := map[string]string{}
	for _, p := range must.Get(queries.Get(name))(t).Parameters {
		switch {
		case p.Name == "conversation_id" || p.Name == "conversation":
			if p.Required {
				out[p.Name] = "{conversation}"
			}
		case p.Name == "tool" && p.Required:
			out[p.Name] = "{tool}"
		case p.Name == "text" && p.Required:
			out[p.Name] = "say"
		case p.Name == "rule" && p.Required:
			out[p.Name] = "orphan_tool_reply"
		case p.Required:
			out[p.Name] = "x"
		}
	}
	return out
}

// A team sees nothing of another one, whatever it asks for, and an admin sees both.
func TestTeamsLeakNothing(t *testing.T) {
	t.Parallel()
	slowtest.Skip(t)
	collectortest.NeedClickHouse(t)
	w := newLeakWorld(t, func(*config.Config) {})
	_, text := w.send(w.teams[0].token, w.pages, get("/views?of=/problems")[0])
	if m := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text); m != nil {
		w.form = m[1]
	}
	for _, reads := range []bool{true, false} { // what changes something comes last
		for base, requests := range map[string]map[string][]leakRequest{w.pages: leakPages, w.api: leakAPI} {
			for _, route := range slices.Sorted(maps.Keys(requests)) {
				for _, r := range requests[route] {
					if (r.method == http.MethodGet) == reads {
						w.try(base, route, r)
					}
				}
			}
		}
		if reads {
			w.tools()
		}
	}
	for _, name := range queries.Names() {
		values := url.Values{}
		for k, v := range leakValues(t, name) {
			values.Set(k, v)
		}
		path := "/explore/" + name + "?" + strings.NewReplacer("%7B", "{", "%7D", "}").Replace(values.Encode())
		w.try(w.pages, "explore", get(path)[0])
		w.try(w.pages, "explore", get(path + "&format=csv")[0])
		stored := map[string]any{"name": name, "values": values, "at": time.Now()}
		w.try(w.api, "stored query", leakRequest{method: http.MethodPost, path: remote.Path, body: jsonText(t, map[string]any{"sql": "SELECT * FROM exchanges", "params": map[string]string{}, "stored": stored}), reads: true})
	}
	for _, sql := range rows.Statements() { // those of show, repair, query and tail
		params := map[string]string{
			"id": "{call}", "conversation": "{conversation}", "exchange": "", "self": "", "tool": "{tool}", "exchanges": "['{call}']", "ids": "['x']", "at": "2100-01-01 00:00:00",
			"n": "1000", "limit": "1000", "name": "", "from": "2020-01-01 00:00:00", "begun": "2020-01-01 00:00:00", "rule": "", "failed": "false",
		}
		if strings.Contains(sql, "{filter ") {
			body := jsonText(t, map[string]any{"sql": "SELECT * FROM exchanges", "params": params, "stored": map[string]any{"name": sql}})
			w.try(w.api, "tail", leakRequest{method: http.MethodPost, path: remote.Path, body: body, reads: true})
			continue
		}
		for _, id := range []string{"{call}", "{conversation}"} {
			params["id"] = id
			w.try(w.api, "show", leakRequest{method: http.MethodPost, path: remote.Path, body: jsonText(t, map[string]any{"sql": sql, "params": params}), reads: true})
		}
	}
	for i, x := range w.teams {
		w.show(x, w.teams[1-i])
	}
	for _, x := range w.teams {
		for _, word := range leakWords {
			for _, who := range []string{"", "admin "} {
				if !w.seen[who+x.mark(word)] {
					t.Errorf("%s%s is in no answer: the test proves nothing about it", who, x.mark(word))
				}
			}
		}
	}
}

// Each route has requests in TestTeamsLeakNothing.
func TestRoutesOfTeams(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) { cfg.Roles = []string{config.RoleUI} })
	t.Cleanup(c.Close)
	for route := range maps.Keys(c.ui.pages.Routes()) {
		if _, ok := leakPages[route]; !ok {
			t.Errorf("the route %s is not tested", route)
		}
	}
	for route := range maps.Keys(c.routes(c.guard, c.guard.gate(c.machines)).Routes()) {
		if _, ok := leakAPI[route]; !ok {
			t.Errorf("the route %s is not tested", route)
		}
	}
}

// Texts are for members of the role texts and admins: others see structure and causes, wherever they look.
func TestTextsNeedTheirRole(t *testing.T) {
	t.Parallel()
	collectortest.NeedClickHouse(t)
	slowtest.Skip(t)
	w := newLeakWorld(t, func(cfg *config.Config) {
		cfg.UI.OIDC.Issuer, cfg.UI.OIDC.ClientID, cfg.UI.OIDC.Roles = "http://127.0.0.1:1", "llmtap", access.Groups{Viewer: []string{"staff"}, Texts: []string{"support"}}
	})
	x := w.teams[0]
	reader := create(t, w.api, "reader", "viewer") // of all services
	seen, admin := "", 0
	check := func(base string, r leakRequest) {
		t.Helper()
		r.path, r.body = x.fill(r.path), x.fill(r.body)
		sent, _ := url.QueryUnescape(r.path + r.body)
		status, text := w.send(reader, base, r)
		if strings.Contains(text, x.mark("text")) && !strings.Contains(sent, x.mark("text")) || status >= 500 {
			t.Errorf("%s %s %s: status %d, contains a text: %s", r.method, r.path, r.body, status, excerpt(text, []string{x.mark("text")}))
		}
		seen += text
		if _, text = w.send("s3cret", base, r); strings.Contains(text, x.mark("text")) && !strings.Contains(sent, x.mark("text")) {
			admin++
		}
	}
	for _, list := range leakPages {
		for _, r := range list {
			if r.method == http.MethodGet && r.path != "/live" {
				check(w.pages, r)
			}
		}
	}
	check(w.pages, get("/exchange/{call}/raw?part=1")[0])
	for _, name := range queries.Names() {
		values := leakValues(t, name)
		check(w.api, post(remote.Path, jsonText(t, map[string]any{"sql": "SELECT 2", "params": map[string]string{}, "stored": map[string]any{"name": name, "values": url.Values{}, "at": time.Now()}}))[0])
		check(w.api, mcpCall(t, "", "tools/call", map[string]any{"name": "query", "arguments": map[string]any{"name": name, "parameters": values}}))
	}
	for _, name := range []string{"show", "sql", "incident", "whats_wrong"} {
		for _, arguments := range leakTools[name] {
			check(w.api, mcpCall(t, "", "tools/call", map[string]any{"name": name, "arguments": json.RawMessage(arguments)}))
		}
	}
	check(w.api, post(remote.Path, `{"sql":"SELECT body FROM messages"}`)[0])
	c := must.Get(remote.NewClient(w.api, reader, certs.Client{}, ""))(t)
	if e, err := (show.Store{Q: c}).Exchange(t.Context(), x.ids["call"]); err == nil || !strings.Contains(err.Error(), access.ErrTexts.Error()) {
		t.Errorf("show without the role texts: %v %+v", err, e)
	}
	status, text := w.send(reader, w.api, mcpCall(t, "content=true", "tools/list", map[string]any{}))
	must.Equal(t, status, http.StatusForbidden, "MCP with texts: %s", text)
	for _, want := range []string{x.mark("error"), x.mark("tool"), "Texts need the role texts", "texts need the role texts", "own SQL can read texts"} {
		must.Contain(t, seen, want)
	}
	if admin < 5 {
		t.Errorf("an admin sees texts in %d answers", admin)
	}
}

// mcpCall returns a call of a method of MCP.
func mcpCall(t *testing.T, query, method string, params any) leakRequest {
	body := jsonText(t, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	return leakRequest{method: http.MethodPost, path: mcpserver.Path + "?" + query, body: body, reads: true} // errors have status 200
}

// tools calls all tools of MCP.
func (w *leakWorld) tools() {
	call := func(method string, params any) leakRequest {
		return mcpCall(w.T, "content=true&act=true", method, params)
	}
	_, text := w.send("s3cret", w.api, call("tools/list", map[string]any{}))
	names := regexp.MustCompile(`"name":"(\w+)","outputSchema|"name":"(\w+)"[,}]`).FindAllStringSubmatch(text, -1)
	if len(names) < len(leakTools) {
		w.Fatalf("%d tools: %s", len(names), text)
	}
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	body, _, _ := strings.Cut(text, "map[")
	must.Do(w.T, json.Unmarshal([]byte(body), &list))
	for _, tool := range list.Result.Tools {
		all, ok := leakTools[tool.Name]
		if !ok {
			w.Errorf("the tool %s is not tested", tool.Name)
		}
		if tool.Name == "query" {
			for _, name := range queries.Names() {
				all = append(all, jsonText(w.T, map[string]any{"name": name, "parameters": leakValues(w.T, name)}))
			}
		}
		for _, arguments := range all {
			w.try(w.api, "tool "+tool.Name, call("tools/call", map[string]any{"name": tool.Name, "arguments": json.RawMessage(arguments)}))
		}
	}
}
