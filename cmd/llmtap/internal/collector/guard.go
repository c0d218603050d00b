package collector

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/secret"
)

// A guard controls access to health and metrics. With a token, health is open to all and everything else requires the token;
// without one, requests must use a loopback name of this machine.
type guard struct{ token string }

func newGuard(cfg config.HTTP) (guard, error) {
	token, err := secret.Read(cfg.Token, "http.token_file", cfg.TokenFile)
	return guard{token}, err
}

// wrap passes permitted requests to next.
func (g guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
		switch {
		case crossOrigin(r):
			http.Error(w, "cross-origin requests are not allowed", http.StatusForbidden)
		case g.token == "" && !loopback.Is(r.Host):
			// A web page could resolve its own name to 127.0.0.1 and read the response.
			http.Error(w, "only loopback host names are allowed; set http.token to allow others", http.StatusForbidden)
		case !health && !g.authorized(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Authorization: Bearer with the token of http.token is required", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorized reports whether r presents the token, if one is required.
func (g guard) authorized(r *http.Request) bool {
	if g.token == "" {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}

// crossOrigin reports whether a page of another host makes this request.
func crossOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
