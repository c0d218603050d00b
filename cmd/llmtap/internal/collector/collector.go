// Package collector builds and runs the roles of an llmtap process.
//
//	hooks, proxy, receive ──> NATS ──> analyze ──> batcher ──> ClickHouse
//	                                      └─> tallies ──> NATS ──> alert ──> Slack
//
// NATS and ClickHouse are embedded or external; nothing else differs. A process builds only the roles that it runs, and
// closes them in reverse order: it stops reading, finishes pending work, flushes and closes.
//
// # Why a process serves without NATS and ClickHouse
//
// Agents call their providers through the proxy, and must not fail because storage does. Open therefore checks only what
// belongs to this process: the configuration, the listeners and the locks of the data directory. Run serves at once, and
// connects to NATS and ClickHouse, embedded or not, in the background until it succeeds. A role that fails starts again.
// The reasons are in the log, in the banner and in /readyz.
package collector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/promapi"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Options are the settings of a Collector that do not come from the configuration.
type Options struct {
	Logger    *slog.Logger
	Progress  func(string)          // called if startup takes a long time
	Up        func(context.Context) // called once by Run, when all parts work or after upWait; may be nil
	Notifiers []alerts.Notifier     // notifiers in addition to the configured ones
	Hangups   <-chan os.Signal      // signals that reload the rule files; nil: none
	Version   string
}

// A Collector is a running llmtap process.
type Collector struct {
	cfg       config.Config
	opts      Options
	logger    *slog.Logger
	reg       *prometheus.Registry
	roleRegs  registries // metrics of roles that may start again
	metrics   prometheus.Gatherers
	nats      jetstream.Config   // URL and login of the server in use
	server    *natsserver.Server // nil if NATS is external
	key       shapeKey           // of the hashes of users and texts
	started   chan error         // result of the first start of server; capacity 1, never closed
	conn      atomic.Pointer[jetstream.Conn]
	connected chan struct{}                 // closed when conn is set
	ensuring  sync.Mutex                    // held to create streams: JetStream reserves storage for each request, also for a second one
	store     *store                        // nil if only the roles proxy and receive run
	owner     string                        // name under which leases are held
	proxy     *proxyRole                    // nil if the role is not run
	receive   *receiveRole                  // nil if the role is not run
	ui        *uiRole                       // nil if the role is not run
	analyze   *analyzeRole                  // nil if the role is not run
	controls  atomic.Pointer[controls]      // nil while the role alert does not run
	problems  atomic.Pointer[problems]      // nil while neither the role alert nor the role ui runs
	calls     atomic.Pointer[engine.Engine] // engine over calls, of the role alert or else of the role ui; nil while neither runs
	receivers *receiverChecks               // nil if the role alert is not run
	tallies   *promapi.Handler              // of all listeners, so that they share its bounds
	agents    http.Handler                  // of coding agents, likewise
	status    status
	disk      *diskGuard // nil if NATS is external
	guard     guard
	machines  *access.Machines
	audit     *audit
	tls       *tls.Config // of all listeners; nil: no TLS
	listener  net.Listener
	closers   []func()
}

