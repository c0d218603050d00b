package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llmtap/llmtap/alerts/promapi"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	problemsapi "github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/secret"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// handler returns the handler for health, metrics and queries.
func (c *Collector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", c.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET "+RefusedPath, c.serveRefused)
	mux.Handle("POST "+remote.Path, c.withPages(remote.NewHandler(c.queryable)))
	mux.Handle(silences.Path, silences.NewHandler(c.silenceable, silences.Options{
		Access: access(&c.cfg.UI, c.httpAddr()), GroupBy: append(slices.Clone(c.cfg.Alerts.GroupBy), healthLabel), Version: c.opts.Version, Started: time.Now(),
	}))
	list := c.withPages(problemsapi.NewHandler(c.decidable))
	mux.Handle(problemsapi.Path, list)
	mux.Handle(problemsapi.Path+"/", list)
	mux.Handle(promapi.Path, c.tallies)
	mux.Handle(mcpserver.Path, c.agents)
	mux.Handle("GET "+promapi.FleetPath, promapi.NewFleet(c.engines, c.logger))
	return c.guard.wrap(mux)
}

// withPages adds the URL of the web pages to responses, unless the listener of the pages has done that.
func (c *Collector) withPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if base := c.PagesURL(); w.Header().Get(remote.PagesHeader) == "" && (c.cfg.UI.ExternalURL != "" || loopback.Is(r.Host)) {
			w.Header().Set(remote.PagesHeader, base)
		}
		next.ServeHTTP(w, r)
	})
}

// PagesURL returns the base URL of the web pages: ui.external_url, or else that on this machine, or "" if there is none.
func (c *Collector) PagesURL() string {
	return strings.TrimRight(cmp.Or(c.cfg.UI.ExternalURL, c.UIURL()), "/")
}

// openStore opens the ClickHouse for a call of a coding agent.
func (c *Collector) openStore(context.Context) (rows.Querier, func(), error) {
	sink, err := c.queryable()
	return sink, func() {}, err
}

// linkedPages returns the base URL of the web pages for clients of the listener, or "" if they may not reach it.
func (c *Collector) linkedPages() string {
	if c.cfg.UI.ExternalURL != "" || loopback.Is(c.httpAddr()) {
		return c.PagesURL()
	}
	return ""
}

// silenceable returns the silences of this process.
func (c *Collector) silenceable() (silences.Source, error) {
	if !c.cfg.HasRole(config.RoleAlert) {
		return nil, errors.New("this process does not evaluate alerts: ask a process with the role alert")
	}
	if controls := c.controls.Load(); controls != nil && controls.ready() {
		return controls, nil
	}
	return nil, errors.New("the silences have not been read yet; retry in a few seconds")
}

// queryable returns the ClickHouse for queries.
func (c *Collector) queryable() (*clickhouse.Sink, error) {
	if c.store == nil {
		return nil, errors.New("this process has no ClickHouse: query a process with the role analyze or alert")
	}
	if sink := c.ClickHouse(); sink != nil {
		return sink, nil
	}
	return nil, c.store.startFailure()
}

// A guard controls access to a listener. If a token is set, health checks are open to all clients and all other requests
// require the token. If not, the host name in a request must be a loopback name.
type guard struct {
	section string // section of the configuration with the token: http or receive
	tokens  secret.Tokens
}

func newGuard(section, token, tokenFile string) (guard, error) {
	tokens, err := secret.ReadTokens(token, section+".token_file", tokenFile)
	return guard{section, tokens}, err
}

// wrap returns a handler that passes permitted requests to next.
func (g guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", remote.ServerName)
		health := r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
		switch {
		case crossOrigin(r):
			http.Error(w, "cross-origin requests are not allowed", http.StatusForbidden)
		case !g.tokens.Required() && !loopback.Is(r.Host):
			// The domain of a web page could resolve to 127.0.0.1, so that the page could read the response (DNS
			// rebinding).
			http.Error(w, "only loopback host names are allowed; set "+g.section+".token to allow others", http.StatusForbidden)
		case !health && !g.authorized(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Authorization: Bearer with the token of "+g.section+".token is required", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorized reports whether r contains the token, as a bearer token or as the password of any user, or no token is required.
func (g guard) authorized(r *http.Request) bool {
	if !g.tokens.Required() {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, token, ok = r.BasicAuth() // the only one that some tools can send
	}
	return ok && g.tokens.Accept(token)
}

// crossOrigin reports whether r was made by a web page from another host.
func crossOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		switch r.Header.Get("Sec-Fetch-Site") { // of browsers, also for requests without Origin, such as those for images
		case "", "none", "same-origin":
			return false
		}
		// A link in Slack to a page is such a request, and harmless: it shows the page to the person who follows it.
		return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate"
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
