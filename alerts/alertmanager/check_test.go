package alertmanager

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	// f wants a version, or an error with want in it.
	f := func(code int, text, version, want string) {
		t.Helper()
		status, answer = code, text
		all, err := Check(t.Context(), cfg)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		s := all[0]
		if s.Version != version || s.Host != strings.TrimPrefix(srv.URL, "http://") || (s.Err == nil) != (want == "") || s.Err != nil && !strings.Contains(s.Err.Error(), want) {
			t.Errorf("%d %s: %+v, want %q", code, text, s, want)
		}
	}
	f(200, `{"versionInfo":{"version":"0.28.1"}}`, "0.28.1", "")
	if auth != "Bearer t0ken" {
		t.Errorf("sent %q", auth)
	}
	f(401, "", "", "401 Unauthorized")
	f(200, "<html>", "", "not that of an Alertmanager")
	f(200, "{}", "", "not that of an Alertmanager")

	// A user and password in the URL are sent, and not told.
	cfg = Config{URLs: []string{strings.Replace(srv.URL, "//", "//u:hunter2@", 1) + "/am"}}
	f(200, `{"versionInfo":{"version":"0.28.1"}}`, "0.28.1", "")
	if !strings.HasPrefix(auth, "Basic ") {
		t.Errorf("sent %q", auth)
	}
	srv.Close()
	if all, err := Check(t.Context(), cfg); err != nil || all[0].Err == nil || strings.Contains(all[0].Err.Error(), "hunter2") {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := Check(t.Context(), Config{}); err == nil {
		t.Error("a configuration without a URL was accepted")
	}
	cfg.TokenFile = filepath.Join(t.TempDir(), "absent")
	if _, err := Check(t.Context(), cfg); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent token file: %v", err)
	}
}
