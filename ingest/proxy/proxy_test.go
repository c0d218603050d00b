package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const chat = "/test/v1/chat/completions"

const question = `{"model":"gpt-5","messages":[{"role":"user","content":"q"}]}`

func TestUnary(t *testing.T) {
	p := &recorder{
		header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"}, "X-Ratelimit-Remaining-Requests": {"99"}},
		answer: []byte(`{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`),
	}
	r := start(t, p, nil)
	resp, got := r.do(t, http.MethodPost, chat, question, "Authorization", "Bearer sk-secret")
	if resp.StatusCode != http.StatusOK || got != string(p.answer) {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	sent, body := p.last(t)
	if sent.Header.Get("Authorization") != "Bearer sk-secret" || sent.URL.Path != "/v1/chat/completions" {
		t.Errorf("the provider got %s %v", sent.URL, sent.Header)
	}
	q, s := r.exchange(t)
	if !bytes.Equal(q.Body, body) || !bytes.Equal(s.Body, p.answer) {
		t.Errorf("published %q and %q", q.Body, s.Body)
	}
	if q.URL != "http://"+sent.Host+"/v1/chat/completions" || q.Origin != event.OriginProxy || s.Origin != event.OriginProxy ||
		s.Status != 200 || s.Error != "" || s.ProviderRequestID != "req_1" || s.RateLimits != "requests=99//" {
		t.Errorf("request %+v, response %+v", q.Event, s.Event)
	}
	must.Equal(t, testutil.ToFloat64(r.m.received.WithLabelValues("test", "2xx")), 1, "requests counted")
}

// The client receives the first event before the provider writes the second.
func TestStreamed(t *testing.T) {
	const first = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}` + "\n\n"
	const second = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	arrived := make(chan struct{})
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, first)
		w.(http.Flusher).Flush()
		select {
		case <-arrived:
			io.WriteString(w, second)
		case <-r.Context().Done():
		}
	}), nil)
	resp := must.Get(r.client.Do(r.request(t, http.MethodPost, chat, question)))(t)
	defer resp.Body.Close()
	event := make([]byte, len(first))
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != first {
		t.Fatalf("%q, %v", event, err)
	}
	close(arrived)
	must.Equal(t, string(must.Get(io.ReadAll(resp.Body))(t)), second, "the rest")
	if _, res := r.exchange(t); string(res.Body) != first+second || res.Error != "" || res.FirstByte >= res.Duration {
		t.Errorf("response %+v", res.Event)
	}
}

func TestRejected(t *testing.T) {
	p := &recorder{status: 400, header: http.Header{"Content-Type": {"application/json"}}, answer: []byte(`{"error":{"message":"Messages with role 'tool' must …"}}`)}
	r := start(t, p, func(c *Config) { c.Capture = event.CaptureNone })
	if resp, got := r.do(t, http.MethodPost, chat, question); resp.StatusCode != http.StatusBadRequest || got != string(p.answer) {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	q, s := r.exchange(t)
	if len(q.Body) > 0 || !bytes.Equal(s.Body, p.answer) || s.Status != 400 || q.Capture != event.CaptureNone {
		t.Errorf("request %+v, response %+v", q.Event, s.Event)
	}
}

// By default no text is published, and the response has an encoding that can be shaped.
func TestShape(t *testing.T) {
	p := &recorder{header: http.Header{"Content-Type": {"application/json"}}, answer: []byte(`{"choices":[{"message":{"role":"assistant","content":"a secret"}}]}`)}
	r := start(t, p, func(c *Config) { c.Capture = Default().Capture })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/test/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"a secret"}]}`))
	must.Do(t, err)
	req.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	resp := must.Get(r.client.Do(req))(t)
	defer resp.Body.Close()
	must.Equal(t, string(must.Get(io.ReadAll(resp.Body))(t)), string(p.answer), "the caller read")
	sent, _ := p.last(t)
	must.Equal(t, sent.Header.Get("Accept-Encoding"), "gzip", "Accept-Encoding")
	q, s := r.exchange(t)
	for _, ev := range []message{q, s} {
		if ev.Capture != event.CaptureShape || bytes.Contains(ev.Body, []byte("secret")) || !bytes.Contains(ev.Body, []byte(`"content":"~8:`)) {
			t.Errorf("published %s (%s)", ev.Body, ev.Capture)
		}
	}
}

