package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/secret"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// Tokens of the secured collector.
const (
	httpToken    = "the-token-of-http"
	uiToken      = "the-token-of-people"
	proxyToken   = "the-token-of-agents"
	receiveToken = "the-token-of-hooks"
	natsToken    = "the-token-of-all-services"
	serviceToken = "the-token-of-checkout"
)

// httpListeners are the listeners that speak HTTP/1.1.
var httpListeners = []string{"http", "ui", "proxy", "receive"}

// A target is a collector that is attacked.
type target struct {
	up    *upProcess
	addr  map[string]string // host:port by listener
	tls   *tls.Config       // of a client with all rights; nil: no TLS
	files certs.Client      // of tls
	rows  *store
	token map[string]http.Header // by listener
}

func newAttackWorld(t *testing.T) *attackWorld {
	t.Helper()
	w := &attackWorld{T: t, upstream: newUpstream(t), canary: newCanary(t)}
	w.upstream.redirect = w.canary.URL
	dir := t.TempDir()
	ca, other := certstest.NewCA(t, dir, "ca"), certstest.NewCA(t, dir, "other")
	cert, key := ca.Issue(t, dir, "server", "127.0.0.1")
	client, clientKey := ca.Issue(t, dir, "client", "")
	other.Issue(t, dir, "stranger", "")
	shared := fmt.Sprintf("memory: {limit: %d}\n", attackMemory)
	upstreams := fmt.Sprintf("capture: full, upstreams: {up: %q, based: %q}", w.upstream.URL, w.upstream.URL+"/base")
	text := shared + "proxy: {" + upstreams + "}\n"
	w.plain = startTarget(t, text, certs.Client{}, "")
	text = shared + "teams: [{name: nobody, match: ['service=\"nobody\"']}]\n" + fmt.Sprintf("tls: {cert_file: %s, key_file: %s, client_ca_file: %s}\n", cert, key, ca.File) +
		fmt.Sprintf("nats: {cert_file: %s, key_file: %s}\n", client, clientKey) +
		fmt.Sprintf("http: {token: %q, cert_file: %s, key_file: %s}\n", secret.Hash(httpToken)+" "+secret.Hash("the next one"), client, clientKey) +
		fmt.Sprintf("ui: {token: %s, oidc: {issuer: 'http://127.0.0.1:1', client_id: llmtap, roles: {admin: [platform]}}}\nreceive: {token: %s}\nproxy: {token: %s, %s}\n", uiToken, receiveToken, proxyToken, upstreams) +
		fmt.Sprintf("nats_server: {token: %s, service_tokens: {checkout-agent: %q}}\n", natsToken, secret.Hash(serviceToken))
	w.secured = startTarget(t, text, certs.Client{CAFile: ca.File, CertFile: client, KeyFile: clientKey}, cert)
	w.secured.token = map[string]http.Header{
		"http": {"Authorization": {"Bearer " + httpToken}}, "ui": {"Authorization": {"Bearer " + uiToken}},
		"proxy": {"X-Llmtap-Token": {proxyToken}}, "receive": {"Authorization": {"Bearer " + receiveToken}},
	}
	w.plain.ready(t)
	w.secured.ready(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("plain:\n%s\nsecured:\n%s", w.plain.up.stderr.String(), w.secured.up.stderr.String())
		}
	})
	return w
}

// startTarget starts a collector with a configuration. files are those of a client with all rights.
func startTarget(t *testing.T, text string, files certs.Client, pinned string) *target {
	t.Helper()
	name := filetest.Temp(t, "llmtap.yaml", text)
	c := &target{up: startUp(t, "--config", name), files: files}
	if pinned != "" {
		c.up.client = trusting(t, files, pinned)
		cfg := must.Get(files.Config(""))(t)
		c.tls = cfg
	}
	c.up.client.Timeout = 10 * time.Second
	c.rows = c.up.rows()
	t.Cleanup(c.rows.close)
	return c
}

// ready waits until c is ready, and finds its listeners.
func (c *target) ready(t *testing.T) {
	t.Helper()
	c.up.ready(t)
	r := running(t, c.up.dir)
	proxy := c.up.inBanner(t, `Proxy +(https?://[^/]+)/`)
	dsn, ok := chdb.Running(config.ClickHouseDir(c.up.dir))
	if !ok {
		t.Fatal("no ClickHouse")
	}
	c.addr = map[string]string{}
	for name, url := range map[string]string{
		"http": r.URL(), "ui": r.PagesURL, "proxy": proxy, "receive": r.ReceiveURL, "grpc": r.OTLPURL, "nats": r.NATSURL,
		"clickhouse": dsn,
	} {
		_, host, _ := strings.Cut(url, "://")
		host, _, _ = strings.Cut(host[strings.LastIndex(host, "@")+1:], "/")
		c.addr[name] = host
	}
}

