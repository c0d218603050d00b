package testnotify

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
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
