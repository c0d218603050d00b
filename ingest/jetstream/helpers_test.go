package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("LLMTAP_TEST_LOG") != "" {
		slog.SetLogLoggerLevel(slog.LevelDebug)
	} else {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	slowtest.Waits()
	goleak.VerifyTestMain(m)
}

// testNATS is a NATS server that a test can restart on the same directory and port.
type testNATS struct {
	t   testing.TB
	cfg natsserver.Config
	s   *natsserver.Server
}

func startNATS(t testing.TB) *testNATS {
	t.Helper()
	n := &testNATS{t: t, cfg: natsserver.Default()}
	n.cfg.AllowAll = true
	n.cfg.Dir, n.cfg.Port = t.TempDir(), testnet.FreePort(t)
	n.start()
	t.Cleanup(func() { n.s.Shutdown() })
	return n
}

func (n *testNATS) start() {
	n.t.Helper()
	s := must.Get(natsserver.Start(n.t.Context(), n.cfg))(n.t)
	n.s = s
	if u, err := url.Parse(s.URL()); err != nil || u.Port() != strconv.Itoa(n.cfg.Port) {
		n.t.Fatalf("server listens at %s, want port %d", s.URL(), n.cfg.Port)
	}
}

func (n *testNATS) restart() {
	n.t.Helper()
	n.s.Shutdown()
	n.start()
}

// connect returns a connection with streams and buckets, and a context that ends with the test or after one minute.
func (n *testNATS) connect(t testing.TB) (*Conn, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cfg := Default()
	cfg.URL = n.s.URL()
	c := must.Get(Connect(ctx, cfg, nil, prometheus.NewRegistry()))(t)
	t.Cleanup(func() { c.Close(); cancel() })
	must.Do(t, c.Ensure(ctx))
	return c, ctx
}

// testEvent returns event number i with a body of size bytes.
func testEvent(i, size int) *event.Event {
	body := make([]byte, size)
	copy(body, strconv.Itoa(i))
	return &event.Event{
		Kind: event.Request, Exchange: fmt.Sprintf("x%06d", i), Time: time.Date(2026, 11, 21, 3, 4, 5, i, time.UTC),
		Labels: event.Labels{Service: "checkout", Stage: "规划器", Conversation: "c1"},
		Part:   1, Parts: 1, BodyBytes: size, Body: body,
	}
}

// publish publishes the events from..to-1, each alone, and waits for their acknowledgements.
func publish(t testing.TB, ctx context.Context, c *Conn, from, to int) {
	t.Helper()
	p := c.NewPublisher(0)
	p.alone = true
	for i := from; i < to; i++ {
		must.Do(t, p.Publish(ctx, testEvent(i, 100)))
	}
	must.Do(t, p.Flush(ctx))
}

func openReader(t testing.TB, ctx context.Context, c *Conn, owner string) *Reader {
	t.Helper()
	r := must.Get(c.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: owner}))(t)
	t.Cleanup(func() { r.stop(); r.done.Wait() })
	return r
}

// readN returns the next n messages.
func readN(t testing.TB, ctx context.Context, r *Reader, n int) []Message {
	t.Helper()
	var all []Message
	for len(all) < n {
		msgs, err := r.Next(ctx, n-len(all), time.Second)
		must.Do(t, err, "after", len(all), "of", n, "messages")
		all = append(all, msgs...)
	}
	return all
}

// expectNone fails if there is another message.
func expectNone(t testing.TB, ctx context.Context, r *Reader) {
	t.Helper()
	if msgs, err := r.Next(ctx, 10, 50*time.Millisecond); err != nil || len(msgs) > 0 {
		t.Fatalf("got %+v, %v; want no message", msgs, err)
	}
}
