package main

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
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A collector is a running llmtap.
//
//	hooks, gateway ──> NATS ──> analyze ──> batcher ──> ClickHouse
//	                               └─> tallies ──> NATS ──> alert ──> Slack
//
// NATS and ClickHouse are embedded or not; nothing else differs. Parts are opened in the order of their dependencies
// and closed in reverse: stop reading, finish what is in hand, flush, close.
type collector struct {
	cfg      config.Config
	logger   *slog.Logger
	reg      *prometheus.Registry
	conn     *jetstream.Conn
	sink     *clickhouse.Sink
	nats     jetstream.Config // as it was connected to
	natsURL  string
	httpAddr string
	listener net.Listener
	guard    guard
	gateway  *gateway // nil without that role
	analyzer *analyzeRole
	// notifiers are told of alerts beside the configured ones; the demo's terminal is one.
	notifiers []alerts.Notifier
	hangups   <-chan os.Signal // each has the rule files read again; nil: none come
	closers   []func()
}

// openCollector starts or reaches NATS and ClickHouse and prepares streams and tables. progress gets a line when
// something takes long.
func openCollector(ctx context.Context, cfg config.Config, logger *slog.Logger, progress func(string)) (_ *collector, err error) {
	c := &collector{cfg: cfg, logger: logger, reg: prometheus.NewRegistry()}
	c.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.guard, err = newGuard(cfg.HTTP); err != nil {
		return nil, err
	}
	if err := c.openNATS(ctx); err != nil {
		return nil, err
	}
	if c.has(config.RoleProxy) {
		if err := c.openGateway(ctx); err != nil {
			return nil, err
		}
	}
	if c.stores() {
		if err := c.openClickHouse(ctx, progress); err != nil {
			return nil, err
		}
	}
	if c.analyzer, err = c.newAnalyzeRole(); err != nil {
		return nil, err
	}
	if c.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", cfg.Listen, err)
	}
	c.onClose(func() { _ = c.listener.Close() }) // closed already if it has served
	c.httpAddr = c.listener.Addr().String()
	return c, c.announce()
}

// announce tells other commands on this machine where this process is.
func (c *collector) announce() error {
	r := running{PID: os.Getpid(), Since: time.Now().UTC(), Version: buildVersion().Version, Roles: c.cfg.Roles, HTTPAddr: c.httpAddr}
	if c.cfg.NATS.URL == "" {
		r.NATSURL = c.natsURL
	}
	remove, err := announce(c.cfg.DataDir, r)
	if err != nil {
		return err
	}
	c.onClose(remove)
	return nil
}

func (c *collector) has(role string) bool { return slices.Contains(c.cfg.Roles, role) }

// stores says that this process reads the stream or writes rows; a gateway alone does neither.
func (c *collector) stores() bool { return c.has(config.RoleAnalyze) || c.has(config.RoleAlert) }

func (c *collector) onClose(f func()) { c.closers = append(c.closers, f) }

func (c *collector) close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
	c.closers = nil
}

func (c *collector) openNATS(ctx context.Context) error {
	cfg := c.cfg.NATS
	if cfg.URL == "" {
		srvCfg := c.cfg.NATSServer
		srvCfg.Logger = c.logger
		srv, err := natsserver.Start(ctx, srvCfg)
		if err != nil {
			return fmt.Errorf("start embedded NATS: %w", err)
		}
		c.onClose(srv.Shutdown)
		cfg.URL, cfg.Token, cfg.TokenFile = srv.URL(), srvCfg.Token, srvCfg.TokenFile
	}
	c.nats, c.natsURL = cfg, cfg.URL
	if c.cfg.NATS.URL != "" && !c.stores() {
		return nil // the gateway connects by itself, and agents do not wait for NATS
	}
	conn, err := jetstream.Connect(ctx, cfg, c.logger, c.reg)
	if err != nil {
		return err
	}
	c.conn = conn
	c.onClose(conn.Close)
	if err := conn.Ensure(ctx); err != nil {
		return fmt.Errorf("prepare streams: %w", err)
	}
	return nil
}

func (c *collector) openClickHouse(ctx context.Context, progress func(string)) error {
	cfg := c.cfg.ClickHouse
	if cfg.DSN == "" {
		chCfg := c.cfg.Chdb
		chCfg.Logger, chCfg.Progress, chCfg.Registerer = c.logger, progress, c.reg
		srv, err := chdb.Start(ctx, chCfg)
		if err != nil {
			return fmt.Errorf("start embedded ClickHouse: %w", err)
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
		return fmt.Errorf("open ClickHouse: %w", err)
	}
	c.sink = sink
	c.onClose(func() {
		if err := sink.Close(); err != nil {
			c.logger.Error("clickhouse did not close cleanly", "err", err)
		}
	})
	return nil
}

// run runs the roles until ctx ends, then stops them so that nothing is lost: what was read is stored, what was not
// stays in the stream.
func (c *collector) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if c.gateway != nil {
		g.Go(func() error { return c.gateway.serve(ctx) })
	}
	if c.has(config.RoleAnalyze) {
		g.Go(func() error { return c.analyzer.run(ctx) })
	}
	if c.has(config.RoleAlert) {
		g.Go(func() error { return c.alert(ctx) })
	}
	srv := &http.Server{Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second}
	g.Go(func() error {
		if err := srv.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		return srv.Shutdown(stop)
	})
	return g.Wait()
}

func (c *collector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := c.readiness(r.Context()); err != nil {
			text := "not ready"
			if c.guard.knows(r) {
				text = err.Error()
			}
			http.Error(w, text, http.StatusServiceUnavailable)
			return
		}
		text := "ready"
		if c.has(config.RoleAnalyze) && c.guard.knows(r) {
			doing, _ := c.analyzer.status() // no error, or it is not ready
			text += ": " + doing
		}
		fmt.Fprintln(w, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{c.reg, &c.analyzer.metrics}, promhttp.HandlerOpts{}))
	return c.guard.wrap(mux)
}
