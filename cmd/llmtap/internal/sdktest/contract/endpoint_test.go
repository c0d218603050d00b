package contract

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/httpevents"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

const endpointToken = "the token of the endpoint"

// receiver returns a receiver that publishes to n, as the role receive does.
func receiver(t *testing.T, n *natsd) http.Handler {
	t.Helper()
	cfg := jetstream.Default()
	cfg.URL = "nats://admin:admin@" + n.address()
	conn := must.Get(jetstream.Open(cfg, quiet, nil))(t)
	t.Cleanup(conn.Close)
	return httpevents.New(httpevents.Options{Publish: conn.PublishBatch, Budget: httpbody.NewBudget(128 << 20)}, nil)
}

// receive serves a receiver behind front, and returns its URL.
func receive(t *testing.T, n *natsd, front func(http.Handler) http.Handler) string {
	t.Helper()
	h := receiver(t, n)
	srv := httptest.NewUnstartedServer(front(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+endpointToken {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})))
	srv.Config.ErrorLog = quietLog
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

func direct(h http.Handler) http.Handler { return h }

// Hooks publish the same events over an endpoint as to NATS, whatever happens to NATS behind it.
func TestEndpoint(t *testing.T) {
	p := endpointProcesses(t)
	for _, c := range readCases(t)["transport"] {
		if c.Error == "timeout" {
			continue // slow, and the endpoint is not involved
		}
		t.Run(c.Name, func(t *testing.T) {
			over := &suite{processes: p, c: &c, capture: c.Capture[0], over: direct}
			call := over.newCall(t, "")
			want := (&suite{processes: p, c: &c, capture: c.Capture[0]}).run(t, new(goHook), call, c.Answers)
			for _, m := range want.messages {
				m.Header[event.HeaderOrigin] = event.OriginHTTP
			}
			over.compare(t, over.run(t, new(goHook), call, c.Answers), want)
			for _, r := range []*runner{p.python, p.node} {
				if call.Client = firstClient(r, &c); call.Client != "" {
					over.compare(t, over.run(t, r, call, c.Answers), want)
				}
			}
		})
	}
}

// firstClient returns the first client of c in the language of r, or "".
func firstClient(r *runner, c *contractCase) string {
	list := c.Clients
	if r.language == "node" {
		list = c.Node
	}
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func endpointProcesses(t *testing.T) *processes {
	t.Helper()
	slowtest.SkipShort(t, "slow, and other tests cover it for the race detector")
	t.Setenv("LLMTAP_SHAPE_KEY", shapeKey)
	p := &processes{python: startPython(t, interpreter(t)), node: startNode(t, nodePackages(t)), nats: newNATS(t)}
	p.nats.start(t)
	return p
}

// Whatever stands in front of the receiver or answers in its place, every event is stored once and in order.
func TestHostileEndpoint(t *testing.T) {
	p := endpointProcesses(t)
	cases := readCases(t)["transport"]
	c := cases[slices.IndexFunc(cases, func(c contractCase) bool { return c.Name == "unary" })]
	c.Times = 20
	hangUp := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { panic(http.ErrAbortHandler) }
	respond := func(status int, body string, header ...string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, body, status)
		}
	}
	f := func(name string, steps ...func(http.ResponseWriter, *http.Request, http.Handler)) {
		t.Run(name, func(t *testing.T) {
			for _, h := range []hook{new(goHook), p.python, p.node} {
				var made atomic.Int32
				s := &suite{processes: p, c: &c, capture: event.CaptureFull, over: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if i := int(made.Add(1)) - 1; i < len(steps) {
							steps[i](w, r, next)
							return
						}
						next.ServeHTTP(w, r)
					})
				}}
				call := s.newCall(t, "")
				if r, ok := h.(*runner); ok {
					call.Client = firstClient(r, &c)
				}
				if r := s.run(t, h, call, c.Answers); len(r.messages) != 2*c.Times || r.stats.Dropped > 0 || int(made.Load()) <= len(steps) {
					t.Errorf("%T: %d of %d events, %+v, %d requests", h, len(r.messages), 2*c.Times, r.stats, made.Load())
				}
			}
		})
	}
	f("closes connections", hangUp, hangUp, hangUp)
	f("stores, but does not answer", func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	f("refuses for a while", respond(401, "wrong token"), respond(503, "{}", "Retry-After", "0"), respond(429, `{"error":"behind"}`, "Retry-After", "1"))
	f("is another server", respond(200, "<html>"), respond(404, "<html>"), respond(400, "<html>"), respond(302, "", "Location", "/"))
	limited := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Count(body, []byte("{\"kind\":")) > 1 {
			respond(http.StatusRequestEntityTooLarge, "<html>")(w, r, nil)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}
	f("limits payloads", limited, limited)
}