// Open checks cfg, a valid configuration, and opens the listeners. It starts an embedded NATS, but does not
// wait for any server, except for the key of users at its first start with an external NATS.
func Open(ctx context.Context, cfg config.Config, o Options) (_ *Collector, err error) {
	c := &Collector{
		cfg: cfg, opts: o, logger: o.Logger, reg: prometheus.NewRegistry(), owner: ownerName(cfg.NATS.URL != ""),
		connected: make(chan struct{}), started: make(chan error, 1),
	}
	c.tallies = promapi.NewHandler(promapi.Options{Engines: c.engines, Interval: cfg.Alerts.EvaluationInterval, Version: o.Version, Logger: o.Logger})
	c.agents = mcpserver.NewHandler(mcpserver.Options{
		Open: c.openStore, Pages: func(rows.Querier) string { return c.linkedPages() }, Problems: c.localProblems, Rules: cfg.Alerts, Prices: cfg.Prices, Version: o.Version, Logger: o.Logger,
	})
	c.audit = newAudit(o.Logger, c.stores(), c.reg)
	c.machines = access.NewMachines(accessStore{c.conn.Load}, time.Now)
	c.metrics = prometheus.Gatherers{c.reg, &c.roleRegs}
	c.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.tls, err = cfg.TLS.Config(o.Logger); err != nil {
		return nil, fmt.Errorf("read the certificate of the listeners: %w", err)
	}
	if c.guard, err = newGuard("http", cfg.HTTP.Token, cfg.HTTP.TokenFile); err != nil {
		return nil, err
	}
	_, err = FindRunning(cfg.DataDir)
	if denied, ok := errors.AsType[*config.PermissionError](err); ok {
		return nil, denied
	}
	if err := c.newNATS(ctx); err != nil {
		return nil, err
	}
	if c.key, err = c.newShapeKey(ctx); err != nil {
		return nil, err
	}
	c.disk = c.newDiskGuard()
	if cfg.HasRole(config.RoleProxy) {
		if c.proxy, err = c.newProxyRole(ctx); err != nil {
			return nil, err
		}
	}
	if cfg.HasRole(config.RoleReceive) {
		if c.receive, err = c.newReceiveRole(ctx); err != nil {
			return nil, err
		}
	}
	if c.stores() {
		if c.store, err = newStore(&cfg, c.opts.Progress, c.logger, c.reg); err != nil {
			return nil, err
		}
		c.onClose(c.store.close)
	}
	if cfg.HasRole(config.RoleAnalyze) {
		if c.analyze, err = c.newAnalyzeRole(); err != nil {
			return nil, err
		}
		c.metrics = append(c.metrics, &c.analyze.metrics)
	}
	if cfg.HasRole(config.RoleAlert) {
		if _, err := cfg.Alerts.Rules().Load(); err != nil {
			return nil, fmt.Errorf("load the alert rules: %w", err)
		}
		if c.receivers, err = newReceiverChecks(&cfg, c.logger, c.reg); err != nil {
			return nil, err
		}
	}
	if cfg.HasRole(config.RoleUI) {
		if c.ui, err = c.newUIRole(ctx); err != nil {
			return nil, err
		}
	}
	if c.listener, err = c.listen(ctx, cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", cfg.Listen, err)
	}
	c.onClose(func() { _ = c.listener.Close() }) // error ignored: the server may have closed it already
	return c, c.announce()
}

// announce makes this process known to other commands on this machine.
func (c *Collector) announce() error {
	r := Running{PID: os.Getpid(), Since: time.Now().UTC(), Version: c.opts.Version, Roles: c.cfg.Roles, HTTPAddr: c.httpAddr(), PagesURL: c.PagesURL(), CertFile: c.certFile(), NoUserKey: c.key.text == "", UserKey: c.key.export()}
	if c.server != nil {
		r.NATSURL = c.server.URL()
	}
	if c.receive != nil {
		r.ReceiveURL, r.OTLPURL = c.receive.url(), c.receive.otlp.url()
	}
	remove, err := Announce(c.cfg.DataDir, r)
	if err != nil {
		return err
	}
	c.onClose(remove)
	return nil
}

// stores reports whether this process uses ClickHouse; the roles proxy and receive do not.
func (c *Collector) stores() bool {
	return c.cfg.HasRole(config.RoleAnalyze) || c.cfg.HasRole(config.RoleAlert) || c.cfg.HasRole(config.RoleUI)
}

// NATSURL returns the URL of the NATS server in use, for hooks.
func (c *Collector) NATSURL() string {
	if c.server != nil {
		return c.server.URL()
	}
	return c.nats.URL
}

