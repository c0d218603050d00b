package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/proxy"
)

// gatewayDrain is how long calls in flight have to end when the process stops; those that go on are cut.
const gatewayDrain = 10 * time.Second

// A gateway is the proxy and its listener.
type gateway struct {
	proxy    *proxy.Proxy
	listener net.Listener
	capture  string
	logger   *slog.Logger
}

// openGateway makes the proxy and listens. It does not wait for NATS.
func (c *collector) openGateway(ctx context.Context) error {
	cfg := c.cfg.Proxy
	opts, err := c.nats.ClientOptions()
	if err != nil {
		return fmt.Errorf("log in to NATS: %w", err)
	}
	cfg.NATSURL, cfg.NATSOptions, cfg.Logger = c.nats.URL, opts, c.logger
	p, err := proxy.Open(cfg, c.reg) //nolint:contextcheck // it lasts until it is closed, after ctx has ended
	if err != nil {
		return fmt.Errorf("open the proxy: %w", err)
	}
	c.onClose(func() { //nolint:contextcheck // as above
		if err := p.Close(); err != nil {
			c.logger.Error("calls through the proxy were not all published", "err", err)
		}
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --proxy-listen, or omit proxy from --roles", cfg.Listen, err)
	}
	c.onClose(func() { _ = l.Close() }) // closed already if it has served
	c.gateway = &gateway{proxy: p, listener: l, capture: cfg.Capture, logger: c.logger}
	return nil
}

// serve answers until ctx ends and calls in flight have ended, too.
func (g *gateway) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: g.proxy, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(g.logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), gatewayDrain)
		defer cancel()
		err := srv.Shutdown(drain)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close()
		}
		ended <- err
	})
	if err := srv.Serve(g.listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve the proxy: %w", err)
	}
	return <-ended
}

// describe says in one line how to use the gateway and what it records.
func (g *gateway) describe() string {
	recorded := "records the shape of bodies, not their texts: --proxy-capture full records both"
	switch g.capture {
	case event.CaptureFull:
		recorded = "records whole bodies"
	case event.CaptureNone:
		recorded = "records that calls fail and how, not their bodies"
	}
	return fmt.Sprintf("base_url http://%s/openai/v1 (or another provider); %s", g.listener.Addr(), recorded)
}
