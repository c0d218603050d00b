package collector

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	problemsapi "github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/secret"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	f := func(token, method, url string, header map[string]string, want int) {
		t.Helper()
		tokens := must.Get(secret.ReadTokens(token, "", ""))(t)
		h := guard{"http", tokens}.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
		r := httptest.NewRequest(method, url, nil)
		for k, v := range header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		must.Equal(t, w.Code, want, "token %q: %s %s %v", token, method, url, header)
	}
	bearer := func(s string) map[string]string { return map[string]string{"Authorization": "Bearer " + s} }
	// Without a token, only loopback names are allowed.
	f("", "GET", "http://127.0.0.1:8088/metrics", nil, 200)
	f("", "GET", "http://localhost/metrics", nil, 200)
	f("", "GET", "http://[::1]:8088/metrics", nil, 200)
	f("", "GET", "http://rebound.example:8088/metrics", nil, 403)
	f("", "GET", "http://rebound.example:8088/readyz", nil, 403)
	// With a token, any name is allowed, and health without the token.
	f("s", "GET", "http://llmtap.internal:8088/metrics", bearer("s"), 200)
	f("s", "GET", "http://llmtap.internal:8088/metrics", bearer("t"), 401)
	f("s", "GET", "http://llmtap.internal:8088/metrics", bearer(""), 401)
	f("s", "GET", "http://llmtap.internal:8088/metrics", map[string]string{"Authorization": "s"}, 401)
	f("s", "GET", "http://127.0.0.1:8088/metrics", nil, 401)
	basic := func(s string) map[string]string {
		return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(s))}
	}
	f("s", "GET", "http://llmtap.internal:8088/api/v1/query", basic("grafana:s"), 200)
	f("s", "GET", "http://llmtap.internal:8088/api/v1/query", basic("s:grafana"), 401)
	f("s", "GET", "http://llmtap.internal:8088/api/v1/query", nil, 401)
	f("s", "GET", "http://llmtap.internal:8088/metrics/fleet", nil, 401)
	f("s", "GET", "http://llmtap.internal:8088/healthz", nil, 200)
	f("s", "GET", "http://llmtap.internal:8088/readyz", nil, 200)
	f("s", "POST", "http://llmtap.internal:8088/readyz", nil, 401)
	f("s", "GET", "http://llmtap.internal:8088/healthz/../metrics", nil, 401)
	f("", "POST", "http://127.0.0.1:8088/api/query", nil, 200)
	f("", "POST", "http://rebound.example:8088/api/query", nil, 403)
	f("s", "POST", "http://llmtap.internal:8088/api/query", bearer("s"), 200)
	f("s", "POST", "http://llmtap.internal:8088/api/query", nil, 401)
	f("s", "POST", "http://127.0.0.1:8088/api/query", nil, 401)
	f("s", "POST", "http://llmtap.internal:8088/api/v1/problems/0123456789abcdef", nil, 401)
	f("s", "GET", "http://llmtap.internal:8088/api/v1/problems", nil, 401)
	f("", "POST", "http://rebound.example:8088/api/v1/problems/0123456789abcdef", nil, 403)
	f("", "POST", "http://127.0.0.1:8088/api/v1/problems/0123456789abcdef", map[string]string{"Origin": "http://127.0.0.1:3000"}, 403)
	f("", "POST", "http://127.0.0.1:8088/mcp", nil, 200)
	f("", "POST", "http://rebound.example:8088/mcp", nil, 403)
	f("s", "POST", "http://llmtap.internal:8088/mcp", bearer("s"), 200)
	f("s", "POST", "http://llmtap.internal:8088/mcp", nil, 401)
	f("s", "POST", "http://llmtap.internal:8088/mcp?content=true", nil, 401)
	// Cross-origin requests are refused.
	f("", "POST", "http://127.0.0.1:8088/mcp", map[string]string{"Origin": "http://127.0.0.1:3000"}, 403)
	f("", "POST", "http://127.0.0.1:8088/api/query", map[string]string{"Origin": "http://127.0.0.1:3000"}, 403)
	f("s", "POST", "http://llmtap.internal:8088/api/query", map[string]string{"Origin": "https://other.example", "Authorization": "Bearer s"}, 403)
	f("", "GET", "http://127.0.0.1:8088/metrics", map[string]string{"Origin": "http://127.0.0.1:8088"}, 200)
	f("", "GET", "http://127.0.0.1:8088/metrics", map[string]string{"Origin": "http://127.0.0.1:3000"}, 403)
	f("", "GET", "http://127.0.0.1:8088/healthz", map[string]string{"Origin": "null"}, 403)
}

