package llmtap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const badRequest = `{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`

// traffic contains the bodies that the provider received and sent.
type traffic struct {
	mu        sync.Mutex // guards all below
	requests  [][]byte
	responses [][]byte
}

// startProvider runs a server that responds with status and body, event by event if body begins with "data:".
func startProvider(t testing.TB, w *traffic, status int, body string) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.requests, w.responses = append(w.requests, b), append(w.responses, []byte(body))
		w.mu.Unlock()
		rw.Header().Set("X-Request-Id", "req_1")
		if !strings.HasPrefix(body, "data:") {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			io.WriteString(rw, body)
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		for ev := range strings.SplitAfterSeq(body, "\n\n") {
			io.WriteString(rw, ev)
			rw.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func openHook(t testing.TB, natsURL, providerURL string, change func(*Config)) *Hook {
	t.Helper()
	u := must.Get(url.Parse(providerURL))(t)
	cfg := Config{
		URL: natsURL, Service: "svc", ServiceVersion: "1.2.3", Environment: "test", Capture: event.CaptureFull,
		Hosts: []string{u.Host}, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	h := must.Get(Open(cfg))(t)
	t.Cleanup(func() { h.Close() })
	return h
}

func flush(t testing.TB, h *Hook) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must.Do(t, h.Flush(ctx))
}

// flushAll flushes h once no exchange is open.
func flushAll(t testing.TB, h *Hook) {
	t.Helper()
	must.Wait(t, "no exchange is open", func() bool { return h.Stats().Open == 0 })
	flush(t, h)
}

const question = `{"model":"gpt-5","messages":[{"role":"user","content":"q"}]}`

const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-5","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`

var streamed = strings.Join([]string{
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}`,
	`data: [DONE]`, ``,
}, "\n\n")

func TestUnary(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	h := openHook(t, n.url, srv.URL, nil)
	ctx := WithAttr(WithUser(WithRun(WithStage(WithConversation(WithAgent(t.Context(), "assistant"), "conv-1"), "规划"), "run-1"), "anna"), "tenant", "t1")
	resp := must.Get(post(t, h, ctx, srv.URL+"/v1/chat/completions", question))(t)
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != answer {
		t.Fatalf("answer %s, error %v", got, err)
	}
	h.ToolStarted(ctx, "call_1")
	h.RunEnded(ctx, nil)
	flush(t, h)

	evs := n.events(t)
	if len(evs) != 4 {
		t.Fatalf("got %d events, want 4", len(evs))
	}
	req, res, tool, run := evs[0], evs[1], evs[2], evs[3]
	if c, ok := event.ParseCode(req.Code); !ok || c.File != "failure_test.go" || c.Function != "post" {
		t.Errorf("the call is at %q, want post in failure_test.go", req.Code)
	}
	if !bytes.Equal(req.Body, w.requests[0]) || string(res.Body) != answer {
		t.Errorf("published bodies differ from the traffic:\n%s\n%s", req.Body, res.Body)
	}
	wantLabels := event.Labels{
		Service: "svc", ServiceVersion: "1.2.3", Environment: "test", Agent: "assistant", Stage: "规划",
		Conversation: "conv-1", Run: "run-1", User: event.HashUser(nil, "anna"),
	}
	for i, ev := range evs {
		must.Equal(t, ev.Labels, wantLabels, "event %d: labels", i)
		if ev.Seq != uint64(i+1) || ev.Instance != h.instance || ev.Attrs["tenant"] != "t1" || ev.Origin != event.OriginHook {
			t.Errorf("event %d: %+v", i, ev)
		}
	}
	if req.URL != srv.URL+"/v1/chat/completions" || req.Method != "POST" || req.Retry != 0 || req.ContentType != "application/json" {
		t.Errorf("request %+v", req)
	}
	if res.Status != 200 || res.Error != "" || res.ProviderRequestID != "req_1" || res.Exchange != req.Exchange ||
		res.Duration < res.FirstByte || res.FirstByte <= 0 {
		t.Errorf("response %+v", res)
	}
	if tool.Exchange != req.Exchange || tool.ToolCallID != "call_1" || run.RunStatus != event.StatusOK {
		t.Errorf("tool %+v\nrun %+v", tool, run)
	}
	if s := h.Stats(); s.Published != 1 || s.Events != 4 || s.Pending != 0 || s.Open != 0 || s.Bytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestNoSecretLeaves(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, n.url, srv.URL, nil)
	call(t, h, srv.URL+"?key=sk-query", strings.NewReader(question), http.Header{"Authorization": {"Bearer sk-secret"}, "Anthropic-Version": {"2023-06-01"}})
	flush(t, h)
	stream := must.Get(n.js.Stream(t.Context(), event.StreamEvents))(t)
	m := must.Get(stream.GetMsg(t.Context(), 1))(t)
	if all := fmt.Sprint(m.Header, string(m.Data)); strings.Contains(all, "sk-") {
		t.Errorf("a key was published: %s", all)
	}
	must.Equal(t, n.events(t)[0].APIVersion, "2023-06-01", "api version")
}

