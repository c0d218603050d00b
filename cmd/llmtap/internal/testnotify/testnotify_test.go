package testnotify

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestRun(t *testing.T) {
	cfg := config.Default()
	var b strings.Builder
	if err := Run(t.Context(), &b, &cfg); command.Report(err, &b) != command.ExitBadInput || !strings.HasPrefix(b.String(), "llmtap: no receivers are configured; ") {
		t.Errorf("no receivers: %s", b.String())
	}
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer srv.Close()
	cfg.Alerts.HeartbeatURL = srv.URL + "/ping/secret"
	b.Reset()
	if err := Run(t.Context(), &b, &cfg); err != nil || b.String() != "ok    heartbeat     "+strings.TrimPrefix(srv.URL, "http://")+": the heartbeat arrived\n" {
		t.Errorf("%v\n%s", err, b.String())
	}
	status = http.StatusNotFound
	b.Reset()
	if err := Run(t.Context(), &b, &cfg); err == nil || err.Error() != "1 of 1 receivers failed" || !strings.HasPrefix(b.String(), "fail  heartbeat ") || strings.Contains(b.String(), "secret") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNotifyReceivers(t *testing.T) {
	r := collectortest.StartReceivers(t)
	cfg := must.Get(config.Load(r.ConfigFile(t), func(string) string { return "" }))(t)
	host := strings.TrimPrefix(r.URL, "http://")
	try := func() (string, error) {
		var out strings.Builder
		err := Run(t.Context(), &out, &cfg.Config)
		return strings.ReplaceAll(out.String(), host, "HOST"), err
	}
	got, err := try()
	want := `ok    slack         #oncall: the test alert and its end arrived
ok    alertmanager  HOST: the test alert arrived and ends in 4 minutes
ok    webhook       HOST: the test alert and its end arrived
ok    pagerduty     HOST: the test alert and its end arrived
ok    msteams       HOST: the test alert and its end arrived
ok    email         oncall@example.com: the test alert and its end arrived
ok    routing       critical webhook_configs[0]: HOST: the test alert and its end arrived
ok    heartbeat     HOST: the heartbeat arrived
`
	if err != nil || got != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	calls := r.Requests()
	for _, call := range []string{
		"POST /slack/chat.postMessage\n", "POST /slack/chat.update\n", "POST /hook firing TestNotify\nPOST /hook resolved TestNotify\n",
		"POST /v2/enqueue trigger info\n", "POST /v2/enqueue resolve\n", `POST /teams "text":"🔵 INFO TestNotify: this is a test, nothing is wrong"` + "\n", `POST /teams "text":"🟢 RESOLVED TestNotify: this is a test, nothing is wrong"` + "\n", `POST /api/v2/alerts "alertname":"TestNotify"` + "\n", "POST /critical firing TestNotify\nPOST /critical resolved TestNotify\n", "GET /ping/hidden",
	} {
		must.Contain(t, calls, call)
	}

	must.Equal(t, len(r.Mail.Mails()), 2, "mails")

	// A failing receiver does not affect the others, and no secret is printed.
	r.Break("/hook")
	got, err = try()
	must.Equal(t, fmt.Sprint(err), "1 of 8 receivers failed", "error")
	if !strings.Contains(got, "fail  webhook       HOST: post to webhook: call HOST: 503 Service Unavailable: not today\n") || strings.Count(got, "\n") != 8 || strings.Count(got, "fail  ") != 1 {
		t.Error(got)
	}
	if strings.Contains(got+err.Error(), "hidden") {
		t.Errorf("a secret is printed:\n%s%v", got, err)
	}
}
