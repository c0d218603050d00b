package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	pathpkg "path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestRefused(t *testing.T) {
	p := &recorder{}
	r := start(t, p, nil)
	f := func(status int, message, method, path string, header ...string) {
		t.Helper()
		resp, body := r.do(t, method, path, "{}", header...)
		if resp.StatusCode != status || !strings.Contains(body, message) || status >= 400 && !strings.HasPrefix(body, `{"error":{"message":"llmtap proxy: `) {
			t.Errorf("%s %s %v: %d %s, want %d %s", method, path, header, resp.StatusCode, body, status, message)
		}
	}
	f(404, `unknown upstream \"v1\"`, "POST", "/v1/chat/completions")
	f(404, "anthropic, cohere", "GET", "/")
	f(404, `unknown upstream \"169.254.169.254\"`, "GET", "/169.254.169.254/latest")
	f(404, `unknown upstream \"http://evil.example\"`, "GET", "/test/v1", "X-Llmtap-Upstream", "http://evil.example")
	f(404, `unknown upstream \"test%2Fv1\"`, "GET", "/test%2Fv1")
	f(400, "dot segment", "GET", "/test/v1/../admin")
	f(400, "dot segment", "GET", "/test/%2e%2e/admin")
	f(400, "dot segment", "GET", `/test/..%5Cadmin`)
	f(403, "is not loopback", "POST", chat, "Host", "evil.example")
	f(403, "is not loopback", "POST", chat, "Host", "127.0.0.1.evil.example:8089")
	f(403, "from web pages of https://evil.example", "POST", chat, "Origin", "https://evil.example")
	f(403, "web pages of null", "POST", chat, "Origin", "null")
	f(403, "web pages of other sites", "GET", "/test/v1/models", "Sec-Fetch-Site", "cross-site")
	f(501, "is not supported", "GET", "/test/v1/realtime", "Connection", "Upgrade", "Upgrade", "websocket")
	f(405, "base URL instead of HTTP_PROXY", "CONNECT", "")
	if len(p.seen) > 0 {
		t.Fatalf("the provider got %d requests", len(p.seen))
	}

	f(200, "", "POST", chat, "Host", "localhost:8089", "Origin", "http://localhost:3000")
	f(200, "", "POST", chat, "Host", "[::1]:8089")
	f(200, "", "POST", chat, "Sec-Fetch-Site", "none")
	f(200, "", "POST", "/v1/chat/completions", "X-Llmtap-Upstream", "test")
	sent, _ := p.last(t)
	must.Equal(t, sent.URL.Path, "/v1/chat/completions", "the provider got %s", sent.URL)
	// JDK clients offer HTTP/2 with every request.
	f(200, "", "POST", chat, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__")
	sent, _ = p.last(t)
	must.Equal(t, sent.Header.Get("Upgrade")+sent.Header.Get("Http2-Settings")+sent.Header.Get("Connection"), "", "the provider got %v", sent.Header)
	must.Equal(t, testutil.ToFloat64(r.m.received.WithLabelValues(noUpstream, codeRefused)), 15, "refusals counted")
}

// A URL in the request line, as for a forward proxy, is not followed.
func TestNoOpenProxy(t *testing.T) {
	other := &recorder{}
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	r := start(t, &recorder{}, nil)
	conn := must.Get(net.Dial("tcp", host(t, r.url)))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s/v1/x HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}", elsewhere.URL, host(t, elsewhere.URL))
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer resp.Body.Close()
	if resp.StatusCode != 404 || len(other.seen) > 0 {
		t.Errorf("status %d, %d requests reached another server", resp.StatusCode, len(other.seen))
	}
}

