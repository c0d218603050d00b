package llmtap

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A server that is cut off from the network does not close the connection of a hook. The hook goes on with the next server.
func TestNATSCutOff(t *testing.T) {
	t.Parallel()
	n := startNATS(t, t.TempDir(), -1)
	u := must.Get(url.Parse(n.url))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	var cut atomic.Bool
	copyUntilCut := func(to, from net.Conn) {
		for b := make([]byte, 1<<16); ; {
			k, err := from.Read(b)
			if err != nil {
				to.Close()
				return
			}
			if !cut.Load() {
				_, _ = to.Write(b[:k])
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", u.Host)
			if err != nil || cut.Load() {
				_, _ = io.Copy(io.Discard, in)
				in.Close()
				continue
			}
			go copyUntilCut(out, in)
			go copyUntilCut(in, out)
		}
	}()
	cutOff := *u
	cutOff.Host = l.Addr().String()
	h := openHook(t, cutOff.String()+","+n.url, "http://provider.test", func(c *Config) {
		c.NATSOptions = []nats.Option{nats.DontRandomize(), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}
	})
	rt := h.Transport(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}))
	call := func(stored uint64) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider.test/v1", strings.NewReader("{}"))
		if err == nil {
			_, err = rt.RoundTrip(req)
		}
		must.Do(t, err)
		must.Wait(t, "published", func() bool { return h.Stats().Published >= stored }, func() any { return h.Stats() })
	}
	call(1)
	cut.Store(true)
	call(2)
}
