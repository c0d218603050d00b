package llmtap

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// call posts body through h and reads the response, as an agent does.
func call(t *testing.T, h *Hook, target string, body io.Reader, header http.Header) []byte {
	t.Helper()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, target, body))(t)
	maps.Copy(req.Header, header)
	resp := must.Get(h.Transport(base).RoundTrip(req))(t)
	defer resp.Body.Close()
	return must.Get(io.ReadAll(resp.Body))(t)
}

// startEcho runs a server that responds with the body of the request, compressed if X-Gzip is set.
func startEcho(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Gzip") != "" {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(body)
			z.Close()
			body = b.Bytes()
			w.Header().Set("Content-Encoding", "gzip")
		}
		if r.Header.Get("X-Status") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Write(body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestBodiesInParts(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	h := openHook(t, n.url, target, nil)
	body := bytes.Repeat([]byte("0123456789abcdef"), (1200<<10)/16) // 1,200 KiB: three parts
	// A MultiReader: the body can be read only once.
	if got := call(t, h, target, io.MultiReader(bytes.NewReader(body)), nil); !bytes.Equal(got, body) {
		t.Fatal("the agent read a different body")
	}
	flush(t, h)
	evs := n.events(t)
	if len(evs) != 6 {
		t.Fatalf("got %d messages, want 6", len(evs))
	}
	for half := range 2 {
		var joined []byte
		for i, ev := range evs[3*half : 3*half+3] {
			if ev.Part != i+1 || ev.Parts != 3 || ev.BodyBytes != len(body) || ev.Seq != uint64(half+1) || len(ev.Body) > event.PartBytes {
				t.Errorf("half %d: part %d/%d of %d bytes, seq %d", half, ev.Part, ev.Parts, ev.BodyBytes, ev.Seq)
			}
			joined = append(joined, ev.Body...)
		}
		must.Equal(t, string(joined), string(body), "half %d: the joined parts and the body", half)
	}
	if s := h.Stats(); s.Published != 1 || s.Bytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestRedact(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	h := openHook(t, n.url, target, func(c *Config) {
		c.Redact = func(b []byte) []byte {
			if bytes.Contains(b, []byte("panic")) {
				panic("a bug in the agent's redactor")
			}
			return bytes.ReplaceAll(b, []byte("secret"), []byte("******"))
		}
	})
	for _, body := range []string{`{"a":"secret"}`, `{"a":"panic secret"}`} {
		got := call(t, h, target, strings.NewReader(body), nil)
		must.Equal(t, string(got), body, "the agent read %s", got)
	}
	zipped := http.Header{"Accept-Encoding": {"gzip"}, "X-Gzip": {"1"}}
	call(t, h, target, strings.NewReader(`{"z":"secret"}`), zipped)
	flush(t, h)
	xs := exchanges(t, n.events(t))
	for half := range 2 {
		if got := xs[0][half]; string(got.Body) != `{"a":"******"}` || got.Capture != event.CaptureFull {
			t.Errorf("published %s, capture %s", got.Body, got.Capture)
		}
		if got := xs[1][half]; len(got.Body) != 0 || got.Capture != event.CaptureNone {
			t.Errorf("published %s, capture %s", got.Body, got.Capture)
		}
		if got := xs[2][half]; string(got.Body) != `{"z":"******"}` || got.ContentEncoding != "" {
			t.Errorf("published %s, encoding %s", got.Body, got.ContentEncoding)
		}
	}
}

func TestCaptureNone(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	h := openHook(t, n.url, target, func(c *Config) { c.Capture = event.CaptureNone })
	body := strings.Repeat("x", 10_000)
	call(t, h, target, strings.NewReader(body), nil)
	call(t, h, target, strings.NewReader(body), http.Header{"X-Status": {"400"}})
	flush(t, h)
	xs := exchanges(t, n.events(t))
	f := func(i, status, wantBytes int) {
		t.Helper()
		req, res := xs[i][0], xs[i][1]
		if len(req.Body) != 0 || req.Capture != event.CaptureNone || res.Status != status || len(res.Body) != wantBytes {
			t.Errorf("status %d: %d bytes of the request, %d of the response (%s)", res.Status, len(req.Body), len(res.Body), res.Error)
		}
	}
	f(0, 200, 0)
	f(1, 400, maxError) // the text of an error is kept in every mode
}

func TestCompressedBodyPublishedUnchanged(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	h := openHook(t, n.url, target, nil)
	got := call(t, h, target, strings.NewReader(`{"a":1}`), http.Header{"Accept-Encoding": {"gzip"}, "X-Gzip": {"1"}})
	flush(t, h)
	x := exchanges(t, n.events(t))[0]
	if x[1].ContentEncoding != "gzip" || !bytes.Equal(x[1].Body, got) {
		t.Errorf("encoding %q, %d bytes published, %d read", x[1].ContentEncoding, len(x[1].Body), len(got))
	}
}

// net/http requests gzip and decodes it: the hook publishes the body that the agent reads.
func TestTransparentGzip(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	h := openHook(t, n.url, target, nil)
	const body = `{"a":1}`
	got := call(t, h, target, strings.NewReader(body), http.Header{"X-Gzip": {"1"}})
	flush(t, h)
	x := exchanges(t, n.events(t))[0]
	if string(got) != body || x[1].ContentEncoding != "" || string(x[1].Body) != body || x[1].Error != "" {
		t.Errorf("read %q, published %q, encoding %q, error %q", got, x[1].Body, x[1].ContentEncoding, x[1].Error)
	}
}

func TestLargeBodies(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	// f sends size bytes of known or unknown length and expects the body or a stub of it to be published.
	f := func(size int, once bool, wantParts int, wantCapture string) {
		t.Helper()
		seen := len(n.events(t))
		h := openHook(t, n.url, target, nil)
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i % 251)
		}
		var r io.Reader = bytes.NewReader(body)
		if once {
			r = io.MultiReader(r)
		}
		must.Equal(t, string(call(t, h, target, r, nil)), string(body), "%d bytes: the body that the agent read", size)
		flush(t, h)
		want := body
		if wantCapture == event.CaptureCut {
			want = append(bytes.Clone(body[:stubHalf]), body[size-stubHalf:]...)
		}
		halves := make(map[event.Kind][]byte)
		for _, ev := range n.events(t)[seen:] {
			halves[ev.Kind] = append(halves[ev.Kind], ev.Body...)
			if ev.Parts != wantParts || ev.BodyBytes != len(want) || ev.Capture != wantCapture || ev.Degraded {
				t.Errorf("%d bytes: part %d/%d of %d, capture %s", size, ev.Part, ev.Parts, ev.BodyBytes, ev.Capture)
			}
		}
		if !bytes.Equal(halves[event.Request], want) || !bytes.Equal(halves[event.Response], want) {
			t.Errorf("%d bytes: published %d and %d", size, len(halves[event.Request]), len(halves[event.Response]))
		}
		if s := h.Stats(); s.Bytes != 0 || s.Dropped != 0 {
			t.Errorf("%d bytes: stats %+v", size, s)
		}
	}
	for _, once := range [...]bool{false, true} {
		f(2<<20, once, 4, event.CaptureFull)
		f(maxBody+1, once, 1, event.CaptureCut)
	}
}

