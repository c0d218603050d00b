package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	problemsapi "github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A leakTeam is a team with one service. All that its calls contain is marked by its name.
type leakTeam struct {
	name, token string
	ids         map[string]string // by the words in braces of a leakRequest
}

func (x *leakTeam) mark(what string) string { return what + x.name }

// leakWords are the kinds of marks, each of which is in the name of one thing.
var leakWords = []string{"service", "environment", "stage", "version", "model", "error", "text", "tool", "user", "conv", "attr", "run", "label", "rule", "comment", "view"}

// found returns the marks and ids of x in an answer that are not in its request.
func (x *leakTeam) found(request, answer string) (out []string) {
	for _, w := range leakWords {
		if m := x.mark(w); strings.Contains(answer, m) && !strings.Contains(request, m) {
			out = append(out, m)
		}
	}
	for name, id := range x.ids {
		if id != "" && strings.Contains(answer, id) && !strings.Contains(request, id) {
			out = append(out, name+" "+id)
		}
	}
	return out
}

// events returns a conversation with an error, whose cause is the agent, of 15 calls, and one good call.
func (x *leakTeam) events(i int) []*event.Event {
	id := must.Get(uuid.NewV7())(nil).String()
	conversation := fmt.Sprintf("%s-%d", x.mark("conv"), i)
	messages := fmt.Sprintf(`{"role":"user","content":"say %s now"}`, x.mark("text"))
	status, answer := 200, fmt.Sprintf(`{"id":"r","model":%q,"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"%s answers","tool_calls":[{"id":"call_%s_%d","type":"function","function":{"name":%q,"arguments":"{\"q\":\"%s\"}"}}]}}],"usage":{"prompt_tokens":20,"completion_tokens":5}}`,
		x.mark("model"), x.mark("text"), x.name, i, x.mark("tool"), x.mark("text"))
	if i > 1 {
		messages += fmt.Sprintf(`,{"role":"assistant","content":"I will"},{"role":"tool","tool_call_id":"call_%s_%d","content":"reply %s"}`, x.name, i, x.mark("text"))
		status, answer = 400, fmt.Sprintf(`{"error":{"message":"messages with role 'tool' must be a response to a preceding message with 'tool_calls' %s","type":"invalid_request_error"}}`, x.mark("error"))
	}
	if i == 1 { // the reply to the call of 0
		conversation = fmt.Sprintf("%s-%d", x.mark("conv"), 0)
		messages += fmt.Sprintf(`,{"role":"assistant","content":"%s answers","tool_calls":[{"id":"call_%s_0","type":"function","function":{"name":%q,"arguments":"{\"q\":\"%s\"}"}}]},{"role":"tool","tool_call_id":"call_%s_0","content":"reply %s"}`,
			x.mark("text"), x.name, x.mark("tool"), x.mark("text"), x.name, x.mark("text"))
	}
	base := event.Event{
		Exchange: id, Time: time.Now(), Capture: event.CaptureFull, Origin: event.OriginHook, Instance: "i" + x.name, ContentType: "application/json",
		Attrs: map[string]string{"tenant": x.mark("attr")},
		Labels: event.Labels{
			Service: x.mark("service"), ServiceVersion: x.mark("version"), Environment: x.mark("environment"), Stage: x.mark("stage"), Agent: x.mark("stage"),
			Conversation: conversation, User: x.mark("user"), Run: x.mark("run"),
		},
	}
	q, s := base, base
	q.Kind, q.URL, q.Method, q.Seq = event.Request, "https://api.openai.com/v1/chat/completions", "POST", uint64(2*i+1)
	q.Body = fmt.Appendf(nil, `{"model":%q,"messages":[%s],"tools":[{"type":"function","function":{"name":%q,"parameters":{"type":"object"}}}]}`, x.mark("model"), messages, x.mark("tool"))
	s.Kind, s.Status, s.Duration, s.Body, s.Seq = event.Response, status, 900*time.Millisecond, []byte(answer), uint64(2*i+2)
	if x.ids == nil {
		x.ids = map[string]string{}
	}
	x.ids["call"], x.ids["conversation"] = id, conversation
	return []*event.Event{&q, &s}
}

// A leakWorld is a collector with two teams.
type leakWorld struct {
	*testing.T
	c          *Collector
	api, pages string
	teams      [2]*leakTeam
	form       string
	seen       map[string]bool   // marks that their team or an admin has seen
	admin      map[string]string // answers to an admin
}

const leakRules = `groups:
  - name: leak
    rules:
      - alert: Anything
        expr: sum by (service, environment, stage) (llmtap_failed_calls_total) > 0
        labels: {severity: warning}
        annotations: {summary: '{{ $labels.service }} fails'}
      - alert: rule%[1]s
        expr: sum by (service, environment, stage) (llmtap_failed_calls_total{service="service%[1]s"}) > 0
        labels: {severity: warning, team: label%[1]s}
        annotations: {summary: 'label%[1]s'}
      - alert: rule%[2]s
        expr: sum by (service, environment, stage) (llmtap_failed_calls_total{service="service%[2]s"}) > 0
        labels: {severity: warning, team: label%[2]s}
        annotations: {summary: 'label%[2]s'}
      - alert: AllServices
        expr: sum by (provider) (llmtap_failed_calls_total) > 0
        labels: {severity: warning}
`

