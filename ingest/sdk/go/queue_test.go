package llmtap

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// push queues an event with a body of n bytes, as an exchange does.
func push(q *queue, p *pair, half, n int) {
	ok := q.reserve(int64(n))
	ev := &event.Event{Body: make([]byte, n)}
	if !ok {
		n = 0
	}
	q.push(ev, p, half, int64(n), !ok)
}

func wantStats(t *testing.T, q *queue, want Stats) {
	t.Helper()
	must.Equal(t, q.stats(), want, "stats")
}

func TestQueueDropsBothHalves(t *testing.T) {
	const body = 10 << 10
	const size = body + itemOverhead
	q := newQueue(4 * size)
	xs := make([]*pair, 4)
	for i := range xs {
		xs[i] = new(pair)
	}
	push(q, xs[0], 0, body)
	push(q, xs[1], 0, body)
	push(q, xs[0], 1, body)
	push(q, xs[1], 1, body)
	wantStats(t, q, Stats{Pending: 4, Bytes: 4 * size})
	// The fifth item exceeds the limit: both halves of exchange 0 are dropped.
	push(q, xs[2], 0, body)
	wantStats(t, q, Stats{Pending: 3, Dropped: 1, Bytes: 3 * size})
	var seqs []uint64
	for it := q.next(maxInFlight); it != nil; it = q.next(maxInFlight) {
		seqs = append(seqs, it.ev.Seq)
		must.Equal(t, it.ev.Dropped, 1, "dropped exchanges of seq %d", it.ev.Seq)
	}
	if len(seqs) != 3 || seqs[0] != 2 || seqs[1] != 4 || seqs[2] != 5 {
		t.Errorf("in flight: %v, want [2 4 5]", seqs)
	}
	// Items in flight are not dropped; the new ones are.
	push(q, xs[2], 1, body)
	push(q, xs[3], 0, body)
	push(q, xs[3], 1, body)
	wantStats(t, q, Stats{Pending: 3, Dropped: 3, Bytes: 3 * size})
	q.ack()
	q.ack()
	wantStats(t, q, Stats{Pending: 1, Published: 1, Events: 2, Dropped: 3, Bytes: size})
	// The request of a dropped exchange is not resent.
	q.requeue()
	if it := q.next(maxInFlight); it != nil {
		t.Errorf("seq %d is resent", it.ev.Seq)
	}
	wantStats(t, q, Stats{Published: 1, Events: 2, Dropped: 3})
	// A body larger than the limit.
	push(q, new(pair), 0, 5*size)
	wantStats(t, q, Stats{Published: 1, Events: 2, Dropped: 4})
}

func TestQueueRequeues(t *testing.T) {
	q := newQueue(1 << 20)
	for range 3 {
		x := new(pair)
		push(q, x, 0, 1)
		push(q, x, 1, 1)
	}
	q.next(maxInFlight).acks = make([]jetstream.PubAckFuture, 1)
	q.next(maxInFlight)
	q.ack()
	q.requeue()
	for want := uint64(2); want <= 6; want++ {
		it := q.next(maxInFlight)
		if it == nil || it.ev.Seq != want || it.acks != nil {
			t.Fatalf("got %+v, want seq %d", it, want)
		}
	}
	q.reject(q.items[0]) // 2: response of the first exchange
	q.reject(q.items[0]) // 3
	wantStats(t, q, Stats{Pending: 3, Events: 1, Dropped: 2, Bytes: 3 * (itemOverhead + 1)})
	done := make(chan error)
	go func() { done <- q.flush(context.Background()) }()
	for range 3 {
		q.ack()
	}
	must.Do(t, <-done)
	wantStats(t, q, Stats{Published: 1, Events: 4, Dropped: 2})
}
