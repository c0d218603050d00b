package jetstream

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A server that is cut off from the network does not close the connection. A reader goes on with the next server.
func TestServerCutOff(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	n := startNATS(t)
	direct, ctx := n.connect(t)
	link := testnet.NewLink(t, strings.TrimPrefix(n.s.URL(), "nats://"))
	link.Open()
	cfg := Default()
	cfg.URL = "nats://" + link.Addr
	c := must.Get(Connect(ctx, cfg, nil, nil))(t)
	t.Cleanup(c.Close)
	publish(t, ctx, direct, 0, 3)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 3)
	link.Pause()
	must.Do(t, c.Healthy())
	must.Wait(t, "the connection to a server that is cut off is not healthy", func() bool { return c.Healthy() != nil })
	link.Resume()
	publish(t, ctx, direct, 3, 5)
	readN(t, ctx, r, 2)
}
