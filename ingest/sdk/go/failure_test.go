package llmtap

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// post sends body through h. The caller closes the response.
func post(t testing.TB, h *Hook, ctx context.Context, target, body string) (*http.Response, error) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return h.Transport(base).RoundTrip(req)
}

// only returns the one exchange that h published.
func only(t testing.TB, n *natsd, h *Hook) (req, res *event.Event) {
	t.Helper()
	flushAll(t, h)
	for _, ev := range n.events(t) {
		switch {
		case ev.Instance != h.instance:
		case ev.Kind == event.Request:
			req = ev
		case ev.Kind == event.Response:
			res = ev
		default:
		}
	}
	if req == nil || res == nil {
		t.Fatalf("request %v, response %v", req, res)
	}
	return req, res
}

func TestFailedCalls(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/reset":
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.(*net.TCPConn).SetLinger(0) // send a reset
				c.Close()
			}
		case "/short":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "twenty bytes of 100.")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/hang":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	defer srv.Close()
	defer close(release)
	refused := "http://" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: testnet.FreePort(t)}).String()
	open := func() *Hook {
		u, _ := url.Parse(refused)
		return openHook(t, n.url, srv.URL, func(c *Config) { c.Hosts = append(c.Hosts, u.Host) })
	}

	// f calls target and reads the response to the end, for wait at most.
	f := func(target string, wait time.Duration, status int, wantBody, wantError string) {
		t.Helper()
		h := open()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if wait > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, wait, errors.New("took too long"))
			defer stop()
		}
		resp, err := post(t, h, ctx, target+"?key=sk-query", `{"n":1}`)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		must.Fail(t, err, "", target)
		req, res := only(t, n, h)
		if res.Status != status || string(res.Body) != wantBody || !strings.Contains(res.Error, wantError) {
			t.Errorf("%s: status %d, body %q, error %q", target, res.Status, res.Body, res.Error)
		}
		if string(req.Body) != `{"n":1}` || req.Degraded || strings.Contains(req.URL+res.Error, "sk-") {
			t.Errorf("%s: request %+v, error %q", target, req, res.Error)
		}
		if s := h.Stats(); s.Bytes != 0 || s.Published != 1 {
			t.Errorf("%s: stats %+v", target, s)
		}
	}
	f(refused, 0, 0, "", "connection refused")
	f(srv.URL+"/reset", 0, 0, "", "")
	f(srv.URL+"/short", 0, 200, "twenty bytes of 100.", "unexpected EOF")
	f(srv.URL+"/hang", 20*time.Millisecond, 0, "", "context deadline exceeded: took too long")
}

// Transports below the hook that violate the contract of http.RoundTripper.
func TestBrokenTransports(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	f := func(rt roundTripFunc, wantError string) {
		t.Helper()
		h := openHook(t, n.url, "http://provider.test", nil)
		func() {
			defer func() { recover() }()
			req := must.Get(http.NewRequest(http.MethodPost, "http://provider.test/v1?key=sk-query", io.MultiReader(strings.NewReader(`{"n":1}`))))(t)
			resp, err := h.Transport(rt).RoundTrip(req)
			if resp != nil && err == nil && resp.Request != req {
				t.Errorf("%s: the response is of another request", wantError)
			}
		}()
		req, res := only(t, n, h)
		must.Equal(t, res.Error, wantError, "error")
		if read := string(req.Body) == `{"n":1}`; read == req.Degraded {
			t.Errorf("%s: body %q, degraded %v", wantError, req.Body, req.Degraded)
		}
	}
	f(func(*http.Request) (*http.Response, error) { return nil, nil }, errNoResponse)
	f(func(*http.Request) (*http.Response, error) { panic("a bug below") }, errTransport)
	f(func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errors.New("refused")}
	}, `Post "http://provider.test/v1?…": refused`)
	// The response arrives before the transport has read the body.
	f(func(r *http.Request) (*http.Response, error) {
		r.Body.Read(make([]byte, 3))
		return &http.Response{StatusCode: 413, Body: http.NoBody, Request: r}, nil
	}, "")
	f(func(r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Request: r}, nil
	}, "")
}

// An oldTransport, as before Go 1.7, does not observe the context of a request.
type oldTransport chan *http.Request

func (t oldTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	for <-t != req {
	}
	return nil, context.DeadlineExceeded
}

func (t oldTransport) CancelRequest(req *http.Request) { t <- req }

func TestOldTransports(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	h := openHook(t, n.url, "http://provider.test", nil)
	for _, path := range []string{"http://provider.test/v1", "http://other.test"} {
		client := &http.Client{Transport: h.Transport(make(oldTransport, 1)), Timeout: time.Millisecond}
		_, err := client.Post(path, "application/json", strings.NewReader(`{"n":1}`))
		must.Is(t, err, context.DeadlineExceeded)
	}
	if _, ok := h.Transport(nil).(canceler); ok {
		t.Error("net/http observes contexts")
	}
}

// The memory of a body that is neither read to its end nor closed is released.
func TestNeverClosed(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	body := strings.Repeat("x", 1000)
	h := openHook(t, n.url, "http://provider.test", nil)
	rt := h.Transport(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: 1000, Body: io.NopCloser(strings.NewReader(body))}, nil
	}))
	func() {
		req := must.Get(http.NewRequest(http.MethodPost, "http://provider.test/v1", http.NoBody))(t)
		resp := must.Get(rt.RoundTrip(req))(t)
		must.Get(io.ReadFull(resp.Body, make([]byte, 10)))(t)
		runtime.GC()
		s := h.Stats()
		must.Equal(t, s.Open, 1, "the exchange ended while its body was in use: %+v", s)
		runtime.KeepAlive(resp)
	}()
	must.Wait(t, "the exchange ends", func() bool { runtime.GC(); return h.Stats().Open == 0 })
	if _, res := only(t, n, h); res.Error != errAbandoned || string(res.Body) != body[:10] {
		t.Errorf("error %q, body %q", res.Error, res.Body)
	}
}

