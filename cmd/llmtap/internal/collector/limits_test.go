package collector

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// serveLimited serves h with a short time for bodies until the test ends, and returns the address.
func serveLimited(t *testing.T, h http.HandlerFunc, body time.Duration, connections int, log io.Writer) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	logger := slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, newServer(h, body, logger), limit(l, connections, logger), time.Second) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-done)
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr, request string) *bufio.Reader {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	must.Get(io.WriteString(conn, request))(t)
	return bufio.NewReader(conn)
}

// A body that does not end is given up, whether the handler reads it or not. A response may take longer.
func TestLimitBodies(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	var left error
	addr := serveLimited(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			http.Error(w, "refused", http.StatusForbidden)
			return
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestTimeout)
			return
		}
		select {
		case <-time.After(3 * limit):
		case <-r.Context().Done():
			left = r.Context().Err()
		}
		fmt.Fprint(w, "answered")
	}, limit, 10, io.Discard)
	f := func(request, want string) {
		t.Helper()
		start := time.Now()
		got, err := io.ReadAll(dial(t, addr, request))
		if err != nil || !strings.HasPrefix(string(got), want) || left != nil {
			t.Errorf("%.20q: %v, %v\n%s", request, err, left, got)
		}
		if d := time.Since(start); d > 10*limit {
			t.Errorf("%.20q takes %v", request, d)
		}
	}
	f("POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", "HTTP/1.1 408 ")
	f("POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", "HTTP/1.1 403 ")
	f("POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "HTTP/1.1 403 ")
	f("POST /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 ")
	f("GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ")
}

// Connections beyond the limit wait until others are closed, and it is logged.
func TestLimitConnections(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	addr := serveLimited(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, time.Second, 2, &log)
	var open []net.Conn
	for range 2 {
		conn := must.Get(net.Dial("tcp", addr))(t)
		defer conn.Close()
		open = append(open, conn)
	}
	answered := make(chan string, 1)
	third := dial(t, addr, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	go func() {
		line, _ := third.ReadString('\n')
		answered <- line
	}()
	select {
	case got := <-answered:
		t.Fatalf("a third connection is served: %q", got)
	case <-time.After(200 * time.Millisecond):
	}
	_ = open[0].Close()
	select {
	case got := <-answered:
		must.Equal(t, got, "HTTP/1.1 200 OK\r\n", "answer")
	case <-time.After(time.Minute):
		t.Fatal("the third connection is never served")
	}
	got := log.String()
	must.Equal(t, strings.Count(got, "connections=2"), 1, "log: %q", got)
}
