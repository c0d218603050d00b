package collector

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/llmtap/llmtap/ingest/proxy"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// proxyDrain is the grace period for calls in flight on shutdown.
const proxyDrain = 10 * time.Second

// A proxyRole is the proxy and its listener.
type proxyRole struct {
	proxy    *proxy.Proxy
	listener net.Listener
	capture  string
	logger   *slog.Logger
}

// newProxyRole opens the proxy and its listener. It does not wait for NATS.
func (c *Collector) newProxyRole(ctx context.Context) (*proxyRole, error) {
	cfg := c.cfg.Proxy
	opts, err := c.nats.ClientOptions()
	if err != nil {
		return nil, fmt.Errorf("log in to NATS: %w", err)
	}
	cfg.NATSURL, cfg.NATSOptions, cfg.Logger = c.nats.URL, opts, c.logger
	if c.key.text != "" {
		cfg.Key = []byte(c.key.text)
	}
	p, err := proxy.Open(cfg, c.reg) //nolint:contextcheck // open until Close, even after ctx ends
	if err != nil {
		return nil, fmt.Errorf("open the proxy: %w", err)
	}
	c.onClose(func() { //nolint:contextcheck // as above
		if err := p.Close(); err != nil {
			c.logger.Error("not all proxied calls were published", "err", err)
		}
	})
	l, err := c.listen(ctx, cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --proxy-listen, or omit proxy from --roles", cfg.Listen, err)
	}
	c.onClose(func() { _ = l.Close() }) // error ignored: the server may have closed it already
	return &proxyRole{proxy: p, listener: l, capture: cfg.Capture, logger: c.logger}, nil
}

// run serves until ctx ends and calls in flight have completed.
func (p *proxyRole) run(ctx context.Context) error {
	srv := newServer(p.proxy, 0, p.logger) // a request may be as long as its stream
	return serve(ctx, srv, p.listener, proxyDrain)
}

// waiting describes the proxy while NATS is not usable.
func (p *proxyRole) waiting() string {
	s := p.proxy.Stats()
	return fmt.Sprintf("forwards calls; %d recorded events wait in memory, %d calls were dropped", s.Pending, s.Dropped)
}

// recorded returns a description of the recorded data.
func (p *proxyRole) recorded() string {
	switch p.capture {
	case event.CaptureFull:
		return "whole bodies"
	case event.CaptureNone:
		return "status and errors, no bodies"
	}
	return "bodies without texts (whole: --proxy-capture full)"
}
