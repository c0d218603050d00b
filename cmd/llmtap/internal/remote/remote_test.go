package remote

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

func TestMain(m *testing.M) {
	chdb.RunChild()
	m.Run()
}

// serve returns a client for a server with this handler.
func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return must.Get(NewClient(srv.URL+"/base/", "", certs.Client{}, ""))(t)
}

// The errors of a client name the URL and what to do.
func TestClientErrors(t *testing.T) {
	f := func(want string, h http.HandlerFunc) {
		t.Helper()
		c := serve(t, h)
		want = strings.ReplaceAll(want, "URL", c.url.String())
		must.Fail(t, must.Err(c.Query(t.Context(), "SELECT 1", nil)), want)
	}
	reply := func(code int, contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			must.Equal(t, r.URL.Path, "/base"+Path, "path")
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	const plain = "text/plain; charset=utf-8"
	f("URL requires a token: set LLMTAP_HTTP_TOKEN", reply(401, plain, "no"))
	f("URL answers HTTP 404: it is not a collector", reply(404, plain, "404 page not found"))
	f("URL answers HTTP 200: it is not a collector", reply(200, "text/html", "<html>"))
	f("URL answers HTTP 502: it is not a collector", reply(502, "text/html", "<html>"))
	f("URL answers HTTP 503: reach ClickHouse", reply(503, plain, "reach ClickHouse\n"))
	f("URL answers HTTP 403: only loopback", reply(403, plain, "only loopback"))
	f("read the response of URL: ", reply(200, contentType, "\x01"))
	f("URL redirects to https://sso.example/login; set --url", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://sso.example/login", http.StatusFound)
	})
	f("read the response of URL: ", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		res := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "a", Type: "String"}}, Rows: [][]any{{"x"}}}
		if err := res.WriteNative(w); err != nil {
			t.Error(err)
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, bad := range []string{"", "collector:8088", "ftp://x", "http://", "http://u:p@x", "http://x?a=b"} {
		must.Fail(t, must.Err(NewClient(bad, "", certs.Client{}, "")), "", bad)
	}
}

func TestProbe(t *testing.T) {
	f := func(want bool, header string) {
		t.Helper()
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server", header) }))
		must.Equal(t, c.Probe(t.Context()), want, "%q", header)
	}
	f(true, ServerName)
	f(false, "nginx")
}

func TestHandlerErrors(t *testing.T) {
	h := NewHandler(func() (*clickhouse.Sink, error) { return nil, errors.New("ClickHouse is starting") }, nil)
	f := func(body string, code int, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.50s: %d %s", body, w.Code, w.Body)
		}
	}
	f(`{"sql":"SELECT 1"}`, 503, "ClickHouse is starting")
	f(`SELECT 1`, 400, "not a JSON object")
	f(`{"sql":"`+strings.Repeat("x", maxStatement)+`"}`, 400, "too large")
}

// Queries return rows, or the error of the statement. More queries than slots wait.
func TestQuery(t *testing.T) {
	collectortest.NeedClickHouse(t)
	sink := collectortest.OpenClickHouse(t)
	c := serve(t, http.StripPrefix("/base", NewHandler(func() (*clickhouse.Sink, error) { return sink, nil }, nil)))

	var wg sync.WaitGroup
	for range 3 * maxQueries {
		wg.Go(func() {
			res, err := c.Query(t.Context(), "SELECT {n:UInt64} + sleep(0.01) AS n", map[string]string{"n": "7"})
			if err != nil || res.Truncated || len(res.Rows) != 1 || res.Rows[0][0] != uint64(7) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	res, err := c.Query(t.Context(), "SELECT number FROM system.numbers LIMIT 100001", nil)
	if err != nil || !res.Truncated || len(res.Rows) != 100_000 || res.Rows[99_999][0] != uint64(99_999) {
		t.Errorf("%d rows, %v", len(res.Rows), err)
	}
	for sql, want := range map[string]string{
		"DROP TABLE exchanges":                       "only read-only statements are allowed",
		"SELECT nosuch":                              "nosuch",
		"SELECT file('/etc/passwd')":                 "file",
		"SELECT 1 SETTINGS max_execution_time = 999": "readonly",
		"SELECT {n:UInt64}":                          "n",
	} {
		if _, err := c.Query(t.Context(), sql, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "answers") {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
	}
}
