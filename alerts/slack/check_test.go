package slack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("xoxb-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"ok":false,"error":"invalid_auth"}`
		if r.URL.Path == "/api/auth.test" && (r.FormValue("token") == "xoxb-1" || r.Header.Get("Authorization") == "Bearer xoxb-1") {
			answer = `{"ok":true,"team":"Acme","user":"llmtap","team_id":"T1","user_id":"U1"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer srv.Close()
	cfg := Default()
	cfg.APIURL, cfg.Channel, cfg.TokenFile = srv.URL+"/api/", "C1", file
	if team, user, err := Check(t.Context(), cfg); err != nil || team != "Acme" || user != "llmtap" {
		t.Errorf("%q, %q, %v", team, user, err)
	}
	f := func(want string) {
		t.Helper()
		if _, _, err := Check(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	cfg.TokenFile, cfg.Token = "", "xoxb-2"
	f("auth.test: invalid_auth; check slack.token")
	cfg.Token = ""
	f("token, token_file: one must be set")
	cfg.TokenFile = file + "-not"
	f("read token_file")
	cfg.TokenFile = file
	srv.Close()
	f("ask Slack about the token: auth.test")
}
