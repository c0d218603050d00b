package collector

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// later is when tokens of tests expire.
var later = time.Now().Add(90 * 24 * time.Hour).UTC().Format(time.RFC3339)

// ask sends a request with a bearer token, unless it is empty, and returns the status and the body.
func ask(t *testing.T, token, method, url, body string) (status int, text string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	c := &http.Client{Transport: bearer(token), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(c.Do(r))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t))
}

// twoCollectors runs two processes with the token s3cret on one NATS, and returns the base URLs of their APIs and their pages.
func twoCollectors(t *testing.T) (apis, pages [2]string, first *Collector) {
	t.Helper()
	natsURL := collectortest.StartNATS(t, "")
	for i := range apis {
		c := open(t, func(cfg *config.Config) {
			cfg.Roles, cfg.HTTP.Token, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, "s3cret", natsURL, "http://127.0.0.1:1/llmtap"
			cfg.Batcher.DrainTimeout = noStore
		})
		collectortest.Run(t, c)
		apis[i], pages[i] = "http://"+c.httpAddr(), strings.TrimSuffix(c.UIURL(), "/")
		if i == 0 {
			first = c
		}
	}
	return apis, pages, first
}

// create makes a token at the API at base, once NATS answers.
func create(t *testing.T, base, name, role string) string {
	t.Helper()
	var made tokens.Created
	must.Wait(t, "a token", func() bool {
		status, body := ask(t, "s3cret", http.MethodPost, base+tokens.Path, `{"name": "`+name+`", "role": "`+role+`", "expires": "`+later+`"}`)
		if status == http.StatusBadRequest {
			t.Fatal(body)
		}
		return status == http.StatusOK && json.Unmarshal([]byte(body), &made) == nil
	})
	if !regexp.MustCompile(`^llmtap_[A-Za-z0-9_-]{43}$`).MatchString(made.Secret) {
		t.Fatalf("token %q", made.Secret)
	}
	return made.Secret
}

// A token that one process has made works at all of them, until one of them revokes it.
func TestMachines(t *testing.T) {
	t.Parallel()
	apis, pages, _ := twoCollectors(t)
	reader := create(t, apis[0], "grafana", "viewer")
	accepted := func(base, path string) bool {
		status, _ := ask(t, reader, http.MethodGet, base+path, "")
		return status == http.StatusOK
	}
	must.Wait(t, "the token at the other process", func() bool {
		return accepted(apis[1], "/metrics") && accepted(pages[1], "/views") && accepted(pages[1], "/api/v1/status/buildinfo")
	})
	status, body := ask(t, reader, http.MethodPost, apis[1]+"/api/v2/silences", "{}")
	must.Equal(t, status, http.StatusForbidden, "a viewer silences")
	must.Contain(t, body, "token grafana has the role viewer, and this needs the role responder")
	for _, wrong := range []string{"", "llmtap_", reader + "x", reader[:len(reader)-1], "llmtap_" + strings.Repeat("A", 43)} {
		status, _ = ask(t, wrong, http.MethodGet, apis[1]+"/metrics", "")
		must.Equal(t, status, http.StatusUnauthorized, "token %q", wrong)
	}
	status, body = ask(t, "s3cret", http.MethodGet, apis[0]+tokens.Path, "")
	must.Equal(t, status, http.StatusOK, "list")
	must.Contain(t, body, `"name":"grafana","role":"viewer"`)
	if strings.Contains(body, reader) || strings.Contains(body, "hash") {
		t.Errorf("the list has secrets: %s", body)
	}
	status, _ = ask(t, "s3cret", http.MethodPost, apis[0]+tokens.Path, `{"name": "grafana", "role": "admin", "expires": "`+later+`"}`)
	must.Equal(t, status, http.StatusConflict, "the same name again")
	for _, bad := range []string{`{"name": "a b", "role": "viewer", "expires": "` + later + `"}`, `{"name": "a", "role": "public", "expires": "` + later + `"}`, `{"name": "a", "expires": "` + later + `"}`, `{"name": "a", "role": "viewer"}`, `{"name": "a", "role": "viewer", "expires": "2020-01-01T00:00:00Z"}`} {
		status, _ = ask(t, "s3cret", http.MethodPost, apis[0]+tokens.Path, bad)
		must.Equal(t, status, http.StatusBadRequest, "%s", bad)
	}

	status, _ = ask(t, "s3cret", http.MethodDelete, apis[1]+tokens.Path+"/grafana", "")
	must.Equal(t, status, http.StatusOK, "revoke")
	since := time.Now()
	must.Wait(t, "the end of the token at the other process", func() bool { return !accepted(apis[0], "/metrics") && !accepted(pages[0], "/views") })
	t.Logf("revoked at the other process after %v", time.Since(since))
	if accepted(apis[1], "/metrics") {
		t.Error("the process that has revoked the token accepts it")
	}
	status, _ = ask(t, "s3cret", http.MethodDelete, apis[1]+tokens.Path+"/grafana", "")
	must.Equal(t, status, http.StatusNotFound, "revoke again")
	create(t, apis[1], "grafana", "viewer") // the name is free
}

// Each route of the API needs the role that it names: others are refused.
func TestAPIRoles(t *testing.T) {
	t.Parallel()
	apis, pages, c := twoCollectors(t)
	secrets := map[access.Role]string{access.Public: ""}
	for role := access.Viewer; role <= access.Admin; role++ {
		secrets[role] = create(t, apis[0], role.String(), role.String())
	}
	routes := c.routes(c.guard, c.guard.gate(c.machines)).Routes()
	for pattern, needs := range routes {
		must.Equal(t, pattern == "GET /healthz" || pattern == "GET /readyz", needs == access.Public, "%s needs the role %s", pattern, needs)
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodDelete, pattern
		}
		if strings.HasSuffix(path, "/") {
			path += "x"
		}
		if needs == access.Public {
			continue
		}
		for role, token := range secrets {
			for _, base := range []string{apis[0], pages[0]} {
				if base == pages[0] && !strings.HasPrefix(path, "/api/") {
					continue
				}
				status, _ := ask(t, token, method, base+path, "")
				want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusForbidden}[role == access.Public]
				must.Equal(t, status == want, role < needs, "%s %s as %s, needs %s: %d", method, path, role, needs, status)
			}
		}
	}
	for pattern, want := range map[string]access.Role{
		"POST /api/query": access.Viewer, "/mcp": access.Viewer, "/api/v1/": access.Viewer, "/api/v2/": access.Responder, "/api/v1/problems/": access.Responder, "/api/v1/tokens": access.Admin,
	} {
		must.Equal(t, routes[pattern], want, "%s", pattern)
	}
}