// Bodies, paths and content types pass unchanged.
func TestBytes(t *testing.T) {
	p := &recorder{}
	r := start(t, p, nil)
	big := make([]byte, 2<<20)
	rand.Read(big)
	f := func(path, wire, body string, answer []byte, contentType string) {
		t.Helper()
		p.answer, p.header = answer, http.Header{"Content-Type": nil}
		if contentType != "" {
			p.header.Set("Content-Type", contentType)
		}
		resp, got := r.do(t, http.MethodPost, path, body)
		sent, sentBody := p.last(t)
		if string(sentBody) != body || got != string(answer) {
			t.Errorf("%s: %d bytes became %d, the response's %d became %d", path, len(body), len(sentBody), len(answer), len(got))
		}
		must.Equal(t, sent.RequestURI, wire, "%s became", path)
		ct := resp.Header["Content-Type"]
		must.Equal(t, strings.Join(ct, ""), contentType, "content type %q became %q", contentType, ct)
	}
	f(chat, "/v1/chat/completions", `{"messages":[}`, []byte("<html>"), "")
	f(chat, "/v1/chat/completions", "", nil, "")
	f(chat, "/v1/chat/completions", string(big), big, "application/json")
	f("/test", "/", "{}", []byte("{}"), "text/plain")
	f("/test/v1beta/models/gemini-2.5%2Fpro:generateContent?key=a;b&c=%zz&alt=sse", "/v1beta/models/gemini-2.5%2Fpro:generateContent?key=a;b&c=%zz&alt=sse", "{}", []byte("{}"), "")

	evs := r.events(t)
	var published bytes.Buffer
	for _, e := range evs {
		if e.BodyBytes == len(big) && e.Kind == event.Request {
			published.Write(e.Body)
		}
	}
	must.Equal(t, published.String(), string(big), "published bytes")
	if u := evs[len(evs)-1-1].URL; strings.Contains(u, "key") {
		t.Errorf("published %s with its query", u)
	}
}

func TestGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, `{"choices":[]}`)
	z.Close()
	p := &recorder{header: http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"application/json"}}, answer: packed.Bytes()}
	r := start(t, p, nil)
	resp, got := r.do(t, http.MethodPost, chat, "{}", "Accept-Encoding", "gzip, deflate, br;q=0.9, zstd")
	if got != packed.String() || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("answer %q, header %v", got, resp.Header)
	}
	sent, _ := p.last(t)
	must.Equal(t, sent.Header.Get("Accept-Encoding"), "gzip", "the provider got Accept-Encoding")
	if _, s := r.exchange(t); !bytes.Equal(s.Body, packed.Bytes()) || s.ContentEncoding != "gzip" {
		t.Errorf("response %+v", s.Event)
	}
}

// A body over the size limit of the hook passes; only its first and last bytes are queued.
func TestLongBody(t *testing.T) {
	p := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	r := start(t, p, nil)
	const size = 40 << 20
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+chat, io.LimitReader(endless{}, size)) // chunked
	resp := must.Get(r.client.Do(req))(t)
	defer resp.Body.Close()
	must.Equal(t, string(must.Get(io.ReadAll(resp.Body))(t)), fmt.Sprint(size), "bytes that arrived")
	if q, _ := r.exchange(t); q.Capture != event.CaptureCut || len(q.Body) > 1<<20 {
		t.Errorf("capture %s, %d bytes", q.Capture, len(q.Body))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestCancelled(t *testing.T) {
	gone := make(chan error, 1)
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- r.Context().Err()
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	resp := must.Get(r.client.Do(r.request(t, http.MethodPost, chat, "{}").WithContext(ctx)))(t)
	defer resp.Body.Close()
	must.Equal(t, must.Get(bufio.NewReader(resp.Body).ReadString('\n'))(t), "data: {}\n", "first line")
	cancel()
	must.Is(t, <-gone, context.Canceled)
	if _, s := r.exchange(t); s.Status != 200 || s.Error != "context canceled" {
		t.Errorf("response %+v", s.Event)
	}
}

// The error of a provider is recorded although its client leaves before it comes; one that never ends is cancelled.
func TestRefusedUnread(t *testing.T) {
	f := func(ends bool) {
		t.Helper()
		left := make(chan struct{})
		r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
			w.(http.Flusher).Flush()
			<-left
			time.Sleep(100 * time.Millisecond) // a proxy that gives up has done so
			io.WriteString(w, `{"error":{"message":"bad"}}`)
			if w.(http.Flusher).Flush(); !ends {
				<-r.Context().Done()
			}
		}), nil)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			context.AfterFunc(req.Context(), func() { close(left) })
			r.ServeHTTP(w, req)
		}))
		defer front.Close()
		r.url = front.URL
		ctx, cancel := context.WithCancel(t.Context())
		resp := must.Get(r.client.Do(r.request(t, http.MethodPost, chat, "{}").WithContext(ctx)))(t)
		cancel()
		resp.Body.Close()
		_, s := r.exchange(t)
		if s.Status != 400 || string(s.Body) != `{"error":{"message":"bad"}}` || (s.Error == "") != ends {
			t.Errorf("response %d %q %q", s.Status, s.Body, s.Error)
		}
	}
	f(true)
	f(false)
}