func newLeakWorld(t *testing.T, change func(*config.Config)) *leakWorld {
	w := &leakWorld{T: t, seen: map[string]bool{}, admin: map[string]string{}, teams: [2]*leakTeam{{name: "amberfox"}, {name: "cobaltowl"}}}
	file := filepath.Join(t.TempDir(), "leak.yaml")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, leakRules, w.teams[0].name, w.teams[1].name), 0o600))
	w.c = start(t, func(cfg *config.Config) {
		cfg.Roles, cfg.HTTP.Token = []string{config.RoleAnalyze, config.RoleAlert, config.RoleUI}, "s3cret"
		cfg.Alerts.RuleFiles = []string{file}
		cfg.Teams = access.Teams{
			{Name: "amber", Match: []string{`service="serviceamberfox"`}},
			{Name: "cobalt", Match: []string{`service=~"servicecobalt.*"`, `environment!="dev"`}},
		}
		change(cfg)
		must.Do(t, cfg.Validate())
	})
	w.api, w.pages = "http://"+w.c.httpAddr(), strings.TrimSuffix(w.c.UIURL(), "/")
	var events []*event.Event
	for _, x := range w.teams {
		for i := range 16 {
			events = append(events, x.events(i)...)
		}
	}
	rejected, err := w.c.conn.Load().PublishBatch(t.Context(), events)
	if err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
	for _, x := range w.teams {
		var made tokens.Created
		status, body := ask(t, "s3cret", http.MethodPost, w.api+tokens.Path, fmt.Sprintf(`{"name": %q, "role": "responder", "teams": [%q], "expires": %q}`,
			x.name, map[string]string{"amberfox": "amber", "cobaltowl": "cobalt"}[x.name], later))
		must.Equal(t, status, http.StatusOK, "token: %s", body)
		must.Do(t, json.Unmarshal([]byte(body), &made))
		x.token = made.Secret
	}
	w.prepare()
	return w
}

// prepare waits until all is stored, and makes of everything that people can make one for each team.
func (w *leakWorld) prepare() {
	var found []problemsapi.Problem
	must.Wait(w.T, "problems and alerts", func() bool {
		_, body := ask(w.T, "s3cret", http.MethodGet, w.api+problemsapi.Path, "")
		found = nil
		return json.Unmarshal([]byte(body), &found) == nil && !slices.ContainsFunc(w.teams[:], func(x *leakTeam) bool {
			return !slices.ContainsFunc(found, func(p problemsapi.Problem) bool { return p.Service == x.mark("service") && p.Alert != "" })
		})
	})
	must.Wait(w.T, "rows", func() bool {
		counts, err := w.c.ClickHouse().Counts(w.Context())
		return err == nil && counts["exchanges"] >= 32 && counts["tool_calls"] >= 2 && counts["alerts"] >= 4 && counts["findings"] >= 28 && counts["messages"] > 40
	})
	for _, x := range w.teams {
		for _, p := range found {
			if p.Service == x.mark("service") {
				x.ids["problem"], x.ids["alert"] = p.ID, p.Alert
			}
		}
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		status, body := ask(w.T, "s3cret", http.MethodPost, w.api+silences.Path+"silences", fmt.Sprintf(
			`{"matchers":[{"name":"service","value":%q,"isEqual":true},{"name":"environment","value":%q,"isEqual":true},{"name":"stage","value":"none","isEqual":true}],"startsAt":"2026-01-01T00:00:00Z","endsAt":%q,"createdBy":"x","comment":%q}`,
			x.mark("service"), x.mark("environment"), until, x.mark("comment")))
		must.Equal(w.T, status, http.StatusOK, "silence: %s", body)
		added := must.JSON[struct{ SilenceID string }](w.T, []byte(body))
		x.ids["silence"] = added.SilenceID
		must.Do(w.T, savedViews{w.c.conn.Load}.Edit(w.Context(), func(all []web.SavedView) ([]web.SavedView, error) {
			return append(all, web.SavedView{Name: x.mark("view"), URL: "/?service=" + x.mark("service") + "&environment=" + x.mark("environment"), By: "x", At: time.Now()}), nil
		}))
	}
}

// A leakRequest is a request that is sent for the ids of both teams. Words in braces are replaced by ids and marks of a team.
type leakRequest struct {
	method, path, body string
	refused            bool // for a team, with status 403
	noRows             bool // for a team, which is told why
	reads              bool // also with POST
}

func get(paths ...string) (out []leakRequest) {
	for _, p := range paths {
		out = append(out, leakRequest{method: http.MethodGet, path: p})
	}
	return out
}

func post(path, body string) []leakRequest {
	return []leakRequest{{method: http.MethodPost, path: path, body: body}}
}

