package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A client that sends no more of its body is given up. One that is only slow, or whose answer takes long, is not.
func TestLimitBody(t *testing.T) {
	const limit = 300 * time.Millisecond
	received := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(r.Context())
		limitBody(w, r, limit)
		body, err := io.ReadAll(r.Body)
		if err == nil {
			for range 3 {
				time.Sleep(limit / 2)
				fmt.Fprint(w, len(body))
				_ = http.NewResponseController(w).Flush()
			}
			err = r.Context().Err()
		}
		received <- err
	}))
	defer s.Close()
	f := func(parts int, pause time.Duration, ends bool, want error) {
		t.Helper()
		conn := must.Get(net.Dial("tcp", s.Listener.Addr().String()))(t)
		defer conn.Close()
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range parts {
			fmt.Fprint(conn, "1\r\nx\r\n")
			time.Sleep(pause)
		}
		if ends {
			fmt.Fprint(conn, "0\r\n\r\n")
		}
		select {
		case err := <-received:
			must.Is(t, err, want, parts, "parts")
		case <-time.After(20 * limit):
			t.Fatalf("%d parts: the handler waits", parts)
		}
	}
	f(1, 0, true, nil)
	f(6, limit/3, true, nil)
	f(1, 0, false, os.ErrDeadlineExceeded)
	f(0, 0, false, os.ErrDeadlineExceeded)
}