func TestStreamed(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	var w traffic
	srv := startProvider(t, &w, 200, streamed)
	h := openHook(t, n.url, srv.URL, nil)
	resp := must.Get(post(t, h, t.Context(), srv.URL, question))(t)
	defer resp.Body.Close()
	must.Get(io.ReadFull(resp.Body, make([]byte, len(streamed))))(t)
	// The exchange ends at [DONE]: the client has neither read the end of the body nor closed it.
	flush(t, h)
	x := exchanges(t, n.events(t))[0]
	if !bytes.Equal(x[0].Body, w.requests[0]) || string(x[1].Body) != streamed {
		t.Errorf("published bodies differ from the traffic:\n%s\n%s", x[0].Body, x[1].Body)
	}
	if wire.FramingOf(x[1].ContentType) != wire.SSE || x[1].Error != "" {
		t.Errorf("response %+v", x[1])
	}
}

func TestRejected(t *testing.T) {
	// f makes calls as an SDK that retries does: it closes each response unread.
	f := func(status, attempts int) {
		t.Helper()
		n := startNATS(t, t.TempDir(), -1)
		var w traffic
		srv := startProvider(t, &w, status, badRequest)
		h := openHook(t, n.url, srv.URL, nil)
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		for i := range attempts {
			req := must.Get(http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(question)))(t)
			req.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(i))
			resp := must.Get(h.Transport(base).RoundTrip(req))(t)
			resp.Body.Close()
		}
		flushAll(t, h) // the hook reads the responses in the background
		xs := exchanges(t, n.events(t))
		if len(xs) != attempts {
			t.Fatalf("%d attempts at a %d: %d exchanges", attempts, status, len(xs))
		}
		for i, x := range xs {
			if x[0].Retry != i || x[1].Status != status || string(x[1].Body) != badRequest || !bytes.Equal(x[0].Body, w.requests[i]) {
				t.Errorf("exchange %d: retry %d, status %d, body %s", i, x[0].Retry, x[1].Status, x[1].Body)
			}
		}
	}
	f(400, 1)
	f(500, 3) // every attempt is an exchange of its own
}

func TestCancelled(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	started := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
		}
		started <- struct{}{}
		<-r.Context().Done()
	}))
	defer srv.Close()
	h := openHook(t, n.url, srv.URL, nil)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	post := func(ctx context.Context, path string) (*http.Response, error) {
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+path, strings.NewReader("{}")))(t)
		return h.Transport(base).RoundTrip(req)
	}

	// Before the response.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if resp, err := post(ctx, "/hang"); err == nil {
		resp.Body.Close()
		t.Fatal("no error")
	}
	// During the response, between two reads.
	ctx, cancel = context.WithCancel(t.Context())
	resp := must.Get(post(ctx, "/stream"))(t)
	defer resp.Body.Close()
	<-started
	must.Get(io.ReadFull(resp.Body, make([]byte, 4)))(t)
	cancel()
	flushAll(t, h)
	xs := exchanges(t, n.events(t))
	if got := xs[0][1]; got.Status != 0 || got.Error != "context canceled" || len(got.Body) != 0 {
		t.Errorf("cancelled before the response: status %d, error %q", got.Status, got.Error)
	}
	if got := xs[1][1]; got.Status != 200 || got.Error != "context canceled" || string(got.Body) != "data" {
		t.Errorf("cancelled during the response: status %d, error %q, body %q", got.Status, got.Error, got.Body)
	}
}

func TestIncompleteReads(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, n.url, srv.URL, nil)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	hc := &http.Client{Transport: h.Transport(base)}
	post := func() *http.Response {
		return must.Get(hc.Post(srv.URL, "application/json", strings.NewReader(`{"n":1}`)))(t)
	}

	early := post()
	must.Get(io.ReadFull(early.Body, make([]byte, 10)))(t)
	early.Body.Close()
	exact := post() // reads all bytes but no io.EOF, and does not close
	must.Get(io.ReadFull(exact.Body, make([]byte, len(answer))))(t)
	unread := post() // neither read nor closed
	s := h.Stats()
	must.Equal(t, s.Open, 1, "stats %+v", s)
	must.Do(t, h.Close())
	exact.Body.Close()
	unread.Body.Close()

	xs := exchanges(t, n.events(t))
	f := func(i int, wantBody, wantError string) {
		t.Helper()
		if got := xs[i][1]; got.Status != 200 || string(got.Body) != wantBody || got.Error != wantError {
			t.Errorf("status %d, body %q, error %q", got.Status, got.Body, got.Error)
		}
	}
	f(0, answer[:10], errUnread)
	f(1, answer, "")
	f(2, "", errExit)
}

func TestOtherCallsUnchanged(t *testing.T) {
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, agentURL(testnet.FreePort(t)), srv.URL, func(c *Config) { c.Hosts, c.FlushTimeout = nil, time.Millisecond })
	var seen *http.Request
	want := &http.Response{StatusCode: 200, Body: http.NoBody}
	rt := h.Transport(roundTripFunc(func(r *http.Request) (*http.Response, error) { seen = r; return want, nil }))
	f := func(method, target string) {
		t.Helper()
		req := must.Get(http.NewRequest(method, target, strings.NewReader("{}")))(t)
		if got := must.Get(rt.RoundTrip(req))(t); got != want || seen != req {
			t.Errorf("%s %s: request or response changed", method, target)
		}
		must.Equal(t, h.Stats(), Stats{}, "%s %s: stats", method, target)
	}
	f("POST", srv.URL)
	f("POST", "https://example.com/v1/chat/completions")
	f("GET", "https://api.openai.com/v1/models")
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
