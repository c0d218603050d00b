package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// refusedTimeout is the maximum time to read the rest of a refused request.
const refusedTimeout = 5 * time.Second

// unreadTimeout is the maximum time to read an error response whose client has left.
const unreadTimeout = 5 * time.Second

// A Proxy forwards requests to upstreams and publishes the exchanges. It is an http.Handler, safe for concurrent use.
type Proxy struct {
	cfg       Config
	tokens    secret.Tokens // of agents
	upstreams map[string]*upstream
	hook      *llmtap.Hook
	base      *http.Transport
	reverse   *httputil.ReverseProxy
	m         *metrics
}

// Open returns a Proxy. It does not fail if NATS is down. Metrics are registered only if reg is not nil. Close the
// Proxy after its HTTP server.
func Open(cfg Config, reg prometheus.Registerer) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	tokens, err := secret.ReadTokens(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, tokens: tokens, base: newTransport()}
	if p.upstreams, err = newUpstreams(cfg.Upstreams); err != nil {
		return nil, err
	}
	hosts := make([]string, 0, len(p.upstreams))
	for _, up := range p.upstreams {
		hosts = append(hosts, up.host)
		if up.plaintext() {
			cfg.Logger.Warn("calls to an upstream, and the keys in them, are not encrypted", "upstream", up.name, "host", up.host)
		}
	}
	p.hook, err = llmtap.Open(llmtap.Config{
		URL: cfg.NATSURL, NATSOptions: cfg.NATSOptions, Service: "llmtap-proxy", Origin: event.OriginProxy, Hosts: hosts,
		Capture: cfg.Capture, KeepUser: cfg.KeepUser || cfg.Key != nil, MemoryLimit: cfg.QueueBytes, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open hook: %w", err)
	}
	p.m = newMetrics(reg, p.hook.Stats)
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.hook.Transport(p.base), ModifyResponse: recordStatus, ErrorHandler: p.unreachable,
		FlushInterval: -1, BufferPool: &buffers, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return p, nil
}

// newTransport returns a transport like http.DefaultTransport that does not decompress bodies and keeps more idle
// connections per upstream.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// Stats returns the counters of the hook.
func (p *Proxy) Stats() llmtap.Stats { return p.hook.Stats() }

// Flush waits until NATS has stored all exchanges that ended before the call, or until ctx ends.
func (p *Proxy) Flush(ctx context.Context) error { return p.hook.Flush(ctx) }

// Close publishes pending events, as llmtap.Hook.Close does, and closes idle connections.
func (p *Proxy) Close() error {
	p.base.CloseIdleConnections()
	if err := p.hook.Close(); err != nil {
		return fmt.Errorf("close hook: %w", err)
	}
	return nil
}

// A call is a request being forwarded. The goroutine of its handler owns it.
type call struct {
	upstream *upstream
	path     string      // escaped path relative to the upstream's path
	code     string      // value of the metric's label code
	refused  atomic.Bool // by the upstream
}

// upstreamContext returns the context of the call to the upstream, which ends when the client leaves. If the upstream has answered with
// an error, it ends unreadTimeout later: the text is the evidence, and clients that retry leave without reading it.
func (c *call) upstreamContext(client context.Context) context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(client), callKey{}, c))
	context.AfterFunc(client, func() { // also when the handler returns
		if c.refused.Load() {
			time.AfterFunc(unreadTimeout, cancel)
			return
		}
		cancel()
	})
	return ctx
}

type callKey struct{}

// callOf returns the call of a request that ServeHTTP forwards.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up, path, err := p.route(r)
	if err != nil {
		p.m.received.WithLabelValues(noUpstream, codeRefused).Inc()
		// The server reads the rest of the request before it closes or reuses the connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout)) // only a test's recorder has none
		err.write(w)
		return
	}
	c := &call{upstream: up, path: path, code: codeCancelled}
	start := time.Now()
	p.m.inFlight.Inc()
	defer func() { // deferred, because the reverse proxy panics to abort a connection
		p.m.received.WithLabelValues(up.name, c.code).Inc()
		p.m.duration.WithLabelValues(up.name).Observe(time.Since(start).Seconds())
		p.m.inFlight.Dec()
	}()
	ctx := llmtap.WithCaller(c.upstreamContext(r.Context()), p.caller(r))
	r = r.WithContext(ctx)
	limitBody(w, r, bodyTimeout)
	if _, ok := r.Header["Upgrade"]; ok {
		// JDK clients offer an upgrade to h2c with every request; a server may ignore the offer.
		r.Header = r.Header.Clone()
		r.Header.Del("Upgrade")
	}
	// Without full duplex, the server closes the request body when the response begins. The transport is still
	// reading the body and then closes the upstream's connection in the middle of the response. Writers that do not
	// support full duplex do not close the body.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header()["Content-Type"] = nil // do not detect a content type for responses without one
	p.reverse.ServeHTTP(w, r)
}

// rewrite converts the client's request to the request for the upstream. It copies the query unchanged.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	c := callOf(pr.In.Context())
	c.upstream.setTarget(pr.Out.URL, c.path)
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Host = ""
	removeProxyHeaders(pr.Out.Header)
	limitEncodings(pr.Out.Header)
}

// recordStatus records the class of the response status.
func recordStatus(resp *http.Response) error {
	c := callOf(resp.Request.Context())
	c.code = strconv.Itoa(resp.StatusCode/100) + "xx"
	c.refused.Store(resp.StatusCode >= 400)
	return nil
}

// unreachable responds to the client if the upstream does not respond.
func (p *Proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	if r.Context().Err() == nil {
		c.code = codeUnreachable
	}
	refuse(http.StatusBadGateway, "upstream %s (%s): %v", c.upstream.name, c.upstream.host, err).write(w)
}

// buffers are the buffers for copying responses. Allocating one per response would cost more than the copy.
var buffers bufferPool

const bufferBytes = 32 << 10

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(p []byte) {
	if len(p) == bufferBytes {
		b.pool.Put((*[bufferBytes]byte)(p))
	}
}
