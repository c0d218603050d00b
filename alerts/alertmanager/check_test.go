package alertmanager

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCheck(t *testing.T) {
	var status int
	var answer, auth string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth = r.Header.Get("Authorization"); r.Method != http.MethodGet || r.URL.Path != "/am/api/v2/status" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer srv.Close()
	cfg := Config{URLs: []string{srv.URL + "/am/"}, Token: "t0ken"}
	// f expects a version, or an error.
	f := func(code int, text, version, want string) {
		t.Helper()
		status, answer = code, text
		all, err := cfg.Receivers(alerts.NotifierOptions{})
		if err != nil || len(all) != 1 || all[0].Destination != strings.TrimPrefix(srv.URL, "http://") {
			t.Fatal(all, err)
		}
		got, err := all[0].Check(t.Context())
		if got != version || (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%d %s: %q, %v; want %q", code, text, got, err, want)
		}
	}
	f(200, `{"versionInfo":{"version":"0.28.1"}}`, "version 0.28.1", "")
	must.Equal(t, auth, "Bearer t0ken", "sent")
	f(401, "", "", "401 Unauthorized")
	f(200, "<html>", "", "unexpected answer")
	f(200, "{}", "", "not that of an Alertmanager")

	// A user and password in the URL are sent, and not part of an error.
	cfg = Config{URLs: []string{strings.Replace(srv.URL, "//", "//u:hunter2@", 1) + "/am"}}
	f(200, `{"versionInfo":{"version":"0.28.1"}}`, "version 0.28.1", "")
	if !strings.HasPrefix(auth, "Basic ") {
		t.Errorf("sent %q", auth)
	}
	srv.Close()
	f(0, "", "", "alertmanager.urls")
}