func TestRedirectNotFollowed(t *testing.T) {
	other := &recorder{}
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	r := start(t, &recorder{status: 307, header: http.Header{"Location": {elsewhere.URL + "/v1"}}}, nil)
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, _ := r.do(t, http.MethodPost, chat, "{}")
	if resp.StatusCode != 307 || resp.Header.Get("Location") != elsewhere.URL+"/v1" || len(other.seen) > 0 {
		t.Errorf("status %d, %v, %d requests reached another server", resp.StatusCode, resp.Header, len(other.seen))
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	p := &recorder{}
	r := start(t, p, func(c *Config) { c.Listen, c.TokenFile = "0.0.0.0:8089", file })
	f := func(status int, header ...string) {
		t.Helper()
		resp, body := r.do(t, http.MethodPost, chat, "{}", header...)
		must.Equal(t, resp.StatusCode, status, "%v: %s", header, body)
	}
	f(401)
	f(401, "X-Llmtap-Token", "s3cre")
	f(401, "Authorization", "Bearer s3cret")
	f(403, "X-Llmtap-Token", "s3cret", "Origin", "https://evil.example")
	f(200, "X-Llmtap-Token", "s3cret", "Host", "proxy.internal:8089", "Authorization", "Bearer sk-1")
	sent, _ := p.last(t)
	if sent.Header.Get("X-Llmtap-Token") != "" || sent.Header.Get("Authorization") != "Bearer sk-1" {
		t.Errorf("the provider got %v", sent.Header)
	}
}

// A response that begins before the provider has read the request (a wrong key, a limit) is complete.
func TestResponseBeforeRequestBody(t *testing.T) {
	answer := strings.Repeat("no", 100<<10)
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		w.WriteHeader(401)
		io.WriteString(w, answer)
		rc.Flush()
	}), nil)
	body, more := io.Pipe()
	defer more.Close()
	go more.Write([]byte(`{"messages":[`))
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+chat, body))(t)
	resp := must.Get(r.client.Do(req))(t)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != 401 || string(b) != answer || err != nil {
		t.Errorf("status %d, %d of %d bytes, %v", resp.StatusCode, len(b), len(answer), err)
	}
	more.Close()
	if _, s := r.exchange(t); s.Status != 401 || string(s.Body) != answer {
		t.Errorf("response %d, %d bytes", s.Status, len(s.Body))
	}
}

func TestTrailers(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Usage")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		io.WriteString(w, "{}")
		w.Header().Set("X-Usage", "7")
	}), nil)
	resp, _ := r.do(t, http.MethodPost, chat, "{}")
	if resp.Trailer.Get("X-Usage") != "7" || resp.Header.Get("X-Hop") != "" {
		t.Errorf("trailer %v, header %v", resp.Trailer, resp.Header)
	}
}

