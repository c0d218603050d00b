// Package collector builds and runs the roles of an llmtap process.
//
//	hooks, proxy ──> NATS ──> analyze ──> batcher ──> ClickHouse
//	                             └─> tallies ──> NATS ──> alert ──> Slack
//
// NATS and ClickHouse are embedded or external; nothing else differs. A process builds only the roles that it runs, in
// dependency order, and closes them in reverse: it stops reading, finishes pending work, flushes and closes.
package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Options are the settings of a Collector that do not come from the configuration.
type Options struct {
	Logger    *slog.Logger
	Progress  func(string)      // called if startup takes a long time
	Notifiers []alerts.Notifier // notifiers in addition to the configured ones
	Hangups   <-chan os.Signal  // signals that reload the rule files; nil: none
	Version   string
}

// A Collector is a running llmtap process.
type Collector struct {
	cfg      config.Config
	opts     Options
	logger   *slog.Logger
	reg      *prometheus.Registry
	metrics  prometheus.Gatherers
	nats     jetstream.Config // URL and login of the server in use
	conn     *jetstream.Conn  // nil if only the proxy runs, on an external NATS
	sink     rowSink          // nil if only the proxy runs
	owner    string           // name under which leases are held
	proxy    *proxyRole       // nil if the role is not run, like the roles below
	analyze  *analyzeRole
	alert    *alertRole
	guard    guard
	listener net.Listener
	closers  []func()
}

// A rowSink stores rows and reports whether its server responds.
type rowSink interface {
	sinks.Sink
	Ping(ctx context.Context) error
}

// Open starts or connects to NATS and ClickHouse, creates streams and tables, and builds the roles of cfg, a valid
// configuration.
func Open(ctx context.Context, cfg config.Config, o Options) (_ *Collector, err error) {
	c := &Collector{
		cfg: cfg, opts: o, logger: o.Logger, reg: prometheus.NewRegistry(), owner: ownerName(cfg.NATS.URL != ""),
	}
	c.metrics = prometheus.Gatherers{c.reg}
	c.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.guard, err = newGuard(cfg.HTTP); err != nil {
		return nil, err
	}
	if err := c.openNATS(ctx); err != nil {
		return nil, err
	}
	if cfg.HasRole(config.RoleProxy) {
		if c.proxy, err = c.newProxyRole(ctx); err != nil {
			return nil, err
		}
	}
	if c.stores() {
		if c.sink, err = c.openClickHouse(ctx); err != nil {
			return nil, err
		}
		c.onClose(func() {
			if err := c.sink.Close(); err != nil {
				c.logger.Error("sink did not close cleanly", "err", err)
			}
		})
	}
	if cfg.HasRole(config.RoleAnalyze) {
		if c.analyze, err = c.newAnalyzeRole(); err != nil {
			return nil, err
		}
		c.metrics = append(c.metrics, &c.analyze.metrics)
	}
	if cfg.HasRole(config.RoleAlert) {
		if c.alert, err = c.newAlertRole(ctx); err != nil {
			return nil, err
		}
	}
	if c.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", cfg.Listen, err)
	}
	c.onClose(func() { _ = c.listener.Close() }) // error ignored: the server may have closed it already
	return c, c.announce()
}

// announce makes this process known to other commands on this machine.
func (c *Collector) announce() error {
	r := Running{PID: os.Getpid(), Since: time.Now().UTC(), Version: c.opts.Version, Roles: c.cfg.Roles, HTTPAddr: c.httpAddr()}
	if c.cfg.NATS.URL == "" {
		r.NATSURL = c.nats.URL
	}
	remove, err := Announce(c.cfg.DataDir, r)
	if err != nil {
		return err
	}
	c.onClose(remove)
	return nil
}

// stores reports whether this process reads the stream or writes rows; the proxy does neither.
func (c *Collector) stores() bool {
	return c.cfg.HasRole(config.RoleAnalyze) || c.cfg.HasRole(config.RoleAlert)
}

// NATSURL returns the URL of the NATS server in use.
func (c *Collector) NATSURL() string { return c.nats.URL }

// ClickHouse returns the ClickHouse in use, or nil if only the proxy runs.
func (c *Collector) ClickHouse() *clickhouse.Sink {
	s, _ := c.sink.(*clickhouse.Sink)
	return s
}

func (c *Collector) httpAddr() string { return c.listener.Addr().String() }

func (c *Collector) onClose(f func()) { c.closers = append(c.closers, f) }

// Close closes everything that Open has opened, in reverse order.
func (c *Collector) Close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
	c.closers = nil
}

func (c *Collector) openNATS(ctx context.Context) error {
	c.nats = c.cfg.NATS
	embedded := c.nats.URL == ""
	if embedded {
		cfg := c.cfg.NATSServer
		cfg.Logger = c.logger
		srv, err := natsserver.Start(ctx, cfg)
		if err != nil {
			return fmt.Errorf("start embedded NATS: %w", err)
		}
		c.onClose(srv.Shutdown)
		c.nats.URL, c.nats.Token, c.nats.TokenFile = srv.URL(), cfg.Token, cfg.TokenFile
	}
	if !embedded && !c.stores() {
		return nil // the proxy has its own connection, and agents do not wait for NATS
	}
	conn, err := jetstream.Connect(ctx, c.nats, c.logger, c.reg)
	if err != nil {
		return err
	}
	c.conn = conn
	c.onClose(conn.Close)
	if err := conn.Ensure(ctx); err != nil {
		return fmt.Errorf("create streams: %w", err)
	}
	return nil
}

func (c *Collector) openClickHouse(ctx context.Context) (rowSink, error) {
	cfg := c.cfg.ClickHouse
	if cfg.DSN == "" {
		engine := c.cfg.Chdb
		engine.Logger, engine.Progress, engine.Registerer = c.logger, c.opts.Progress, c.reg
		srv, err := chdb.Start(ctx, engine)
		if err != nil {
			return nil, fmt.Errorf("start embedded ClickHouse: %w", err)
		}
		c.onClose(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
			defer cancel()
			if err := srv.Close(ctx); err != nil {
				c.logger.Error("embedded clickhouse did not stop cleanly", "err", err)
			}
		})
		cfg.DSN = srv.DSN()
	}
	sink, err := clickhouse.OpenLazy(ctx, cfg, c.logger, c.reg)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	return sink, nil
}

// Run runs the roles until ctx ends, then stops them without losing events: events read by then are stored, all others stay
// in the stream.
func (c *Collector) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if c.proxy != nil {
		g.Go(func() error { return c.proxy.run(ctx) })
	}
	if c.analyze != nil {
		g.Go(func() error { return c.analyze.run(ctx) })
	}
	if c.alert != nil {
		g.Go(func() error { return c.alert.run(ctx) })
	}
	srv := &http.Server{Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second}
	g.Go(func() error { return serve(ctx, srv, c.listener, 2*time.Second) })
	return g.Wait()
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
