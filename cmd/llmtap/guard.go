package main

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/secret"
)

// A guard decides who may ask the listener of health and metrics. With a token it is whoever presents the token, and
// anyone for health; without one, whoever names this machine by a loopback name.
type guard struct{ token string }

func newGuard(cfg config.HTTP) (guard, error) {
	token, err := secret.Read(cfg.Token, "http.token_file", cfg.TokenFile)
	if err != nil {
		return guard{}, err
	}
	return guard{token}, nil
}

// wrap lets through to next what is allowed.
func (g guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
		switch {
		case foreign(r):
			http.Error(w, "pages of another origin may not ask this listener", http.StatusForbidden)
		case g.token == "" && !config.IsLoopback(hostOf(r.Host)):
			// A web page that resolves its own name to 127.0.0.1 would read everything else.
			http.Error(w, "this listener answers to loopback names only; set http.token to use another", http.StatusForbidden)
		case !health && !g.knows(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send Authorization: Bearer and the token of http.token", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knows reports whether the one who asks may see everything.
func (g guard) knows(r *http.Request) bool {
	if g.token == "" {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}

// foreign reports whether a page that another host served makes this request.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

// hostOf is a Host header without its port.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
