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
	var err error
	if r.Proxy, err = Open(cfg, nil); err != nil {
		t.Fatal(err)
	}
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
	srv, err := natsserver.Start(t.Context(), natsCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	cfg.NATSURL = srv.URL()
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	_, err = r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	stream, err := r.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	var all []message
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := event.Decode(m.Subject, event.Header(m.Header), m.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, message{ev, m.Subject})
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
	resp, err := r.client.Do(r.request(t, method, path, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func (r *rig) request(t testing.TB, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
