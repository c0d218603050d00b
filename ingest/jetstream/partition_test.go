package jetstream

import (
	"context"
	"fmt"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// publishConversations publishes the events from..to-1, each with its own conversation.
func publishConversations(t testing.TB, ctx context.Context, c *Conn, from, to int) {
	t.Helper()
	p := c.NewPublisher(0)
	p.alone = true
	for i := from; i < to; i++ {
		e := testEvent(i, 100)
		e.Labels.Conversation = fmt.Sprint("c", i)
		must.Do(t, p.Publish(ctx, e))
	}
	must.Do(t, p.Flush(ctx))
}

func openPartition(t testing.TB, ctx context.Context, c *Conn, p, n int) *Reader {
	t.Helper()
	r := must.Get(c.OpenReader(ctx, ReaderConfig{Partition: p, Partitions: n, Owner: "a"}))(t)
	t.Cleanup(func() { r.stop(); r.done.Wait() })
	return r
}

// Every valid subject belongs to exactly one partition.
func TestPartitionSubjects(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 4, 256} {
		owner := map[string]int{}
		var total uint64
		for p := range n {
			cfg := ReaderConfig{Partition: p, Partitions: n}
			total += cfg.share(1000)
			for _, s := range cfg.subjects() {
				if _, twice := owner[s]; twice {
					t.Errorf("n=%d: %s belongs to two partitions", n, s)
				}
				owner[s] = p
			}
		}
		for shard := range 256 {
			for _, f := range []string{"%02x", "%02X"} {
				if p, ok := owner["llmtap.v1.*.*."+fmt.Sprintf(f, shard)]; !ok || p != shard%n {
					t.Errorf("n=%d: shard %d is read by partition %d, %v", n, shard, p, ok)
				}
			}
		}
		must.Equal(t, total, 1000, "n=%d: the shares of 1000 events add up to", n)
	}
}

func TestPartitionsReadEverythingOnce(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	repartition(t, ctx, c, 3)
	publishConversations(t, ctx, c, 0, 300)
	for _, subject := range []string{"llmtap.v1.odd", "llmtap.v1.odd.one", "llmtap.v1.request.s.00.more"} {
		must.Get(c.js.Publish(ctx, subject, nil))(t)
	}
	seen := map[uint64]bool{}
	for p := range 3 {
		r, last := openPartition(t, ctx, c, p, 3), uint64(0)
		var until time.Time
		for ok := false; !ok; until, ok = r.CaughtUp(ctx) {
			msgs := must.Get(r.Next(ctx, 50, 20*time.Millisecond))(t)
			for _, m := range msgs {
				if seen[m.Seq] || m.Seq <= last || m.Event != nil && int(m.Event.Shard())%3 != p {
					t.Fatalf("partition %d got %+v after %d", p, m, last)
				}
				seen[m.Seq], last = true, m.Seq
			}
		}
		if d := time.Since(until); d < 0 || d > time.Minute {
			t.Errorf("caught up at %v", until)
		}
		if r.Pending() != 0 || r.Lost() != 0 {
			t.Errorf("partition %d: %d pending, %d lost", p, r.Pending(), r.Lost())
		}
		must.Do(t, r.Close(ctx))
	}
	must.Equal(t, len(seen), 303, "messages read")
}

// A message larger than a partition's share of a pull is delivered.
func TestLargeMessageInPartition(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	repartition(t, ctx, c, 64)
	e := testEvent(1, 900_000)
	if max(pullBytes/64, minPullBytes) > len(e.Body) {
		t.Fatal("the message is too small for this test")
	}
	p := c.NewPublisher(0)
	p.alone = true
	for i := range 3 {
		e.Exchange = fmt.Sprint("x", i)
		must.Do(t, p.Publish(ctx, e))
	}
	must.Do(t, p.Flush(ctx))
	readN(t, ctx, openPartition(t, ctx, c, int(e.Shard())%64, 64), 3)
}

// Partitions count the events dropped by the stream together; an idle partition loses nothing.
func TestPartitionsLost(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	repartition(t, ctx, c, 2)
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	publish(t, ctx, c, 0, 50) // all of one conversation
	busy := int(testEvent(0, 0).Shard()) % 2
	r := openPartition(t, ctx, c, busy, 2)
	idle := openPartition(t, ctx, c, 1-busy, 2)
	readN(t, ctx, r, 50)
	for _, ok := idle.CaughtUp(ctx); !ok; _, ok = idle.CaughtUp(ctx) {
		expectNone(t, ctx, idle)
	}
	for p, stored := range map[*Reader]uint64{r: 50, idle: 0} {
		must.Do(t, p.Commit(ctx, stored, 0))
		must.Do(t, p.Close(ctx))
	}
	if err := s.Purge(ctx, natsjs.WithPurgeSequence(41)); err != nil { // drops 40 events that were read
		t.Fatal(err)
	}
	f := func(want uint64) {
		t.Helper()
		r, idle := openPartition(t, ctx, c, busy, 2), openPartition(t, ctx, c, 1-busy, 2)
		must.Equal(t, r.Lost()+idle.Lost(), want, "lost")
		for _, r := range []*Reader{r, idle} {
			must.Do(t, r.Close(ctx))
		}
	}
	f(0)
	publish(t, ctx, c, 50, 101)
	if err := s.Purge(ctx, natsjs.WithPurgeSequence(92)); err != nil { // drops 41 unread events
		t.Fatal(err)
	}
	f(41)
}

// A reader with a backlog counts the events that are dropped before it reads them.
func TestPartitionLostWhileReading(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	repartition(t, ctx, c, 2)
	publishConversations(t, ctx, c, 0, 10_000)
	var readers []*Reader
	for p := range 2 {
		r := openPartition(t, ctx, c, p, 2)
		readN(t, ctx, r, 1)
		readers = append(readers, r)
	}
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	must.Do(t, s.Purge(ctx, natsjs.WithPurgeSequence(9_001)))
	var lost uint64
	got := 2
	for _, r := range readers {
		for _, ok := r.CaughtUp(ctx); !ok; _, ok = r.CaughtUp(ctx) {
			msgs := must.Get(r.Next(ctx, 1000, 20*time.Millisecond))(t)
			got += len(msgs)
		}
		lost += r.Lost()
	}
	if sum := int(lost) + got; lost == 0 || sum < 8_000 || sum > 12_000 { // the share of each partition is an estimate
		t.Errorf("%d read and %d lost of 10000", got, lost)
	}
}
