package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/pages"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
	"github.com/llmtap/llmtap/sinks"
)

// healthPrefix is the prefix of the state of the engine that evaluates the rules about llmtap itself.
const healthPrefix = "health."

// A uiRole serves the web pages.
type uiRole struct {
	c        *Collector
	listener net.Listener
	tokens   secret.Tokens
	people   *access.Sessions // nil: nobody logs in at a provider
	groups   *engine.SharedGroups
	decided  *engine.Decisions // of a process without the role alert
	pages    *web.Handler
	own      atomic.Pointer[controls] // of a process without the role alert
}

func (c *Collector) newUIRole(ctx context.Context) (*uiRole, error) {
	u := &uiRole{c: c, groups: engine.NewSharedGroups("", healthPrefix), decided: engine.NewDecisions()}
	var err error
	if u.tokens, err = secret.ReadTokens(c.cfg.UI.Token, "ui.token_file", c.cfg.UI.TokenFile); err != nil {
		return nil, err
	}
	if !u.tokens.Required() {
		u.tokens = c.guard.tokens
	}
	if u.listener, err = c.listen(ctx, c.cfg.UI.Listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --ui-listen", c.cfg.UI.Listen, err)
	}
	c.onClose(func() { _ = u.listener.Close() }) // error ignored: the server may have closed it already
	key := u.tokens.Key("llmtap web session")
	if u.people, key, err = u.newPeople(key); err != nil {
		return nil, err
	}
	stored := pages.Source(c.queryable)
	live := pages.Alerts{Groups: u.groups}
	people := pages.Controls{
		Alerts: live, Config: c.cfg.Alerts, Prices: c.cfg.Prices, Alertmanagers: c.cfg.Alertmanager.URLs, Others: c.cfg.NotifiesOthers(),
		Engines: c.engines, Controls: u.controls, Sink: stored,
	}
	u.pages, err = web.NewHandler(web.Options{
		ClickHouse: stored.Query, Explorer: stored.Explore, Write: pages.Write, Firing: live.Firing, Changes: live.Changes,
		Controls: people, Problems: pages.Problems{Controls: people, Problems: c.knownProblems}, Views: savedViews{c.conn.Load},
		Incidents: pages.Incidents{Groups: u.groups, Access: func() alerts.Access { return reachable(&c.cfg.UI, c.httpAddr()) }}, Tallies: pages.Tallies(c.calls.Load).Range, Usual: pages.Tallies(c.calls.Load).Usual, Health: u.parts,
		Conversations: pages.Conversations{Source: stored}, Ways: c.ways, Refused: c.refused, HashUser: c.key.hashUser, NoUserKey: c.key.missing(),
		Prices: c.cfg.Prices, CodeURL: c.cfg.UI.CodeURL, Login: u.login(), People: u.people, Machines: c.machines, Hooks: c.hooks(), SessionKey: key, Version: c.opts.Version, Logger: c.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open the web pages: %w", err)
	}
	return u, nil
}

// login returns the function that accepts tokens of people, or nil if none is required.
func (u *uiRole) login() func(token string) bool {
	if !u.tokens.Required() {
		return nil
	}
	return u.tokens.Accept
}

// engines returns the alert engines of this process. Without the role alert it has none over the health of llmtap.
func (c *Collector) engines() []*engine.Engine {
	if role := c.controls.Load(); role != nil {
		return role.engines()
	}
	if calls := c.calls.Load(); calls != nil {
		return []*engine.Engine{calls}
	}
	return nil
}

// controls returns what people may do to alerts, or nil while the silences are not known.
func (u *uiRole) controls() alerts.Controls {
	for _, x := range []*controls{u.c.controls.Load(), u.own.Load()} {
		if x != nil && x.ready() {
			return x
		}
	}
	return nil
}

// knownProblems returns the problems, or nil while they are not known.
func (c *Collector) knownProblems() alerts.Problems {
	if p := c.problems.Load(); p != nil && p.ready() {
		return p
	}
	return nil
}

// UIURL returns the URL of the first page on this machine, or "" if the role is not run.
func (c *Collector) UIURL() string {
	if c.ui == nil {
		return ""
	}
	return c.localURL(c.ui.listener) + "/"
}

// serve serves the pages until ctx ends.
func (u *uiRole) serve(ctx context.Context) error {
	srv := newServer(u.handler(), bodyTimeout, u.c.logger)
	return serve(ctx, srv, u.listener, 200*time.Millisecond)
}

// handler returns the handler of the listener. Commands with --url reach the API under the same URL as the pages, with http.token, or
// with ui.token if that is the only one: a client that is not on this machine may say that its host is, too.
func (u *uiRole) handler() http.Handler {
	g := u.c.guard
	if !g.tokens.Required() {
		g = guard{"ui", u.tokens}
	}
	gate := g.gate(u.c.machines)
	gate.Closed = gate.Closed || u.people != nil // a proxy in front of the pages is on this machine, and those who use it are not
	api := u.c.handler(g, gate)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/"), r.URL.Path == "/healthz", r.URL.Path == "/readyz", r.URL.Path == mcpserver.Path:
			if u.c.cfg.UI.ExternalURL == "" {
				w.Header().Set(remote.PagesHeader, u.c.scheme()+"://"+r.Host)
			}
			api.ServeHTTP(w, r)
		case crossOrigin(r):
			http.Error(w, "cross-origin requests are not allowed", http.StatusForbidden)
		case !u.tokens.Required() && u.people == nil && !loopback.Is(r.Host): // as in guard.local
			http.Error(w, "only loopback host names are allowed; set ui.token to allow others", http.StatusForbidden)
		default:
			u.pages.ServeHTTP(w, r)
		}
	})
}