func refused(list []leakRequest) []leakRequest {
	for i := range list {
		list[i].refused = true
	}
	return list
}

func noRows(list []leakRequest) []leakRequest {
	for i := range list {
		list[i].noRows = true
	}
	return list
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func (x *leakTeam) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[1 : len(p)-1]
		if name == "now" {
			return time.Now().UTC().Format(time.RFC3339)
		}
		if id, ok := x.ids[name]; ok {
			return id
		}
		if slices.Contains(leakWords, name) {
			return x.mark(name)
		}
		return p
	})
}

// send sends a request with a token and returns the status and all of the answer.
func (w *leakWorld) send(token, base string, r leakRequest) (int, string) {
	w.Helper()
	body, media := r.body, "application/json"
	if base == w.pages && r.method == http.MethodPost {
		media = "application/x-www-form-urlencoded"
		body += "&name=x&form=" + url.QueryEscape(w.form)
	}
	req := must.Get(http.NewRequestWithContext(w.Context(), r.method, base+r.path, strings.NewReader(body)))(w.T)
	if r.method != http.MethodGet {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Accept", "application/json, text/event-stream, text/html")
	req.Header.Set(remote.HeaderActor, "x")
	c := &http.Client{Transport: bearer(token), Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(c.Do(req))(w.T)
	defer resp.Body.Close()
	var from io.Reader = resp.Body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && r.path == "/live" {
		from = io.LimitReader(resp.Body, 20)
	}
	text := string(must.Get(io.ReadAll(from))(w.T))
	return resp.StatusCode, fmt.Sprint(text, resp.Header)
}

// try sends r for each team with the ids of the other one, then with its own, and as an admin.
func (w *leakWorld) try(base, route string, r leakRequest) {
	w.Helper()
	for i, x := range w.teams {
		if other := w.teams[1-i]; x.fill(r.path+r.body) != other.fill(r.path+r.body) {
			w.tryAs(x, other, other, base, route, r)
		}
	}
	for i, x := range w.teams {
		w.tryAs(x, w.teams[1-i], x, base, route, r)
	}
}

// tryAs sends r as x with ids of a team, and checks that the answer has nothing of other.
func (w *leakWorld) tryAs(x, other, of *leakTeam, base, route string, r leakRequest) {
	w.Helper()
	one := leakRequest{method: r.method, path: of.fill(r.path), body: of.fill(r.body)}
	sent := one.path + " " + one.body
	if unescaped, err := url.QueryUnescape(sent); err == nil {
		sent += unescaped
	}
	status, text := w.send(x.token, base, one)
	if leak := other.found(sent, text); len(leak) > 0 {
		w.Errorf("%s: %s %s with the token of %s: status %d, contains %q\n%s", route, one.method, one.path, x.name, status, leak, excerpt(text, strings.Fields(leak[0])))
	}
	if r.refused != (status == http.StatusForbidden) || status >= 500 {
		w.Errorf("%s: %s %s with the token of %s: status %d\n%.300s", route, one.method, sent, x.name, status, text)
	}
	if changes := r.method != http.MethodGet && !r.reads; of != x && changes && status < 400 {
		w.Errorf("%s: %s %s with the token of %s: status %d, changes what another team has\n%.300s", route, one.method, sent, x.name, status, text)
	}
	for _, m := range x.found("", text) {
		w.seen[m] = true
	}
	if r.method != http.MethodGet || of != x {
		return
	}
	whole, ok := w.admin[base+sent]
	if !ok {
		_, whole = w.send("s3cret", base, one)
		w.admin[base+sent] = whole
	}
	for _, m := range other.found(sent, whole) {
		w.seen["admin "+m] = true
	}
	if mine, all := x.found(sent, text), x.found(sent, whole); len(mine) == 0 && len(all) > 0 && !r.refused && !r.noRows {
		w.Errorf("%s: %s %s with the token of %s: status %d, contains nothing of the team, and %q for an admin", route, one.method, one.path, x.name, status, all)
	}
}

// show checks that llmtap show with the token of x has texts of its call, and does not know that of other.
func (w *leakWorld) show(x, other *leakTeam) {
	w.Helper()
	c := must.Get(remote.NewClient(w.api, x.token, certs.Client{}, ""))(w.T)
	e, err := show.Store{Q: c}.Exchange(w.Context(), x.ids["call"])
	if err != nil || !strings.Contains(strings.Join(e.Messages, ""), x.mark("text")) {
		w.Errorf("show of a call of %s: %v %+v", x.name, err, e)
	}
	if e, err := (show.Store{Q: c}).Exchange(w.Context(), other.ids["call"]); !errors.Is(err, show.ErrUnknown) {
		w.Errorf("show of a call of %s with the token of %s: %v %+v", other.name, x.name, err, e)
	}
}

// excerpt returns what is around a mark.
func excerpt(text string, mark []string) string {
	i := strings.Index(text, mark[len(mark)-1])
	return text[max(0, i-150):min(len(text), i+150)]
}
