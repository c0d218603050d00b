package jetstream

import (
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A server that is cut off from the network does not close the connection. A reader goes on with the next server.
func TestServerCutOff(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	n := startNATS(t)
	direct, ctx := n.connect(t)
	u := must.Get(url.Parse(n.s.URL()))(t)
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
			if cut.Load() {
				in.Close()
				continue
			}
			out, err := net.Dial("tcp", u.Host)
			if err != nil {
				in.Close()
				continue
			}
			go copyUntilCut(out, in)
			go copyUntilCut(in, out)
		}
	}()
	cfg := Default()
	cfg.URL = "nats://" + l.Addr().String()
	c := must.Get(Connect(ctx, cfg, nil, nil))(t)
	t.Cleanup(c.Close)
	publish(t, ctx, direct, 0, 3)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 3)
	cut.Store(true)
	must.Do(t, c.Healthy())
	must.Wait(t, "the connection to a server that is cut off is not healthy", func() bool { return c.Healthy() != nil })
	cut.Store(false)
	publish(t, ctx, direct, 3, 5)
	readN(t, ctx, r, 2)
}