// With a small maximum payload the hook publishes more parts; with one that is too small it drops and counts the exchange.
func TestSmallMaxPayload(t *testing.T) {
	target := startEcho(t)
	f := func(maxPayload int, wantParts int, wantDropped uint64) {
		t.Helper()
		n := startNATS(t, t.TempDir(), -1, maxPayload)
		h := openHook(t, n.url, target, func(c *Config) { c.Environment = strings.Repeat("e", 600) })
		call(t, h, target, bytes.NewReader(make([]byte, 300<<10)), nil)
		call(t, h, target, strings.NewReader("{}"), nil)
		flush(t, h)
		evs := n.events(t)
		if s := h.Stats(); s.Dropped != wantDropped || s.Published != 2-wantDropped || s.Bytes != 0 {
			t.Errorf("%d bytes a message: stats %+v", maxPayload, s)
		}
		if want := 2*wantParts + 2; wantParts > 0 && (len(evs) != want || evs[0].Parts != wantParts) || wantParts == 0 && len(evs) > 0 {
			t.Errorf("%d bytes a message: %d messages, want %d", maxPayload, len(evs), want)
		}
	}
	f(128<<10, 5, 0)
	f(32<<10, 19, 0)
	f(600, 0, 2)
}

// Error texts are masked in every mode, after Config.Redact, compressed or not. Other responses, and what the agent reads,
// are not.
func TestErrorsAreMasked(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	const body = `{"error":{"message":"bad key sk-abc123DEF456 of jane@example.com; call_1 has no reply"}}`
	const want = `{"error":{"message":"bad key sk-*** of ***@***; call_1 has no reply"}}`
	for _, mode := range []string{event.CaptureFull, event.CaptureShape, event.CaptureNone} {
		for _, header := range []http.Header{{"X-Status": {"400"}}, {"X-Status": {"400"}, "X-Gzip": {"1"}, "Accept-Encoding": {"gzip"}}} {
			_, res := shapesOf(t, n, target, chatPath, body, header, func(c *Config) { c.Capture = mode })
			if string(res.Body) != want || res.Capture != mode || res.ContentEncoding != "" {
				t.Errorf("%s: published %s (%s, %q)", mode, res.Body, res.Capture, res.ContentEncoding)
			}
		}
	}
	_, res := shapesOf(t, n, target, chatPath, body, nil, func(c *Config) { c.Capture = event.CaptureFull })
	must.Equal(t, string(res.Body), body, "a response without error")
	// A key that the limit splits.
	long := strings.Repeat("a ", maxError/2-5) + "sk-abc123DEF456 " + strings.Repeat("b ", 100)
	if _, res := shapesOf(t, n, target, chatPath, long, http.Header{"X-Status": {"400"}}, nil); strings.Contains(string(res.Body), "abc") || len(res.Body) < maxError-20 {
		t.Errorf("published %d bytes to %s", len(res.Body), res.Body[len(res.Body)-20:])
	}
	// A body that cannot be decoded.
	var zstd event.Event
	zstd.Kind, zstd.Status, zstd.Capture, zstd.ContentEncoding, zstd.Body = event.Response, 400, event.CaptureFull, "zstd", []byte("(zstd)")
	s := sender{queue: newQueue(1 << 20), log: slog.New(slog.DiscardHandler)}
	s.prepare(&item{ev: &zstd})
	if len(zstd.Body) != 0 || zstd.Capture != event.CaptureNone {
		t.Errorf("published %s", zstd.Body)
	}
}

// Signers of SDKs share one reader between Body and GetBody. What is sent and recorded is whole, also on a second connection.
func TestSharedReader(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	const body = `{"model":"m","messages":[]}`
	var tries atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if tries.Add(1) == 2 { // the connection is in use for the second time
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
			return
		}
		w.Write(got)
	}))
	defer srv.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	for range 2 {
		h := openHook(t, n.url, srv.URL, nil)
		shared := strings.NewReader(body)
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, io.NopCloser(shared)))(t)
		req.ContentLength = int64(len(body))
		req.Header.Set("Idempotency-Key", "1") // lets the transport try again
		req.GetBody = func() (io.ReadCloser, error) {
			shared.Seek(0, io.SeekStart)
			return io.NopCloser(shared), nil
		}
		resp := must.Get(h.Transport(base).RoundTrip(req))(t)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("the server got %q, %v", got, err)
		}
		sent, _ := only(t, n, h)
		if string(sent.Body) != body || sent.Degraded {
			t.Errorf("recorded %q, degraded %v", sent.Body, sent.Degraded)
		}
	}
	must.Equal(t, tries.Load(), 3, "tries")
}
