package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
)

// receivers are Slack, a webhook, an Alertmanager and a heartbeat's server in one. It keeps what came.
type receivers struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []string // method and path, and the alerts' states
	broken string   // path that answers 503
}

func startReceivers(t *testing.T) *receivers {
	t.Helper()
	r := new(receivers)
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

const hookSecret = "0123456789abcdef"

func (r *receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	what := req.Method + " " + req.URL.Path
	switch req.URL.Path {
	case "/hook":
		if req.Header.Get(webhook.HeaderSignature) != webhook.Sign([]byte(hookSecret), req.Header.Get(webhook.HeaderTimestamp), body) {
			what += " unsigned"
		}
		var m webhook.Message
		if err := json.Unmarshal(body, &m); err == nil {
			what += " " + m.Status + " " + m.CommonLabels["alertname"]
		}
	case "/api/v2/alerts":
		if req.Header.Get("Authorization") != "Bearer s3cret" {
			what += " without the token"
		}
		what += " " + regexp.MustCompile(`"alertname":"\w+"`).FindString(string(body))
	}
	r.mu.Lock()
	r.seen = append(r.seen, what)
	broken := r.broken == req.URL.Path
	r.mu.Unlock()
	switch {
	case broken:
		http.Error(w, "not today", http.StatusServiceUnavailable)
	case strings.HasPrefix(req.URL.Path, "/slack/"):
		_, _ = io.WriteString(w, `{"ok":true,"team":"Acme","user":"llmtap","channel":"C1","ts":"1.2"}`)
	case req.URL.Path == "/api/v2/status":
		_, _ = io.WriteString(w, `{"cluster":{},"versionInfo":{"version":"0.28.1"}}`)
	}
}

// calls are those since the last time.
func (r *receivers) calls() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := strings.Join(r.seen, "\n")
	r.seen = nil
	return seen
}

func (r *receivers) breaks(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = path
}

