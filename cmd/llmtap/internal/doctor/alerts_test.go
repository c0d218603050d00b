package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTraces(t *testing.T) {
	answer := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != http.StatusOK || r.Header.Get("Authorization") != "Basic s3cret" {
			http.Error(w, "no such project", answer)
		}
	}))
	env := map[string]string{"LLMTAP_TRACES_URL": s.URL + "/hidden", "LLMTAP_TRACES_HEADERS": "authorization=Basic%20s3cret"}
	expect(t, examine(t, env), "traces", OK, "accepts spans")
	answer = http.StatusUnauthorized
	expect(t, examine(t, env), "traces", Fail, "401", "no such project", "traces.headers")
	s.Close()
	for _, c := range examine(t, env) {
		if c.Check == "traces" && (c.Status != Fail || strings.Contains(c.Detail, "hidden") || strings.Contains(c.Detail, "s3cret")) {
			t.Error(c)
		}
	}
}

func TestReceivers(t *testing.T) {
	r := collectortest.StartReceivers(t)
	config := r.ConfigFile(t)
	checks := examine(t, map[string]string{"LLMTAP_CONFIG": config})
	expect(t, checks, "slack", OK, "#oncall: posts as llmtap of Acme")
	expect(t, checks, "alertmanager", OK, "version 0.28.1")
	expect(t, checks, "webhook", OK, "the host answers", "test-notify")
	expect(t, checks, "heartbeat", OK, "the host answers")
	calls := r.Requests()
	for _, no := range []string{"hook", "ping", "alerts", "chat"} {
		if strings.Contains(calls, no) {
			t.Errorf("doctor sent notifications:\n%s", calls)
		}
	}
	r.Break("/api/v2/status")
	checks = examine(t, map[string]string{"LLMTAP_CONFIG": config})
	expect(t, checks, "alertmanager", Fail, "503", "alertmanager.urls")
	r.Close()
	checks = examine(t, map[string]string{"LLMTAP_CONFIG": config})
	expect(t, checks, "alertmanager", Fail, "refused")
	expect(t, checks, "webhook", Fail, "refused", "correct webhook.url")
	expect(t, checks, "heartbeat", Fail, "refused", "correct alerts.heartbeat_url")
	for _, c := range checks {
		if strings.Contains(c.Detail, "hidden") || strings.Contains(c.Detail, "s3cret") {
			t.Errorf("secret in %s", c.Detail)
		}
	}

	// Slack is not required with a webhook.
	checks = examine(t, map[string]string{"LLMTAP_WEBHOOK_URL": "http://127.0.0.1:1/", "LLMTAP_WEBHOOK_SECRET": collectortest.HookSecret})
	if c, ok := checks["slack"]; ok {
		t.Errorf("%+v with a webhook", c)
	}
}

func TestRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	see := func(text string) map[string]Result {
		t.Helper()
		filetest.Write(t, file, text)
		return examine(t, map[string]string{"LLMTAP_ALERTS_RULE_FILES": file})
	}
	expect(t, see("groups:\n- name: g\n  rules:\n  - {alert: A, expr: llmtap_store_up == 0}\n"), "rules", OK, "1 alert rule, no errors")
	expect(t, see("groups:\n- name: g\n  rules:\n  - {alert: A, expr: up == 0}\n"), "rules", Fail,
		"1 error in the rule files, such as "+file+`:4: A: unknown metric "up"`, "llmtap alerts check", "does not start")

	// The running process has not loaded the current file.
	current := "1"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, "# TYPE llmtap_alerts_rules_last_reload_successful gauge\nllmtap_alerts_rules_last_reload_successful{rules=\"calls\"} "+current+"\n")
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	remove := must.Get(collector.Announce(dir, collector.Running{PID: os.Getpid(), HTTPAddr: strings.TrimPrefix(srv.URL, "http://")}))(t)
	defer remove()
	see("groups: []\n")
	env := map[string]string{"LLMTAP_ALERTS_RULE_FILES": file, "LLMTAP_DATA_DIR": dir}
	checks := examine(t, env)
	expect(t, checks, "rules", OK, "0 alert rules")
	current = "0"
	checks = examine(t, env)
	expect(t, checks, "rules", Fail, "the running process has not loaded the current rule files", "SIGHUP")
	see("groups: [\n")
	checks = examine(t, env)
	expect(t, checks, "rules", Fail, "in the rule files", "the running process keeps its previous rules")
}