// While NATS is down, calls pass and their events are queued.
func TestNATSDown(t *testing.T) {
	r := start(t, &recorder{answer: []byte("{}")}, func(c *Config) { c.NATSURL = "nats://127.0.0.1:1" })
	for range 20 {
		if resp, body := r.do(t, http.MethodPost, chat, "{}"); resp.StatusCode != 200 || body != "{}" {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	if s := r.Stats(); s.Pending != 40 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := Default()
	cfg.Logger = quiet
	p := must.Get(Open(cfg, reg))(t)
	defer p.Close()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil))
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n, err := testutil.GatherAndCount(reg, "llmtap_ingest_proxy_requests_received_total"); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestInvalidConfig(t *testing.T) {
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f("listen: ", func(c *Config) { c.Listen = "8089" })
	f("set token or token_file", func(c *Config) { c.Listen = ":8089" })
	f("set token or token_file", func(c *Config) { c.Listen = "10.0.0.7:8089" })
	f("both are set", func(c *Config) { c.Token, c.TokenFile = "s3cret", "f" })
	f(`capture: "text"`, func(c *Config) { c.Capture = "text" })
	f("queue_bytes", func(c *Config) { c.QueueBytes = 0 })
	up := func(want, name, base string) {
		t.Helper()
		f("upstreams: "+want, func(c *Config) { c.Upstreams = map[string]string{name: base} })
	}
	up(`name "Local" does not match`, "Local", "http://127.0.0.1:11434")
	up(`name "a/b" does not match`, "a/b", "http://127.0.0.1:11434")
	up(`local: "127.0.0.1" is not like`, "local", "127.0.0.1")
	up("local: invalid URL", "local", "http://u:s3cret@h:x")
	up(`local: "ftp://h" is not like`, "local", "ftp://h")
	up("local: user, query", "local", "https://u:s3cret@h/v1")
	up("local: user, query", "local", "https://h/v1?key=s3cret")
	up("local: the path", "local", "https://h/v1/%2e%2e")
	c := Default()
	must.Do(t, c.Validate())
}

func TestUpstreams(t *testing.T) {
	m := must.Get(newUpstreams(map[string]string{"local": "http://127.0.0.1:11434/v1/", "openai": "https://eu.api.openai.com"}))(t)
	for name, up := range m {
		if wire.Upstreams()[name] != "" && (up.scheme != "https" || up.path != "") {
			t.Errorf("%s is %+v", name, up)
		}
	}
	f := func(name, rest, want string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/x?q=1", nil)
		m[name].setTarget(r.URL, rest)
		must.Equal(t, r.URL.String(), want, "URL")
	}
	f("deepseek", "/chat/completions", "https://api.deepseek.com/chat/completions?q=1")
	f("openai", "/v1/responses", "https://eu.api.openai.com/v1/responses?q=1")
	f("local", "/chat%2Fx", "http://127.0.0.1:11434/v1/chat%2Fx?q=1")
	if m["local"].plaintext() || !(&upstream{scheme: "http", host: "10.0.0.7:80"}).plaintext() {
		t.Error("plaintext upstreams are not recognised")
	}
}

func TestLimitEncodings(t *testing.T) {
	f := func(in []string, want string) {
		t.Helper()
		h := http.Header{}
		if in != nil {
			h["Accept-Encoding"] = in
		}
		limitEncodings(h)
		must.Equal(t, strings.Join(h["Accept-Encoding"], "|"), want, "%q became", in)
	}
	f(nil, "")
	f([]string{""}, "")
	f([]string{"gzip;q=1.0,  identity"}, "gzip;q=1.0,  identity")
	f([]string{"GZip, deflate", "br, identity;q=0.5"}, "GZip, identity;q=0.5")
	f([]string{"br"}, "identity")
	f([]string{"*"}, "identity")
	f([]string{"gzip, deflate, zstd"}, "gzip")
	f([]string{"gzip"}, "gzip")
	f([]string{"zstd"}, "identity")
}

func TestLabelsAreBounded(t *testing.T) {
	if v := label(strings.Repeat("规", 300)); len(v) > event.MaxHeaderValue || !strings.HasPrefix(v, "规规") || strings.ContainsRune(v, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(v), v)
	}
	h := http.Header{}
	for i := range 100 {
		h.Set(fmt.Sprintf("X-Llmtap-Attr-K%02d", i), "v")
	}
	if m := attrs(h); len(m) != event.MaxAttrs || m["k00"] != "v" || m["k31"] != "v" {
		t.Errorf("%d attributes: %v", len(m), m)
	}
}

// No path leads to another host, or outside the path of its upstream.
func FuzzRoute(f *testing.F) {
	up := must.Get(newUpstream("test", "https://llm.example.com/base%20path"))(f)
	cfg := Default()
	p := &Proxy{cfg: cfg, upstreams: map[string]*upstream{"test": up}}
	for _, path := range []string{"/test/v1/chat", "/test/../x", "/test/%2e%2e/x", "/test//evil.example/", "/test/..%5cx", "/test", "/test/%00", "/test@evil/x", "//evil/x", "/test/a?b#c"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Host: "127.0.0.1", RemoteAddr: "127.0.0.1:1"}
		to, rest, refused := p.route(r)
		if refused != nil {
			return
		}
		out := *u
		to.setTarget(&out, rest)
		sent, err := url.Parse(out.String())
		must.Do(t, err, path)
		if sent.Scheme != "https" || sent.Host != "llm.example.com" || sent.User != nil {
			t.Errorf("%q goes to %s", path, sent)
		}
		if clean := pathpkg.Clean(sent.Path); !strings.HasPrefix(clean+"/", "/base path/") {
			t.Errorf("%q goes to %s", path, sent)
		}
	})
}
