package endpoint

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCall(t *testing.T) {
	var status int
	header := http.Header{}
	body := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	client := alerts.NewClient()
	defer client.CloseIdleConnections()
	call := func() error {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/secret", strings.NewReader("x")))(t)
		return Call(client, req, nil)
	}
	f := func(code int, later bool, after time.Duration, want string) {
		t.Helper()
		status = code
		err := call()
		if want == "" {
			must.Do(t, err, code)
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, want %q", code, err, want)
		}
		r, ok := errors.AsType[*alerts.RetryError](err)
		if ok != later || ok && r.After != after {
			t.Errorf("%d: retry %v, %+v", code, ok, r)
		}
	}
	f(200, false, 0, "")
	f(202, false, 0, "")
	f(400, false, 0, "400 Bad Request")
	f(401, true, mendInterval, "401 Unauthorized")
	f(404, true, mendInterval, "404 Not Found")
	f(408, true, 0, "408 Request Timeout")
	f(500, true, 0, "500 Internal Server Error")
	header["Location"] = []string{"/elsewhere"}
	f(302, false, 0, "set the URL of the redirect")
	header["Retry-After"] = []string{"30"}
	f(429, true, 30*time.Second, "429 Too Many Requests")
	header["Retry-After"] = []string{"999999999"}
	f(503, true, maxRetryAfter, "503 Service Unavailable")
	header["Retry-After"] = []string{"-5"}
	f(503, true, 0, "503 Service Unavailable")
	header["Retry-After"] = []string{"soon"}
	f(503, true, 0, "503 Service Unavailable")
	body = strings.Repeat("long \n\xff ", 1000)
	status = 400
	if err := call(); err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	body = "POST /secret: invalid"
	f(400, false, 0, "400 Bad Request: POST (removed): invalid")
	srv.Close()
	f(0, true, 0, "call "+strings.TrimPrefix(srv.URL, "http://"))
}

func TestRetryAfterDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(d, want time.Duration) {
			t.Helper()
			must.Equal(t, retryAfter(time.Now().Add(d).UTC().Format(http.TimeFormat)), want, "retryAfter")
		}
		f(time.Minute, time.Minute)
		f(-time.Minute, 0)
		f(time.Hour, maxRetryAfter)
	})
}

func TestCheckURL(t *testing.T) {
	for _, ok := range []string{"http://h", "https://u:p@h:1/x?y=z"} {
		must.Do(t, CheckURL(ok), ok)
	}
	for _, bad := range []string{"", "h:9093", "ftp://h", "http://", "http://h:port", "/x"} {
		if CheckURL(bad) == nil {
			t.Errorf("%s was accepted as a URL", bad)
		}
	}
}

// Reach requests the root without any secret of the URL, and accepts every status.
func TestReach(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.String() + r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	u := strings.Replace(srv.URL, "//", "//user:hidden@", 1) + "/hidden?key=hidden"
	if err := reach(t.Context(), u); err != nil || got != "HEAD /" {
		t.Errorf("%v, called %q", err, got)
	}
	srv.Close()
	for _, u := range []string{u, "hidden", "ftp://hidden/"} {
		if err := reach(t.Context(), u); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %v", err)
		}
	}
}
