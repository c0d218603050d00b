package jetstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestWithLease(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	a, ctx := n.connect(t)
	b, _ := n.connect(t)
	const ttl = time.Second
	events := make(chan string, 10)
	start := func(ctx context.Context, c *Conn, owner string) (stop func() error) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			done <- c.WithLease(ctx, "x", owner, ttl, func(ctx context.Context, _ *Term) error {
				events <- owner + " starts"
				<-ctx.Done()
				events <- owner + " ends"
				return nil
			})
		}()
		return func() error { cancel(); return <-done }
	}
	want := func(s string) {
		t.Helper()
		select {
		case got := <-events:
			if got != s {
				t.Fatalf("%q, want %q", got, s)
			}
		case <-ctx.Done():
			t.Fatalf("timeout waiting for %q", s)
		}
	}
	stopA := start(ctx, a, "a")
	want("a starts")
	stopB := start(ctx, b, "b")
	if err := stopA(); err != nil { // releases the lease
		t.Error(err)
	}
	want("a ends")
	want("b starts")
	stopA = start(ctx, a, "a")
	b.nc.Close() // simulates the death of b
	want("b ends")
	want("a starts")
	must.Do(t, stopA())
	want("a ends")
	if err := stopB(); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
	broken := errors.New("broken")
	must.Is(t, a.WithLease(ctx, "y", "a", ttl, func(context.Context, *Term) error { return broken }), broken)
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	now := time.Now()
	c.now = func() time.Time { return now }
	f := func(owner string, want int) {
		t.Helper()
		must.Equal(t, must.Get(c.Heartbeat(ctx, owner, time.Minute))(t), want, "live")
	}
	f("a", 1)
	f("b", 2)
	f("b", 2)
	now = now.Add(40 * time.Second)
	f("b", 2)
	now = now.Add(40 * time.Second)
	f("b", 1) // the heartbeat of a has expired
	f("c", 2)
	must.Do(t, c.Deregister(ctx, "b"))
	f("c", 1)
	kv := must.Get(c.KV(ctx, event.BucketCheckpoint))(t)
	must.Do(t, kv.Put(ctx, membersKey, []byte("{")))
	f("c", 1)
}