// ClickHouse returns the ClickHouse in use. It is nil if the process stores nothing, or before the embedded ClickHouse has started
// for the first time.
func (c *Collector) ClickHouse() *clickhouse.Sink {
	if c.store == nil {
		return nil
	}
	return c.store.sink.Load()
}

// NoStore returns why this machine has no ClickHouse and how to add one, or ErrDownload or why that failed, or nil if it has.
func (c *Collector) NoStore() error { return c.store.missing() }

// listen opens a listener, with TLS if it is configured.
func (c *Collector) listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l = limit(l, maxConnections, c.logger)
	if c.tls == nil {
		return l, nil
	}
	return tls.NewListener(l, c.tls), nil
}

// scheme returns the scheme of URLs of listeners.
func (c *Collector) scheme() string {
	if c.tls != nil {
		return "https"
	}
	return "http"
}

// localURL returns the URL of a listener for programs on this machine.
func (c *Collector) localURL(l net.Listener) string {
	return config.LocalURL(l.Addr().String(), c.tls != nil)
}

// certFile returns the absolute path of the certificate of the listeners, or "".
func (c *Collector) certFile() string {
	if c.tls == nil {
		return ""
	}
	if path, err := filepath.Abs(c.cfg.TLS.CertFile); err == nil {
		return path
	}
	return c.cfg.TLS.CertFile
}

func (c *Collector) httpAddr() string { return c.listener.Addr().String() }

func (c *Collector) onClose(f func()) { c.closers = append(c.closers, f) }

// Close closes everything that Open and Run have opened, in reverse order. Call it after Run has returned.
func (c *Collector) Close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
	c.closers = nil
}

// Run runs the roles until ctx ends, then stops them without losing events: events read by then are stored, all others stay
// in the stream. It returns earlier only if this process cannot serve.
func (c *Collector) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	srv := newServer(c.handler(c.guard, c.guard.gate(c.machines)), bodyTimeout, c.logger)
	g.Go(func() error { return serve(ctx, srv, c.listener, 2*time.Second) })
	if c.proxy != nil {
		g.Go(func() error { return c.proxy.run(ctx) })
	}
	if c.receive != nil {
		g.Go(func() error { return c.receive.run(ctx) })
	}
	if c.ui != nil {
		g.Go(func() error { return c.ui.serve(ctx) })
	}
	g.Go(func() error { return c.connectNATS(ctx) })
	g.Go(func() error { return c.followAccess(ctx) })
	g.Go(func() error { return c.guardDisk(ctx) })
	if c.store != nil {
		g.Go(func() error { return c.store.open(ctx) })
		g.Go(func() error {
			c.audit.run(ctx, sinks.NewBatcher(c.store, c.cfg.Batcher, c.logger, nil))
			return nil
		})
	}
	c.audit.record(c.configured())
	switch {
	case c.stores():
		if c.analyze != nil {
			g.Go(func() error { return c.runRole(ctx, config.RoleAnalyze, c.runAnalyze) })
		}
		if c.cfg.HasRole(config.RoleAlert) {
			g.Go(func() error { return c.runRole(ctx, config.RoleAlert, c.runAlert) })
			g.Go(func() error { return c.receivers.run(ctx) })
		}
		if c.ui != nil {
			g.Go(func() error { return c.runRole(ctx, config.RoleUI, c.ui.run) })
		}
	case c.server != nil: // the streams of an embedded NATS
		g.Go(func() error { return c.runRole(ctx, c.cfg.Roles[0], waitFor) })
	}
	g.Go(func() error {
		c.awaitReady(ctx)
		return nil
	})
	return g.Wait()
}

// waitFor returns when ctx ends.
func waitFor(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// serve serves until ctx ends, then waits up to drain for requests in flight and aborts the rest.
func serve(ctx context.Context, srv *http.Server, l net.Listener, drain time.Duration) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		err := srv.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close()
		}
		stopped <- err
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve http: %w", err)
	}
	return <-stopped
}
