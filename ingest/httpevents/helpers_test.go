package httpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// A rig is a receiver with a real NATS server.
type rig struct {
	t       testing.TB
	cfg     natsserver.Config
	server  *natsserver.Server
	conn    *jetstream.Conn
	budget  *httpbody.Budget
	handler *Handler
	url     string
	client  *http.Client
	read    uint64 // sequence of the last message that was read
}

func start(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, cfg: natsserver.Default(), budget: httpbody.NewBudget(128 << 20)}
	r.cfg.AllowAll = true
	r.cfg.Dir, r.cfg.Port, r.cfg.Logger = filepath.Join(t.TempDir(), "nats"), -1, slog.New(slog.DiscardHandler)
	r.startNATS()
	t.Cleanup(func() { r.server.Shutdown() })
	r.conn = r.connect(r.server.URL())
	r.serve(r.conn)
	return r
}

// connect connects to NATS and creates the streams.
func (r *rig) connect(url string) *jetstream.Conn {
	r.t.Helper()
	cfg := jetstream.Default()
	cfg.URL = url
	conn := must.Get(jetstream.Connect(r.t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(r.t)
	r.t.Cleanup(conn.Close)
	must.Do(r.t, conn.Ensure(r.t.Context()))
	return conn
}

// serve serves a handler that publishes to conn.
func (r *rig) serve(conn *jetstream.Conn) {
	r.handler = New(Options{Publish: conn.PublishBatch, Budget: r.budget}, nil)
	srv := httptest.NewServer(r.handler)
	r.t.Cleanup(srv.Close)
	r.url, r.client = srv.URL+Path, srv.Client()
}

func (r *rig) startNATS() {
	r.t.Helper()
	s := must.Get(natsserver.Start(context.WithoutCancel(r.t.Context()), r.cfg))(r.t)
	r.server = s
}

// A response is a decoded response.
type response struct {
	Answer

	status int
	retry  string
}

// post sends a payload with headers, which are pairs of names and values.
func (r *rig) post(contentType string, payload []byte, header ...string) response {
	r.t.Helper()
	req := must.Get(http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, bytes.NewReader(payload)))(r.t)
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.do(req)
}

func (r *rig) do(req *http.Request) (a response) {
	r.t.Helper()
	resp := must.Get(r.client.Do(req))(r.t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(r.t)
	must.Do(r.t, json.Unmarshal(body, &a.Answer), "HTTP", resp.StatusCode, string(body))
	a.status, a.retry = resp.StatusCode, resp.Header.Get("Retry-After")
	return a
}

// stored returns the events stored since the last call, with joined parts.
func (r *rig) stored() (events []*event.Event) {
	r.t.Helper()
	nc := must.Get(nats.Connect(r.server.URL()))(r.t)
	defer nc.Close()
	js := must.Get(natsjs.New(nc))(r.t)
	s := must.Get(js.Stream(r.t.Context(), event.StreamEvents))(r.t)
	bodies := map[string][][]byte{} // parts by subject and exchange
	for last := s.CachedInfo().State.LastSeq; r.read < last; {
		r.read++
		m := must.Get(s.GetMsg(r.t.Context(), r.read))(r.t)
		all, err := event.DecodeAll(m.Subject, event.Header(m.Header), m.Data)
		must.Do(r.t, err, m.Subject, m.Header)
		for _, e := range all {
			if want := strings.Replace(m.Subject, "."+event.FrameKind+".", "."+e.Kind.String()+".", 1); e.Subject() != want && e.Labels.Conversation+e.Instance != "" {
				r.t.Errorf("subject %s, want %s", m.Subject, e.Subject())
			}
			// Payloads that are published at the same time interleave, and after a reconnection a part may arrive before an
			// earlier one.
			id := e.Subject() + " " + e.Exchange
			if bodies[id] == nil {
				bodies[id] = make([][]byte, e.Parts)
				events = append(events, e)
			}
			if bodies[id][e.Part-1] != nil {
				r.t.Errorf("part %d of %d of %s is stored twice", e.Part, e.Parts, id)
			}
			bodies[id][e.Part-1] = append([]byte{}, e.Body...)
		}
	}
	for _, e := range events {
		e.Body = bytes.Join(bodies[e.Subject()+" "+e.Exchange], nil)
	}
	return events
}

// idle fails the test unless all memory has been returned.
func (r *rig) idle() {
	r.t.Helper()
	must.Wait(r.t, "no bytes are in use", func() bool { return r.budget.Used() == 0 }, func() any { return r.budget.Used() })
}

// full returns an event of each kind with every member set.
func full() []*event.Event {
	base := func(k event.Kind) *event.Event {
		return &event.Event{
			Kind: k, Exchange: "019aa4f2-5c1e-7b3a-9f00-0123456789ab", Time: time.Date(2026, 11, 21, 3, 4, 5, 123456789, time.UTC),
			Labels: event.Labels{
				Service: "结账-service", ServiceVersion: "1.4.2+dirty", Environment: "prod eu", Agent: "planner \"agent\"",
				Stage: "规划器", Conversation: "c/1 %41\\", Run: "run-7", User: "a1b2",
			},
			Instance: "f00d", Seq: 41, Dropped: 3, Uncaptured: 7, UncapturedBy: "grpc=4 websocket=3",
			Attrs:   map[string]string{"team": "支付", "k8s.pod_name-1": "a b", "edge": " x \n"},
			Capture: event.CaptureFull, Origin: event.OriginHTTP, Degraded: true, Part: 1, Parts: 1, SDK: "go/0.1.0",
		}
	}
	req, res, run, tool, hook := base(event.Request), base(event.Response), base(event.Run), base(event.Tool), base(event.Hook)
	req.URL, req.Method, req.APIVersion = "https://api.openai.com/v1/chat/completions", "POST", "2023-06-01"
	req.Retry, req.Code, req.Traceparent = 2, "core/代理 \"agent\".py:145 Agent.run", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	req.ContentType, req.Body = "application/json; charset=utf-8", []byte("{\"model\":\t\u2028\x00\"\\")
	res.Status, res.Error, res.ProviderRequestID = 200, "read: connection reset\r\nby peer", "req_1"
	res.Duration, res.FirstByte = 12*time.Second+345678901, 1500*time.Microsecond
	res.ContentType, res.ContentEncoding, res.Body = "text/event-stream", "gzip", []byte("\x1f\x8b\xff\xfe\x00")
	run.RunStatus = event.StatusError
	tool.ToolCallID, tool.ToolStatus = "call_00_abc", event.StatusStarted
	all := []*event.Event{req, res, run, tool, hook}
	for _, e := range all {
		e.BodyBytes = len(e.Body)
	}
	return all
}

// natsPort returns the port of the running NATS server.
func natsPort(t testing.TB, r *rig) int {
	t.Helper()
	u := must.Get(url.Parse(r.server.URL()))(t)
	return must.Get(strconv.Atoi(u.Port()))(t)
}
