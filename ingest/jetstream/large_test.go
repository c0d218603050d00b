package jetstream

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A server of one's own may accept larger messages than the embedded one. One that exceeds every pull is delivered, and so is
// what follows it.
func TestMessageLargerThanPull(t *testing.T) {
	t.Parallel()
	opts := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 24 << 20, MaxPending: 64 << 20, NoSigs: true}
	s := must.Get(server.NewServer(opts))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	cfg := Default()
	cfg.URL = s.ClientURL()
	c := must.Get(Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.Ensure(t.Context()))
	p := c.NewPublisher(4)
	for i, size := range []int{10, 18 << 20, 10} {
		must.Do(t, p.Publish(t.Context(), testEvent(i, size)))
	}
	must.Do(t, p.Flush(t.Context()))
	for i, m := range readN(t, t.Context(), openReader(t, t.Context(), c, "a"), 3) {
		if m.Seq != uint64(i+1) || i == 1 && len(m.Event.Body) != 18<<20 {
			t.Errorf("message %d: seq %d, %d bytes", i, m.Seq, len(m.Event.Body))
		}
	}
}