// config is a configuration file that names all of them.
func (r *receivers) config(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "llmtap.yaml")
	text := strings.ReplaceAll(`data_dir: `+t.TempDir()+`
slack: {channel: "#oncall", token: xoxb-1, api_url: URL/slack/}
webhook: {url: URL/hook?key=hidden, secret: `+hookSecret+`}
alertmanager:
  urls: [URL]
  token: s3cret
alerts: {heartbeat_url: URL/ping/hidden}
`, "URL", r.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNotifyReceivers(t *testing.T) {
	r := startReceivers(t)
	config := r.config(t)
	host := strings.TrimPrefix(r.URL, "http://")
	try := func() (string, error) {
		var out, stderr bytes.Buffer
		err := run(t.Context(), []string{"alerts", "test-notify", "--config", config}, nil, &out, &stderr, func(string) string { return "" })
		return strings.ReplaceAll(out.String(), host, "HOST"), err
	}
	got, err := try()
	want := `ok    slack         #oncall: the test alert and its end arrived
ok    alertmanager  HOST: the test alert arrived and ends in 4 minutes
ok    webhook       HOST: the test alert and its end arrived
ok    heartbeat     HOST: the heartbeat arrived
`
	if err != nil || got != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	calls := r.calls()
	for _, call := range []string{
		"POST /slack/chat.postMessage\n", "POST /slack/chat.update\n", "POST /hook firing TestNotify\nPOST /hook resolved TestNotify\n",
		`POST /api/v2/alerts "alertname":"TestNotify"` + "\n", "GET /ping/hidden",
	} {
		if !strings.Contains(calls, call) {
			t.Errorf("no call %s in\n%s", call, calls)
		}
	}

	// A failing receiver does not affect the others, and no secret is printed.
	r.breaks("/hook")
	got, err = try()
	if err == nil || err.Error() != "1 of 4 receivers failed" {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(got, "fail  webhook       HOST: post to webhook: call HOST: 503 Service Unavailable: not today\n") || strings.Count(got, "\n") != 4 || strings.Count(got, "fail  ") != 1 {
		t.Error(got)
	}
	if strings.Contains(got+err.Error(), "hidden") {
		t.Errorf("a secret is printed:\n%s%v", got, err)
	}
}

func TestDoctorOnReceivers(t *testing.T) {
	r := startReceivers(t)
	config := r.config(t)
	checks, _ := seeDoctor(t, nil, "--config", config)
	expect(t, checks, "slack", verdictOK, "#oncall: posts as llmtap of Acme")
	expect(t, checks, "alertmanager", verdictOK, "version 0.28.1")
	expect(t, checks, "webhook", verdictOK, "answers", "test-notify")
	expect(t, checks, "heartbeat", verdictOK, "answers")
	calls := r.calls()
	for _, no := range []string{"hook", "ping", "alerts", "chat"} {
		if strings.Contains(calls, no) {
			t.Errorf("the doctor did more than look:\n%s", calls)
		}
	}
	r.breaks("/api/v2/status")
	checks, _ = seeDoctor(t, nil, "--config", config)
	expect(t, checks, "alertmanager", verdictFail, "503", "alertmanager.urls")
	r.Close()
	checks, _ = seeDoctor(t, nil, "--config", config)
	expect(t, checks, "alertmanager", verdictFail, "refused")
	expect(t, checks, "webhook", verdictFail, "refused", "correct webhook.url")
	expect(t, checks, "heartbeat", verdictFail, "refused", "correct alerts.heartbeat_url")
	for _, c := range checks {
		if strings.Contains(c.Detail, "hidden") || strings.Contains(c.Detail, "s3cret") {
			t.Errorf("a secret is told: %s", c.Detail)
		}
	}

	// Whoever is told otherwise needs no Slack.
	checks, _ = seeDoctor(t, map[string]string{"LLMTAP_WEBHOOK_URL": "http://127.0.0.1:1/", "LLMTAP_WEBHOOK_SECRET": hookSecret}, "--data-dir", t.TempDir())
	if c, ok := checks["slack"]; ok {
		t.Errorf("%+v, though there is a webhook", c)
	}
}

func TestDoctorOnRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	see := func(text string) map[string]checkup {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		checks, _ := seeDoctor(t, map[string]string{"LLMTAP_ALERTS_RULE_FILES": file}, "--data-dir", t.TempDir())
		return checks
	}
	expect(t, see("groups:\n- name: g\n  rules:\n  - {alert: A, expr: llmtap_store_up == 0}\n"), "rules", verdictOK, "1 alert rule, no mistakes")
	expect(t, see("groups:\n- name: g\n  rules:\n  - {alert: A, expr: up == 0}\n"), "rules", verdictFail,
		"1 mistake in the rule files, such as "+file+`:4: A: unknown metric "up"`, "llmtap alerts check", "does not start")

	// The running process has not taken what is in the file now.
	current := "1"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, "# TYPE llmtap_alerts_rules_last_reload_successful gauge\nllmtap_alerts_rules_last_reload_successful{rules=\"calls\"} "+current+"\n")
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	remove, err := collector.Announce(dir, collector.Running{PID: os.Getpid(), HTTPAddr: strings.TrimPrefix(srv.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	see("groups: []\n")
	env := map[string]string{"LLMTAP_ALERTS_RULE_FILES": file}
	checks, _ := seeDoctor(t, env, "--data-dir", dir)
	expect(t, checks, "rules", verdictOK, "0 alert rules")
	current = "0"
	checks, _ = seeDoctor(t, env, "--data-dir", dir)
	expect(t, checks, "rules", verdictFail, "the running process has not taken the rule files", "SIGHUP")
	see("groups: [\n")
	checks, _ = seeDoctor(t, env, "--data-dir", dir)
	expect(t, checks, "rules", verdictFail, "in the rule files", "until they are right the running process keeps the rules that it had")
}
