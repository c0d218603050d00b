package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// A rig is a client, a proxy, a provider as upstream "test", and a NATS server.
type rig struct {
	*Proxy
	url    string // of the proxy
	client *http.Client
	js     jetstream.JetStream
}

// start runs a rig. With a nil provider, the upstream is unreachable.
func start(t testing.TB, provider http.Handler, change func(*Config)) *rig {
	t.Helper()
	srv := httptest.NewServer(provider)
	if provider == nil {
		srv.Close()
	}
	t.Cleanup(srv.Close)
	cfg := Default()
	cfg.Upstreams = map[string]string{"test": srv.URL}
	cfg.Capture, cfg.Logger = event.CaptureFull, quiet
	r := &rig{client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	r.startNATS(t, &cfg)
	if change != nil {
		change(&cfg)
	}
	r.Proxy = must.Get(Open(cfg, nil))(t)
	t.Cleanup(func() { r.Close() })
	front := httptest.NewServer(r.Proxy)
	t.Cleanup(front.Close)
	t.Cleanup(r.client.CloseIdleConnections)
	r.url = front.URL
	return r
}

func (r *rig) startNATS(t testing.TB, cfg *Config) {
	natsCfg := natsserver.Default()
	natsCfg.AllowAll = true
	natsCfg.Dir, natsCfg.Port, natsCfg.Logger = t.TempDir(), -1, quiet
	srv := must.Get(natsserver.Start(t.Context(), natsCfg))(t)
	t.Cleanup(srv.Shutdown)
	cfg.NATSURL = srv.URL()
	nc := must.Get(nats.Connect(srv.URL()))(t)
	t.Cleanup(nc.Close)
	r.js = must.Get(jetstream.New(nc))(t)
	must.Get(r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, AllowDirect: true}))(t)
}

// A message is an event and its subject.
type message struct {
	*event.Event
	subject string
}

// events waits until all events are published and returns them.
func (r *rig) events(t testing.TB) []message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for (r.Stats().Open > 0 || testutil.ToFloat64(r.m.inFlight) > 0) && ctx.Err() == nil { // a handler may not have returned
		time.Sleep(time.Millisecond)
	}
	must.Do(t, r.Flush(ctx))
	stream := must.Get(r.js.Stream(ctx, event.StreamEvents))(t)
	var all []message
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m := must.Get(stream.GetMsg(ctx, seq))(t)
		for _, ev := range must.Get(event.DecodeAll(m.Subject, event.Header(m.Header), m.Data))(t) {
			all = append(all, message{ev, strings.Replace(m.Subject, "."+event.FrameKind+".", "."+ev.Kind.String()+".", 1)})
		}
	}
	return all
}

// exchange returns request and response of the only exchange, with joined bodies.
func (r *rig) exchange(t testing.TB) (req, res message) {
	t.Helper()
	for _, m := range r.events(t) {
		half := &req
		if m.Kind == event.Response {
			half = &res
		}
		if half.Event != nil {
			if half.Exchange != m.Exchange {
				t.Fatal("more than one exchange was published")
			}
			m.Body = append(bytes.Clone(half.Body), m.Body...)
		}
		*half = m
	}
	if req.Event == nil || res.Event == nil || req.Exchange != res.Exchange {
		t.Fatalf("request %v, response %v: not one exchange", req.Event, res.Event)
	}
	return req, res
}

// do sends a request to the proxy and reads the whole response.
func (r *rig) do(t testing.TB, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp := must.Get(r.client.Do(r.request(t, method, path, body, header...)))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

func (r *rig) request(t testing.TB, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body)))(t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	return req
}

// A recorder is a provider that records requests and responds as configured.
type recorder struct {
	status int
	header http.Header
	answer []byte

	mu     sync.Mutex // guards all below
	seen   []*http.Request
	bodies [][]byte
}

// ServeHTTP implements http.Handler.
func (p *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.seen, p.bodies = append(p.seen, r), append(p.bodies, b)
	p.mu.Unlock()
	maps.Copy(w.Header(), p.header)
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	w.Write(p.answer)
}

// last returns the newest request.
func (p *recorder) last(t testing.TB) (*http.Request, []byte) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) == 0 {
		t.Fatal("the provider got no request")
	}
	return p.seen[len(p.seen)-1], p.bodies[len(p.bodies)-1]
}

func host(t testing.TB, s string) string {
	u := must.Get(url.Parse(s))(t)
	return u.Host
}