// dial connects to a listener.
func (c *target) dial(listener string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 5 * time.Second}
	if c.tls == nil || listener == "clickhouse" {
		return d.Dial("tcp", c.addr[listener])
	}
	cfg := c.tls.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	return tls.DialWithDialer(d, "tcp", c.addr[listener], cfg)
}

// send writes bytes to a listener and returns the statuses of the answers, "closed" if there is none, or "held open" if the
// connection is still open after wait.
func (c *target) send(t *testing.T, listener, payload string, wait time.Duration) string {
	t.Helper()
	conn := must.Get(c.dial(listener))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(wait)))
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = io.WriteString(conn, payload) }) // the listener may close the connection
	defer writing.Wait()
	defer conn.Close()
	return responses(conn)
}

// responses returns the statuses of the HTTP responses that r contains.
func responses(r io.Reader) string {
	var all []string
	b := bufio.NewReader(r)
	for {
		resp, err := http.ReadResponse(b, nil)
		if err != nil {
			var timeout net.Error
			switch {
			case len(all) > 0:
				return strings.Join(all, ", ")
			case errors.As(err, &timeout) && timeout.Timeout():
				return "held open"
			}
			return "closed"
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the status counts
		all = append(all, fmt.Sprint(resp.StatusCode))
	}
}

// A reply is the answer to a request.
type reply struct {
	code   int
	header http.Header
	body   string
}

// do sends a well-formed request to a listener, with its token. Redirects are not followed.
func (c *target) do(t *testing.T, listener, method, path, body string, header http.Header) reply {
	t.Helper()
	for k, v := range c.token[listener] {
		if header == nil {
			header = http.Header{}
		}
		if header[k] == nil {
			header[k] = v
		}
	}
	return c.doAs(t, listener, method, path, body, header)
}

// doAs sends a well-formed request with exactly these headers. The value of Host is the host.
func (c *target) doAs(t *testing.T, listener, method, path, body string, header http.Header) reply {
	t.Helper()
	scheme := "http"
	if c.tls != nil {
		scheme = "https"
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), method, scheme+"://"+c.addr[listener]+path, strings.NewReader(body)))(t)
	if header != nil {
		req.Header = header.Clone()
		req.Host = header.Get("Host")
	}
	tr := &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}
	client := http.Client{Transport: tr, Timeout: 70 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET): // answered before all was sent
		return reply{body: "closed"}
	case err != nil:
		return reply{body: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return reply{body: err.Error()}
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// status returns the status of a request as text.
func (r reply) status() string {
	if r.code == 0 {
		return r.body
	}
	return fmt.Sprint(r.code)
}

// A canary counts the requests to something that only the machine of the collector can reach.
type canary struct {
	*httptest.Server
	hits atomic.Int64
}

func newCanary(t *testing.T) *canary {
	c := &canary{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.hits.Add(1)
		fmt.Fprint(w, "reached")
	}))
	t.Cleanup(c.Close)
	return c
}

// An upstreamServer is an upstream of the proxy. It records what it receives.
type upstreamServer struct {
	*httptest.Server
	redirect string
	bomb     []byte

	mu   sync.Mutex // guards seen
	seen []string   // method, path and the lengths that the request declares
}

func newUpstream(t *testing.T) *upstreamServer {
	u := &upstreamServer{bomb: gzipBomb(512 << 20)}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *upstreamServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	u.mu.Lock()
	u.seen = append(u.seen, fmt.Sprintf("%s %s %d %v %v", r.Method, r.URL.Path, n, r.TransferEncoding, err))
	u.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		http.Redirect(w, r, u.redirect+"/latest/meta-data/", http.StatusTemporaryRedirect)
	case strings.Contains(r.URL.Path, "/bomb"):
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		if strings.Contains(r.URL.Path, "/bomb/error") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(u.bomb) // the client may leave
	case strings.HasSuffix(r.URL.Path, "/headers"):
		fmt.Fprint(w, r.Header)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"chat.completion","model":"gpt-5","choices":[]}`)
	}
}

// requests returns the requests whose path contains mark.
func (u *upstreamServer) requests(mark string) (found []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		if strings.Contains(s, mark) {
			found = append(found, s)
		}
	}
	return found
}
