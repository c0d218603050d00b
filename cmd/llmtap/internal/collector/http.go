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
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/secret"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// handler returns the handler for health, metrics and queries of those whom gate, which is that of g or stricter, lets in.
func (c *Collector) handler(g guard, gate access.Gate) http.Handler {
	return g.local(gate.Closed, c.routes(g, gate))
}

// routes returns the routes of the API.
func (c *Collector) routes(g guard, gate access.Gate) *access.Mux {
	mux := g.mux(gate, c.hooks())
	mux.HandleFunc("GET /healthz", access.Public, access.Unaudited, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", access.Public, access.Unaudited, c.serveReady)
	mux.Handle("GET /metrics", access.Viewer, access.Unaudited, access.Whole(promhttp.HandlerFor(c.metrics, promhttp.HandlerOpts{}), "ask "+promapi.Path+" for the numbers of yours"))
	mux.Handle("GET "+RefusedPath, access.Viewer, access.Unaudited, access.Whole(http.HandlerFunc(c.serveRefused), "ask an admin which clients were refused"))
	mux.Handle("POST "+remote.Path, access.Viewer, access.RunSQL, c.withPages(remote.NewHandler(c.queryable, c.cfg.Prices)))
	alertmanager := silences.NewHandler(c.silenceable, silences.Options{
		Access: reachable(&c.cfg.UI, c.httpAddr()), GroupBy: append(slices.Clone(c.cfg.Alerts.GroupBy), healthLabel), Version: c.opts.Version, Started: time.Now(),
	})
	mux.Handle("GET "+silences.Path, access.Viewer, access.Unaudited, alertmanager)
	mux.Handle(silences.Path, access.Responder, access.ChangeSilence, alertmanager)
	list := c.withPages(problemsapi.NewHandler(c.decidable))
	for _, path := range []string{problemsapi.Path, problemsapi.Path + "/"} {
		mux.Handle("GET "+path, access.Viewer, access.Unaudited, list)
		mux.Handle(path, access.Responder, access.ChangeProblem, list)
	}
	mux.Handle(promapi.Path, access.Viewer, access.Unaudited, c.tallies) // it only reads, also with POST
	mux.Handle(mcpserver.Path, access.Viewer, access.Unaudited, c.agents)
	mux.Handle("GET "+promapi.FleetPath, access.Viewer, access.Unaudited, access.Whole(promapi.NewFleet(c.engines, c.logger), "ask "+promapi.Path+" for the numbers of yours"))
	machines := tokens.NewHandler(c.machines, c.cfg.Teams)
	mux.Handle(tokens.Path, access.Admin, access.Unaudited, machines)
	mux.Handle(tokens.Path+"/", access.Admin, access.Unaudited, machines)
	return mux
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
	section string // section of the configuration with the token: http, ui or receive
	tokens  secret.Tokens
}

func newGuard(section, token, tokenFile string) (guard, error) {
	tokens, err := secret.ReadTokens(token, section+".token_file", tokenFile)
	return guard{section, tokens}, err
}

// gate returns the gate for clients with the token, or with one of machines, which may be nil.
func (g guard) gate(machines *access.Machines) access.Gate {
	return access.Gate{Closed: g.tokens.Required(), Token: g.tokens.Accept, Machines: machines}
}

// mux returns routes of those whom gate lets in.
func (g guard) mux(gate access.Gate, hooks access.Hooks) *access.Mux {
	return access.NewMux(gate.Person, func(w http.ResponseWriter, r *http.Request, needs access.Role) {
		if p := access.From(r.Context()); p.Role >= needs && p.Role > access.Public {
			http.Error(w, p.Asking(), http.StatusForbidden)
			return
		} else if p.Role > access.Public {
			http.Error(w, p.Name+" has the role "+p.Role.String()+", and this needs the role "+needs.String(), http.StatusForbidden)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		text := "Authorization: Bearer with the token of " + g.section + ".token is required"
		if gate.Machines != nil {
			text += ", or one of llmtap token create that is valid"
		}
		http.Error(w, text, http.StatusUnauthorized)
	}, "api", hooks)
}

// local returns a handler that passes requests to next unless a page of another site may have made them. Listeners that are not
// closed serve only this machine.
func (g guard) local(closed bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", remote.ServerName)
		switch {
		case crossOrigin(r):
			http.Error(w, "cross-origin requests are not allowed", http.StatusForbidden)
		case !closed && !loopback.Is(r.Host):
			// The domain of a web page could resolve to 127.0.0.1, so that the page could read the response (DNS
			// rebinding).
			http.Error(w, "only loopback host names are allowed; set "+g.section+".token to allow others", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// wrap returns a handler that passes permitted requests to next: those of clients with the token, and health checks.
func (g guard) wrap(next http.Handler) http.Handler {
	mux := g.mux(g.gate(nil), access.Hooks{})
	mux.Handle("GET /healthz", access.Public, access.Unaudited, next)
	mux.Handle("GET /readyz", access.Public, access.Unaudited, next)
	mux.Handle("/", access.Viewer, access.Unaudited, next)
	return g.local(g.tokens.Required(), mux)
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
