package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// postPath and getPath are requests that a listener serves.
var (
	postPath = map[string]string{"http": "/api/query", "ui": "/login", "proxy": "/up/v1/chat/completions", "receive": "/v1/events"}
	getPath  = map[string]string{"http": "/metrics", "ui": "/alerts", "proxy": "/up/v1/models", "receive": "/v1/events"}
)

// parserAttacks send what a parser of HTTP may misunderstand.
var parserAttacks = []attack{
	{
		name: "headers of 2 MB", listeners: httpListeners, short: true, want: "431|closed",
		run: func(w *attackWorld, l string) string {
			return w.plain.send(w.T, l, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n", 10*time.Second)
		},
	},
	{
		name: "URL of 2 MB", listeners: httpListeners, want: "431|closed",
		run: func(w *attackWorld, l string) string {
			return w.plain.send(w.T, l, "GET /"+strings.Repeat("x", 2<<20)+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 10*time.Second)
		},
	},
	{
		name: "random bytes", listeners: append([]string{"grpc", "clickhouse"}, httpListeners...), short: true, want: "400|closed",
		run: func(w *attackWorld, l string) string {
			return w.plain.send(w.T, l, strings.Repeat("\x16\x03\x01\x00\xa5\x01\xff\x00\r\n\r\n", 100), 15*time.Second)
		},
	},
	smuggle("Content-Length and Transfer-Encoding", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n",
		"400|..., 403"), // the second is refused as a request of its own
	smuggle("two values of Content-Length", "Content-Length: 2\r\nContent-Length: 40\r\n", "{}", "400"),
	smuggle("a negative Content-Length", "Content-Length: -1\r\n", "{}", "400"),
	smuggle("an unknown Transfer-Encoding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", "501|400"),
	smuggle("a space before the colon", "Content-Length : 0\r\n", "", "400"),
	smuggle("a bad length of a chunk", "Transfer-Encoding: chunked\r\n", "+2\r\n{}\r\n0\r\n\r\n", "4..|closed|502|502, 400"),
	smuggle("a NUL in a header", "X: a\x00b\r\nContent-Length: 2\r\n", "{}", "400"),
	{
		name: "a folded header names the length", listeners: httpListeners, want: "400|one request, [0-9]+",
		run: func(w *attackWorld, l string) string {
			return w.oneRequest(l, "X: y\r\n Content-Length: 999\r\nContent-Length: 2\r\n", "{}")
		},
	},
	{
		name: "header lines end with LF only", listeners: httpListeners, want: "400|one request, [0-9]+",
		run: func(w *attackWorld, l string) string { return w.oneRequest(l, "X: y\nContent-Length: 2\r\n", "{}") },
	},
}

// smuggle returns an attack that hides a second request in the body of the first.
func smuggle(name, headers, body, want string) attack {
	return attack{
		name: name, listeners: httpListeners, want: want, short: strings.Contains(name, "Length and"),
		run: func(w *attackWorld, l string) string {
			mark := fmt.Sprintf("smuggled-%d", time.Now().UnixNano())
			got := w.plain.send(w.T, l, "POST "+postPath[l]+" HTTP/1.1\r\nHost: 127.0.0.1\r\n"+headers+"\r\n"+body+
				"GET /up/"+mark+" HTTP/1.1\r\nHost: evil.example\r\n\r\n", 3*time.Second)
			if seen := w.upstream.requests(mark); len(seen) > 0 {
				return "the upstream has seen the second request"
			}
			return got
		},
	}
}

// oneRequest sends a request whose headers can be read in two ways and one more. It returns how many requests the upstream of the
// proxy has seen, or the answers.
func (w *attackWorld) oneRequest(l, headers, body string) string {
	mark := fmt.Sprintf("/folded-%d", time.Now().UnixNano())
	path := postPath[l]
	if l == "proxy" {
		path += mark
	}
	got := w.plain.send(w.T, l, "POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"+headers+"\r\n"+body, 3*time.Second)
	if strings.Contains(got, ",") || got == "held open" {
		return got
	}
	if l == "proxy" {
		if seen := w.upstream.requests(mark); len(seen) != 1 || !strings.Contains(seen[0], " 2 [] <nil>") {
			return fmt.Sprint("the upstream has seen ", seen)
		}
	}
	if got == "400" {
		return got
	}
	return "one request, " + got
}

// accessAttacks are requests of those who may not make them.
var accessAttacks = []attack{
	{
		name: "no token", listeners: httpListeners, short: true, want: "401|303",
		run: func(w *attackWorld, l string) string {
			return w.secured.doAs(w.T, l, http.MethodGet, getPath[l], "", http.Header{"Accept": {"text/html"}}).status()
		},
	},
	{
		name: "a wrong token; a token of another listener; in the URL; as a cookie", listeners: httpListeners, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, token := range []string{"wrong", "", natsToken, serviceToken, receiveToken, proxyToken, uiToken, httpToken} {
				if token != "" && strings.Contains(fmt.Sprint(w.secured.token[l]), token) {
					continue
				}
				for _, h := range []http.Header{
					{"Authorization": {"Bearer " + token}},
					{"X-Llmtap-Token": {token}},
					{"Authorization": {"bearer " + token}},
					{"Cookie": {"llmtap_session=" + token + "; token=" + token}},
				} {
					got = append(got, w.secured.doAs(w.T, l, http.MethodGet, getPath[l]+"?token="+token, "", h).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "DNS rebinding: Host: evil.example", listeners: append([]string{"clickhouse"}, httpListeners...), short: true, want: "403",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "0.0.0.0", "[::ffff:8.8.8.8]"} {
				got = append(got, w.plain.doAs(w.T, l, http.MethodGet, orQuery(getPath[l]), "", http.Header{"Host": {host}}).status())
			}
			got = append(got, w.plain.send(w.T, l, "GET "+orQuery(getPath[l])+" HTTP/1.0\r\n\r\n", 5*time.Second))
			return distinct(got)
		},
	},
	{
		name: "a page of another site posts (Origin)", listeners: append([]string{"clickhouse"}, httpListeners...), short: true,
		want: "403",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, c := range []*target{w.plain, w.secured} {
				if l == "clickhouse" && c == w.secured {
					continue
				}
				for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"} {
					h := http.Header{"Origin": {origin}, "Content-Type": {"text/plain"}}
					got = append(got, c.do(w.T, l, http.MethodPost, orQuery(postPath[l]), "{}", h).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "a page of another site requests without Origin (Sec-Fetch-Site)", listeners: append([]string{"clickhouse"}, httpListeners...),
		short: true, want: "403",
		run: func(w *attackWorld, l string) string {
			return each([]http.Header{
				{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, {"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"cors"}},
			}, func(h http.Header) string {
				return w.plain.doAs(w.T, l, http.MethodGet, orQuery(getPath[l]), "", h).status()
			})
		},
	},
	{
		name: "path traversal", listeners: httpListeners, short: true, want: "no file",
		run: func(w *attackWorld, l string) string {
			for _, c := range []*target{w.plain, w.secured} {
				for _, path := range []string{
					"/../../../../etc/passwd", "/static/../../../../etc/passwd", "/static/..%2f..%2f..%2fetc/passwd",
					"/static/%2e%2e/%2e%2e/etc/passwd",
					"/static/....//....//etc/passwd", "/static/..%5c..%5cetc/passwd", "/static//etc/passwd",
					"/exchange/..%2f..%2fetc%2fpasswd/raw",
					"/up/../../etc/passwd", "/explore/..%2f..%2fetc%2fpasswd", "/static/%00", "/api/../../etc/passwd",
				} {
					r := c.do(w.T, l, http.MethodGet, path, "", nil)
					if strings.Contains(r.body, "root:") || strings.Contains(r.body, "package ") || r.code >= 500 {
						return fmt.Sprintf("%s: %d %.100s", path, r.code, r.body)
					}
				}
			}
			return "no file"
		},
	},
	{
		name: "dot segments lead out of the upstream's path", listeners: []string{"proxy"}, short: true, want: "400",
		run: func(w *attackWorld, l string) string {
			return each([]string{"/based/../x", "/based/%2e%2e/x", "/based/..%2fx", "/based/v1/..%5c../x", "/based/./x", "/based/%2e%2e%2f%2e%2e%2fx"}, func(path string) string {
				return w.plain.send(w.T, l, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 5*time.Second)
			})
		},
	},
}

// orQuery returns path, or that of a statement for ClickHouse.
func orQuery(path string) string {
	if path == "" {
		return "/?query=SELECT+1"
	}
	return path
}

// each calls f with all values, and joins the different results.
func each[T any](all []T, f func(T) string) string {
	var got []string
	for _, v := range all {
		got = append(got, f(v))
	}
	return distinct(got)
}

// distinct joins the different texts.
func distinct(texts []string) string {
	var all []string
	for _, s := range texts {
		if !strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+s+"\n") {
			all = append(all, s)
		}
	}
	return strings.Join(all, ", ")
}

// tlsAttacks are connections to listeners with a certificate and CAs of clients.
var tlsAttacks = []attack{
	{
		name: "plain text to a TLS port", listeners: append([]string{"grpc", "nats"}, httpListeners...), short: true, want: "no answer",
		run: func(w *attackWorld, l string) string {
			if answer := plainText(w.T, w.secured.addr[l]); strings.Contains(answer, "200 OK") || strings.Contains(answer, "PONG") {
				return answer
			}
			return "no answer"
		},
	},
	{
		name: "TLS 1.1", listeners: append([]string{"grpc", "nats"}, httpListeners...), short: true, want: "handshake refused",
		run: func(w *attackWorld, l string) string {
			cfg := w.secured.tls.Clone()
			cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			return w.handshake(l, cfg)
		},
	},
	{
		name: "no client certificate", listeners: append([]string{"grpc", "nats"}, httpListeners...), short: true,
		want: "handshake refused",
		run: func(w *attackWorld, l string) string {
			cfg := w.secured.tls.Clone()
			cfg.Certificates = nil
			return w.handshake(l, cfg)
		},
	},
	{
		name: "client certificate of another CA", listeners: append([]string{"grpc", "nats"}, httpListeners...), short: true,
		want: "handshake refused",
		run: func(w *attackWorld, l string) string {
			dir := filepath.Dir(w.secured.files.CAFile)
			stranger := certs.Client{CAFile: w.secured.files.CAFile, CertFile: filepath.Join(dir, "stranger.pem"), KeyFile: filepath.Join(dir, "stranger.key")}
			cfg := must.Get(stranger.Config(""))(w)
			pair := cfg.Certificates[0]
			cfg.Certificates = nil
			// Sent even though the server names another CA.
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			return w.handshake(l, cfg)
		},
	},
}

// handshake returns whether a listener of the secured collector answers a client with cfg.
func (w *attackWorld) handshake(l string, cfg *tls.Config) string {
	conn := must.Get(net.DialTimeout("tcp", w.secured.addr[l], 5*time.Second))(w)
	defer conn.Close()
	must.Do(w, conn.SetDeadline(time.Now().Add(5*time.Second)))
	if l == "nats" { // its TLS begins after a greeting
		must.Get(conn.Read(make([]byte, 4096)))(w)
	}
	cfg = cfg.Clone()
	cfg.ServerName = "127.0.0.1"
	c := tls.Client(conn, cfg)
	if err := c.Handshake(); err != nil {
		return "handshake refused"
	}
	_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") // the read below fails, too
	if n, err := c.Read(make([]byte, 1)); n == 0 && err != nil && strings.Contains(err.Error(), "tls:") {
		return "handshake refused" // with TLS 1.3, the server refuses a certificate after the client's handshake
	}
	return "connected"
}

// loadAttacks take what a listener has little of: connections, memory, time.
var loadAttacks = []attack{
	{
		name: "400 connections are held", listeners: append([]string{"grpc", "nats"}, httpListeners...), short: true,
		want: "others are served",
		run: func(w *attackWorld, l string) string {
			var held sync.WaitGroup
			done := make(chan struct{})
			defer held.Wait()
			defer close(done)
			for range 400 {
				held.Go(func() {
					if c, err := net.DialTimeout("tcp", w.plain.addr[l], 10*time.Second); err == nil {
						defer c.Close()
						_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n") // without an end
						<-done
					}
				})
			}
			time.Sleep(time.Second)
			return w.othersAreServed(l)
		},
	},
	{
		name: "headers that never end", waits: true, listeners: append([]string{"grpc"}, httpListeners...),
		want: "closed within 11 s",
		run: func(w *attackWorld, l string) string {
			return w.closedWithin(l, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", "x", 11)
		},
	},
	{
		name: "a body that never ends", waits: true, listeners: []string{"http", "ui"},
		want: "closed within (11|31) s",
		run: func(w *attackWorld, l string) string {
			return w.closedWithin(l, "POST "+postPath[l]+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9999\r\n\r\n",
				"x", 11, 31)
		},
	},
	{
		name: "a refused request with a body that never ends", waits: true, listeners: []string{"http", "ui", "proxy"},
		want: "closed within (6|11|31) s",
		run: func(w *attackWorld, l string) string {
			return w.closedWithin(l, "POST "+postPath[l]+" HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9999\r\n\r\n", "x", 6, 11, 31)
		},
	},
	{
		name: "100 payloads that never end", listeners: []string{"receive"}, short: true, want: "others are served",
		run: func(w *attackWorld, l string) string {
			for range 100 {
				c, err := w.plain.dial(l)
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n[", 32<<20)
			}
			time.Sleep(300 * time.Millisecond)
			if err := w.plain.callIsStored(w.T); err != nil {
				return err.Error()
			}
			return "others are served"
		},
	},
	{
		name: "a body that is too large", listeners: []string{"http", "ui", "receive"}, short: true, want: "4[01]3|400|closed",
		run: func(w *attackWorld, l string) string {
			size := map[string]int{"http": 2 << 20, "ui": 1 << 20, "receive": 33 << 20}[l]
			h := http.Header{"Content-Type": {map[string]string{"http": "application/json", "ui": "application/x-www-form-urlencoded", "receive": "application/json"}[l]}}
			return w.plain.doAs(w.T, l, http.MethodPost, postPath[l], `"`+strings.Repeat("x", size), h).status()
		},
	},
	{
		name: "a gzip bomb of 512 MB", listeners: []string{"receive"}, short: true, want: "413|413, closed|closed|closed, 413",
		run: func(w *attackWorld, l string) string {
			return each([]string{"/v1/events", "/v1/traces", "/v1/logs"}, func(path string) string {
				h := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
				return w.plain.doAs(w.T, l, http.MethodPost, path, string(w.upstream.bomb), h).status()
			})
		},
	},
	{
		name: "JSON nested 1,000,000 deep", listeners: []string{"http", "receive"}, short: true, want: "400",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, path := range map[string][]string{"http": {"/api/query", "/mcp", "/api/v1/problems/0123456789abcdef", "/api/v2/silences"}, "receive": {"/v1/events", "/v1/traces", "/v1/logs"}}[l] {
				h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
				got = append(got, w.plain.doAs(w.T, l, http.MethodPost, path, strings.Repeat(`[`, 1_000_000), h).status())
			}
			return distinct(got)
		},
	},
}

// othersAreServed returns whether a listener serves a new client within two seconds.
func (w *attackWorld) othersAreServed(l string) string {
	conn, err := w.plain.dial(l)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	must.Do(w, conn.SetDeadline(time.Now().Add(5*time.Second)))
	hello := "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	switch l {
	case "nats":
		hello = "CONNECT {}\r\nPING\r\n"
	case "grpc":
		hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	}
	if _, err := io.WriteString(conn, hello); err != nil {
		return err.Error()
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err.Error()
	}
	return "others are served"
}

// closedWithin sends payload and then a byte each second, and returns the first of limits, in seconds, within which the listener
// closes the connection.
func (w *attackWorld) closedWithin(l, payload, slow string, limits ...int) string {
	conn, err := w.plain.dial(l)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	start := time.Now()
	last := time.Duration(limits[len(limits)-1]) * time.Second
	must.Do(w, conn.SetDeadline(start.Add(last)))
	if _, err := io.WriteString(conn, payload); err != nil {
		return err.Error()
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				_, _ = io.WriteString(conn, slow) // fails once the connection is closed
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, conn) // until it is closed, or the deadline
	for _, limit := range limits {
		if took := time.Since(start); took < time.Duration(limit)*time.Second {
			return fmt.Sprintf("closed within %d s", limit)
		}
	}
	return fmt.Sprintf("held open after %v", last)
}

// gzipBomb returns about a thousandth of size bytes that decompress to size zeros.
func gzipBomb(size int) []byte {
	const member = 16 << 20
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, member)) // a bytes.Buffer does not fail
	_ = z.Close()
	return bytes.Repeat(b.Bytes(), size/member)
}