// A blockingBody returns its text and then blocks until it is closed.
type blockingBody struct {
	io.Reader
	closed chan struct{}
}

func (b *blockingBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *blockingBody) Close() error { close(b.closed); return nil }

func TestErrorResponsesReadInBackground(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	h := openHook(t, n.url, "http://provider.test", func(c *Config) { c.FlushTimeout = 10 * time.Second })
	var body io.ReadCloser
	base := &http.Transport{} // whose calls do not wait for a connection
	base.RegisterProtocol("http", roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 500, ContentLength: -1, Body: body}, nil
	}))
	rt := h.Transport(base)
	call := func() *http.Response {
		req := must.Get(http.NewRequest(http.MethodPost, "http://provider.test/v1", http.NoBody))(t)
		return must.Get(rt.RoundTrip(req))(t)
	}
	// Closed twice, then read.
	body = io.NopCloser(strings.NewReader(badRequest))
	resp := call()
	resp.Body.Close()
	must.Do(t, resp.Body.Close())
	if k, err := resp.Body.Read(make([]byte, 10)); k != 0 || err == nil {
		t.Errorf("read %d bytes of a closed body, error %v", k, err)
	}
	if _, res := only(t, n, h); string(res.Body) != badRequest || res.Error != "" {
		t.Errorf("body %q, error %q", res.Body, res.Error)
	}
	// Hook.Close waits for the texts, not for the ends of bodies that block. At most maxDrains are read.
	for range maxDrains + 5 {
		body = &blockingBody{strings.NewReader(badRequest), make(chan struct{})}
		call().Body.Close()
	}
	must.Do(t, h.Close())
	texts := 0
	for _, ev := range n.events(t) {
		if ev.Kind == event.Response && string(ev.Body) == badRequest {
			texts++
		}
	}
	if s := h.Stats(); texts != maxDrains+1 || s.Published != maxDrains+6 || s.Open != 0 {
		t.Errorf("%d texts, stats %+v", texts, s)
	}
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.Bytes()
}

// Whether the part of a response that the agent read is complete.
func TestCompleteResponses(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	const ollama = "application/x-ndjson"
	lines := `{"message":{"role":"assistant","content":"\"done\":true"},"done":false}` + "\n" +
		`{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"done":true}}}]},"done":false}` + "\n" +
		`{"message":{"content":""},"done_reason":"stop","done":true}` + "\n"
	// f responds with body; the agent reads all but the last rest bytes and closes it.
	f := func(contentType, encoding string, body []byte, rest int, capture, wantError, wantEncoding string) {
		t.Helper()
		h := openHook(t, n.url, "http://provider.test", func(c *Config) { c.Capture = capture })
		rt := h.Transport(roundTripFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 200, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(body)),
				Header: http.Header{"Content-Type": {contentType}, "Content-Encoding": {encoding}},
			}, nil
		}))
		req := must.Get(http.NewRequest(http.MethodPost, "http://provider.test/v1", http.NoBody))(t)
		resp := must.Get(rt.RoundTrip(req))(t)
		must.Get(io.ReadFull(resp.Body, make([]byte, len(body)-rest)))(t)
		resp.Body.Close()
		_, res := only(t, n, h)
		if res.Error != wantError || res.ContentEncoding != wantEncoding {
			t.Errorf("%s %s, %d unread: error %q, encoding %q", contentType, encoding, rest, res.Error, res.ContentEncoding)
		}
		if capture == event.CaptureNone {
			return
		}
		if known := encoding == "" || wantEncoding != ""; known && !bytes.Equal(res.Body, body[:len(body)-rest]) || !known && (len(res.Body) > 0 || res.Capture != event.CaptureNone) {
			t.Errorf("%s %s: published %q, capture %s", contentType, encoding, res.Body, res.Capture)
		}
	}
	const full, none = event.CaptureFull, event.CaptureNone
	f("application/json", "", []byte(answer), 0, full, "", "") // a JSON decoder never reads the end of the body
	f("application/json", "", []byte(answer), 1, full, errUnread, "")
	f("application/json", "", []byte(answer), 0, none, "", "")
	f("application/json", "gzip", zipped(answer), 0, full, "", "gzip")
	f("application/json", "gzip", zipped(answer), 9, full, "", "gzip") // or the checksum
	f("application/json", "gzip", zipped(answer), 60, full, errUnread, "gzip")
	f("application/json", "compress", []byte("lzw"), 0, full, "", "") // unknown
	f("application/json", "br", []byte("no brotli"), 0, full, errUnread, "")
	f("application/json", "X-GZIP", zipped(answer), 0, full, "", "gzip")
	f("text/event-stream", "", []byte(streamed), 0, full, "", "")
	f("text/event-stream", "", []byte(streamed), 1, full, "", "") // all but the last line end
	f("text/event-stream", "", []byte(streamed), 20, full, errUnread, "")
	f("text/event-stream", "", []byte(streamed), 20, none, errUnread, "")
	f("text/event-stream; charset=utf-8", "gzip", zipped(streamed), 0, full, "", "gzip")
	f(ollama, "", []byte(lines), 0, full, "", "")
	f(ollama, "", []byte(lines), 1, none, "", "")
	f(ollama, "", []byte(lines), 2, full, errUnread, "")
}