func TestUpstreamDown(t *testing.T) {
	r := start(t, nil, nil)
	resp, body := r.do(t, http.MethodPost, chat, "{}")
	if resp.StatusCode != 502 || !strings.Contains(body, `"type":"llmtap_proxy_error"`) || !strings.Contains(body, "upstream test (127.0.0.1:") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if _, s := r.exchange(t); s.Status != 0 || !strings.Contains(s.Error, "refused") {
		t.Errorf("response %+v", s.Event)
	}
	must.Equal(t, testutil.ToFloat64(r.m.received.WithLabelValues("test", codeUnreachable)), 1, "requests counted")
}

// A response that breaks off reaches the client as broken off.
func TestUpstreamBreaksOff(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "data: {}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}), nil)
	resp := must.Get(r.client.Do(r.request(t, http.MethodPost, chat, "{}")))(t)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil || string(b) != "data: {}\n\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, s := r.exchange(t); s.Status != 200 || s.Error == "" {
		t.Errorf("response %+v", s.Event)
	}
}

func TestLabels(t *testing.T) {
	p := &recorder{}
	r := start(t, p, func(c *Config) { c.Service, c.Environment, c.Agent, c.Key = "fleet", "prod", "helper", []byte("k") })
	r.do(
		t, http.MethodPost, chat, "{}", "X-Llmtap-Service", "checkout", "X-Llmtap-Service-Version", "2.4.0", "X-Llmtap-Agent", "buyer", "X-Llmtap-Stage", "%E8%A7%84%E5%88%92",
		"X-Llmtap-Conversation", "c-1", "X-Llmtap-Run", "r-1", "X-Llmtap-User", "anna", "X-Llmtap-Attr-Tenant", "100%", "X-Llmtap-Attr-no!", "x", "X-Llmtap-Whatever", "x",
		"Traceparent", "00-1-2-01", "X-Api-Key", "key", "Anthropic-Version", "2023-06-01",
	)
	sent, _ := p.last(t)
	for k := range sent.Header {
		if strings.HasPrefix(k, "X-Llmtap") || strings.HasPrefix(k, "X-Forwarded") {
			t.Errorf("the provider got %s", k)
		}
	}
	if sent.Header.Get("X-Api-Key") != "key" || sent.Header.Get("Traceparent") == "" {
		t.Errorf("the provider got %v", sent.Header)
	}
	q, s := r.exchange(t)
	want := event.Labels{
		Service: "checkout", ServiceVersion: "2.4.0", Environment: "prod", Agent: "buyer", Stage: "规划",
		Conversation: "c-1", Run: "r-1", User: event.HashUser([]byte("k"), "anna"),
	}
	for _, m := range []message{q, s} {
		must.Agree(t, cmp.Diff(want, m.Labels)+cmp.Diff(map[string]string{"tenant": "100%"}, m.Attrs), m.Kind)
		must.Equal(t, m.subject, fmt.Sprintf("llmtap.v1.%s.checkout.%02x", m.Kind, event.ShardOf("c-1")), "subject")
	}
	if q.Traceparent != "00-1-2-01" || q.APIVersion != "2023-06-01" {
		t.Errorf("request %+v", q.Event)
	}
}

// Without a conversation the calls of one client address keep their order.
func TestDefaultLabels(t *testing.T) {
	r := start(t, &recorder{}, func(c *Config) { c.Service, c.Agent = "fleet", "helper" })
	r.do(t, http.MethodPost, chat, "{}")
	q, _ := r.exchange(t)
	must.Agree(t, cmp.Diff(event.Labels{Service: "fleet", Agent: "helper"}, q.Labels))
	must.Equal(t, q.subject, fmt.Sprintf("llmtap.v1.request.fleet.%02x", event.ShardOf("fleet", "helper", "127.0.0.1")), "subject")
}