// A bearer sends a token with each request, unless it is empty.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Coding agents need the token, at the listener and beside the pages.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.HTTP.Token, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, "s3cret", "nats://127.0.0.1:1", "http://127.0.0.1:1/llmtap"
	})
	t.Cleanup(c.Close)
	for name, h := range map[string]http.Handler{"listen": c.handler(c.guard, c.guard.gate(c.machines)), "ui.listen": c.ui.handler()} {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		connect := func(token string) (*mcp.ClientSession, error) {
			transport := &mcp.StreamableClientTransport{Endpoint: srv.URL + mcpserver.Path, HTTPClient: &http.Client{Transport: bearer(token)}, MaxRetries: -1}
			return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		}
		for _, token := range []string{"", "wrong"} {
			must.Fail(t, must.Err(connect(token)), "Unauthorized", name, "token", token)
		}
		session, err := connect("s3cret")
		must.Do(t, err, name)
		for tool, want := range map[string]bool{"rules": false, "whats_wrong": true} { // ClickHouse is down
			res := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool}))(t)
			must.Equal(t, res.IsError, want, "%s, %s: %+v", name, tool, res)
		}
		must.Do(t, session.Close())
	}
}

// The API beside the pages needs ui.token where there is no http.token, whatever host a client says it wants.
func TestPagesToken(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.UI.Token, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, "s3cret", "nats://127.0.0.1:1", "http://127.0.0.1:1/llmtap"
	})
	t.Cleanup(c.Close)
	for _, route := range []string{"GET " + problemsapi.Path, "GET /api/v1/query", "POST " + remote.Path, "POST " + mcpserver.Path, "POST /api/v2/silences", "POST " + tokens.Path} {
		for token, refused := range map[string]bool{"": true, "wrong": true, "s3cret": false} {
			method, path, _ := strings.Cut(route, " ")
			r := httptest.NewRequest(method, path, nil)
			r.Host = "localhost"
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			c.ui.handler().ServeHTTP(w, r)
			must.Equal(t, w.Code == http.StatusUnauthorized, refused, "%s with the token %q: %d %s; refused", route, token, w.Code, w.Body)
		}
	}
}

func TestGuardTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(file, []byte(" s3cret\n"), 0o600))
	if g, err := newGuard("http", "", file); err != nil || !g.tokens.Accept("s3cret") {
		t.Errorf("%+v, %v", g, err)
	}
	// An empty file must not disable the token.
	must.Do(t, os.WriteFile(file, []byte("\n"), 0o600))
	if g, err := newGuard("http", "", file); err == nil {
		t.Errorf("empty token file accepted: %+v", g)
	}
}

func TestRunning(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	must.Is(t, must.Err(FindRunning(dir)), ErrNotRunning, "found in a directory that does not exist")
	want := Running{PID: 7, Roles: []string{"alert"}, NATSURL: "nats://127.0.0.1:1", HTTPAddr: "127.0.0.1:2"}
	remove := must.Get(Announce(dir, want))(t)
	st, err := os.Stat(runningFile(dir))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	second := must.Get(Announce(dir, Running{PID: 8}))(t)
	second()
	if got, err := FindRunning(dir); err != nil || got.PID != 7 || got.NATSURL != want.NATSURL {
		t.Errorf("found %+v, %v", got, err)
	}
	remove()
	must.Is(t, must.Err(FindRunning(dir)), ErrNotRunning, "found after it was removed")
	// The file of a killed process is ignored.
	must.Do(t, os.WriteFile(runningFile(dir), []byte(`{"pid":7,"nats_url":"nats://127.0.0.1:1"}`), 0o600))
	if got, err := FindRunning(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("found %+v, %v", got, err)
	}
}
