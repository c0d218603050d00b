package proxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/ingest/event"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/secret"
)

// A Proxy passes requests on to upstreams and publishes what it saw. It is an http.Handler, safe for concurrent use.
type Proxy struct {
	cfg       Config
	token     []byte // SHA-256 of the token; nil: none is needed
	upstreams map[string]*upstream
	hook      *llmtap.Hook
	base      *http.Transport
	reverse   *httputil.ReverseProxy
	m         *metrics
}

// Open makes a Proxy. NATS being down is no error. A nil reg registers nothing. Close it after its server has ended.
func Open(cfg Config, reg prometheus.Registerer) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, base: newTransport()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		p.token = sum[:]
	}
	if p.upstreams, err = newUpstreams(cfg.Upstreams); err != nil {
		return nil, err
	}
	hosts := make([]string, 0, len(p.upstreams))
	for _, up := range p.upstreams {
		hosts = append(hosts, up.host)
		if up.plaintext() {
			cfg.Logger.Warn("calls to an upstream, and the keys in them, go over the network unencrypted", "upstream", up.name, "host", up.host)
		}
	}
	p.hook, err = llmtap.Open(llmtap.Config{
		URL: cfg.NATSURL, NATSOptions: cfg.NATSOptions, Service: "llmtap-proxy", Origin: event.OriginProxy, Hosts: hosts,
		Capture: cfg.Capture, KeepUser: cfg.KeepUser, MemoryLimit: cfg.MemoryLimit, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open hook: %w", err)
	}
	p.m = newMetrics(reg, p.hook.Stats)
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.hook.Transport(p.base), ModifyResponse: answered, ErrorHandler: p.unreachable,
		FlushInterval: -1, BufferPool: &buffers, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return p, nil
}

// newTransport is http.DefaultTransport but for two things: bodies come as the upstream encodes them, and connections
// are kept for as many calls as there are at once.
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

// Stats counts what was recorded and published.
func (p *Proxy) Stats() llmtap.Stats { return p.hook.Stats() }

// Flush waits until NATS has stored all that ended before, or ctx ends.
func (p *Proxy) Flush(ctx context.Context) error { return p.hook.Flush(ctx) }

// Close publishes what is left, as llmtap.Hook.Close does, and closes idle connections.
func (p *Proxy) Close() error {
	p.base.CloseIdleConnections()
	if err := p.hook.Close(); err != nil {
		return fmt.Errorf("close hook: %w", err)
	}
	return nil
}

// A call is one request on its way through the proxy; only the goroutine of its handler has it.
type call struct {
	upstream *upstream
	rest     string // of the path, as on the wire
	code     string // of the metric
}

type callKey struct{}

// callOf returns the call of a request that ServeHTTP passed on.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up, rest, no := p.admit(r)
	if no != nil {
		p.m.requests.WithLabelValues(noUpstream, codeRefused).Inc()
		no.write(w)
		return
	}
	c := &call{upstream: up, rest: rest, code: codeCancelled}
	start := time.Now()
	p.m.inFlight.Inc()
	defer func() { // the reverse proxy panics to cut a connection short
		p.m.inFlight.Dec()
		p.m.requests.WithLabelValues(up.name, c.code).Inc()
		p.m.seconds.WithLabelValues(up.name).Observe(time.Since(start).Seconds())
	}()
	ctx := llmtap.WithCaller(context.WithValue(r.Context(), callKey{}, c), p.caller(r))
	r = r.WithContext(ctx)
	if _, ok := r.Header["Upgrade"]; ok {
		// JDK clients offer h2c with every request; whoever does not take the offer ignores it.
		r.Header = r.Header.Clone()
		r.Header.Del("Upgrade")
	}
	// Else the server would close the request's body when the answer begins, under the transport that still reads it, which
	// would then close the upstream's connection in the middle of the answer. A writer that cannot do it does not do that.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header()["Content-Type"] = nil // an answer without one gets none
	p.reverse.ServeHTTP(w, r)
}

// rewrite makes the upstream's request of the client's. Its query is the client's to the byte: nothing here reads it.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	c := callOf(pr.In.Context())
	c.upstream.target(pr.Out.URL, c.rest)
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Host = ""
	strip(pr.Out.Header)
	keepReadable(pr.Out.Header)
}

// answered notes the class of the upstream's answer.
func answered(resp *http.Response) error {
	callOf(resp.Request.Context()).code = strconv.Itoa(resp.StatusCode/100) + "xx"
	return nil
}

// unreachable answers in place of an upstream that did not.
func (p *Proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	if r.Context().Err() == nil {
		c.code = codeUnreachable
	}
	refuse(http.StatusBadGateway, "reach %s at %s: %v", c.upstream.name, c.upstream.host, err).write(w)
}

// buffers are for copying answers; a pool, because a collector of short-lived ones would cost more than the copy.
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
