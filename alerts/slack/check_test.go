package slack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
)

func TestCheck(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"ok":false,"error":"invalid_auth"}`
		if r.URL.Path == "/api/auth.test" && (r.FormValue("token") == "xoxb-1" || r.Header.Get("Authorization") == "Bearer xoxb-1") {
			answer = `{"ok":true,"team":"Acme","user":"llmtap","team_id":"T1","user_id":"U1"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer srv.Close()
	check := func(token string) (string, error) {
		t.Helper()
		list, err := Config{APIURL: srv.URL + "/api/", Channel: "C1", Token: token}.Receivers(alerts.NotifierOptions{})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Check(t.Context())
	}
	if text, err := check("xoxb-1"); err != nil || text != "posts as llmtap of Acme" {
		t.Errorf("%q, %v", text, err)
	}
	f := func(token, want string) {
		t.Helper()
		if _, err := check(token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("xoxb-2", "auth.test: invalid_auth; check slack.token")
	srv.Close()
	f("xoxb-1", "verify the token: auth.test")
}