// run keeps what the pages read from NATS current until ctx ends.
func (u *uiRole) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.follow(ctx) })
	if !u.c.cfg.HasRole(config.RoleAlert) { // whose engine and controls the pages use otherwise
		g.Go(func() error { return u.readTallies(ctx) })
		g.Go(func() error { return u.control(ctx) })
	}
	return g.Wait()
}

// readTallies keeps an engine that only answers queries: it is a standby that never leads, and has no receivers. What is usual, it knows
// from the leader.
func (u *uiRole) readTallies(ctx context.Context) error {
	conn := u.c.conn.Load()
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return fmt.Errorf("open the state of alerts: %w", err)
	}
	engine, err := engine.New(ctx, u.c.cfg.Alerts, engine.Options{Standby: true, Store: &leasedStore{kv: kv}, Decisions: u.decided, Logger: u.c.logger})
	if err != nil {
		return fmt.Errorf("open the tallies: %w", err)
	}
	defer func() { _ = engine.Close() }() // it holds only copies
	u.c.calls.Store(engine)
	defer u.c.calls.Store(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return engine.FollowUsual(ctx) })
	g.Go(func() error {
		return readTallies(ctx, conn, u.c.logger, func(t *analyzer.Tally) error { return engine.Add(ctx, t) })
	})
	return g.Wait()
}

// control keeps silences, acknowledgements and problems current until ctx ends, and stores what people do.
func (u *uiRole) control(ctx context.Context) error {
	conn := u.c.conn.Load()
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return fmt.Errorf("open the state of alerts: %w", err)
	}
	rows := sinks.NewBatcher(u.c.store, u.c.cfg.Batcher, u.c.logger, nil)
	rows.DeadLetter = deadLetterRow(conn)
	own := &controls{
		kv: kv, decisions: u.decided, engines: func() []*engine.Engine { return nil },
		actions: &actionRows{kv: kv, rows: rows, logger: u.c.logger}, logger: u.c.logger,
	}
	u.own.Store(own)
	defer u.own.Store(nil)
	known := newProblems(kv, own, u.c.logger)
	u.c.problems.Store(known)
	defer u.c.problems.Store(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rows.Run(ctx) })
	g.Go(func() error {
		own.watch(ctx)
		return ctx.Err()
	})
	g.Go(func() error {
		known.watch(ctx)
		return ctx.Err()
	})
	return g.Wait()
}

// follow keeps the groups of alerts current until ctx ends.
func (u *uiRole) follow(ctx context.Context) error {
	kv, err := u.c.conn.Load().KV(ctx, event.BucketAlerts)
	if err != nil {
		return fmt.Errorf("open the state of alerts: %w", err)
	}
	unreadable := func(err error) {
		if err != nil {
			u.c.logger.Error("ignoring unreadable state of alerts", "err", err)
		}
	}
	kv.Watch(ctx, engine.GroupKeys("", healthPrefix), func(values map[string][]byte) { unreadable(u.groups.Replace(values)) },
		func(key string, value []byte) { unreadable(u.groups.Put(key, value)) })
	return ctx.Err()
}

// parts returns the parts of the collector, and the reason why one does not work.
func (u *uiRole) parts(ctx context.Context) []web.Part {
	reasons := map[string]string{}
	_, err := u.c.ready(ctx)
	for line := range strings.Lines(errorText(errors.Join(err, u.c.receiversFailed(), u.c.NoStore()))) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		reasons[name] = reason
	}
	names := []string{partNATS, "ClickHouse"}
	for _, role := range u.c.cfg.Roles {
		if role != config.RoleUI {
			names = append(names, role)
		}
	}
	var out []web.Part
	for _, name := range names {
		out = append(out, web.Part{Name: name, Reason: reasons[name]})
		delete(reasons, name)
	}
	if !access.ScopeOf(ctx).All() {
		return out // receivers may be those of other teams
	}
	for name, reason := range reasons { // receivers, and what ready names otherwise
		out = append(out, web.Part{Name: name, Reason: reason})
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
