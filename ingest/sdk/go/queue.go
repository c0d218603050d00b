package llmtap

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// itemOverhead is what an event costs in memory beside its body, roughly, in bytes.
const itemOverhead = 1 << 10

// Bounds on what is published and not yet acknowledged.
const (
	maxInFlight      = 256
	maxInFlightBytes = 8 << 20
)

// An itemState says where an item is.
type itemState uint8

const (
	out     itemState = iota // not queued: new, dropped or acknowledged
	waiting                  // in the FIFO; may be dropped
	flying                   // published, not acknowledged; the sender's
)

// An item is one event on its way to NATS.
type item struct {
	ev    *event.Event
	x     *ticket // nil for run and tool events
	size  int64   // memory, in bytes
	state itemState

	prepared bool                     // the body is as it will be published
	acks     []jetstream.PubAckFuture // of a flying item, one per part
}

// A ticket is one exchange as the queue sees it; the queue's mutex guards it.
type ticket struct {
	dialect wire.Dialect // of its bodies; never changes

	items   [2]*item // request, response, once they were put
	acked   int
	dropped bool
}

// A queue holds what is to be published: one FIFO in bounded memory. Calls put, the sender takes; nobody waits for
// anybody. When the memory is used up, the oldest exchange that is not in flight is dropped whole.
type queue struct {
	limit int64
	wake  chan struct{} // holds a token when there may be something to send; never closed

	mu          sync.Mutex // guards all below and every ticket
	used        int64
	items       []*item // oldest first: inFlight flying ones, then waiting ones and the gaps that drops left
	inFlight    int
	flyingBytes int64
	waitBytes   int64 // of waiting items: what dropping can free
	live        int   // waiting and flying items
	seq         uint64
	published   uint64 // exchanges
	events      uint64
	dropped     uint64 // exchanges
	waiters     []waiter
}

// A waiter wants to know when every event up to seq is published or dropped.
type waiter struct {
	seq  uint64
	done chan struct{} // closed by the queue
}

func newQueue(limit int64) *queue { return &queue{limit: limit, wake: make(chan struct{}, 1)} }

// reserve accounts for n more bytes and drops old exchanges to make room. It is false, and nothing is accounted, when
// there is no room even so. A negative n gives memory back.
func (q *queue) reserve(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserveLocked(n)
}

// spare is reserve for memory that nobody needs: nothing is dropped for it.
func (q *queue) spare(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+n > q.limit {
		return false
	}
	q.used += n
	return true
}

func (q *queue) reserveLocked(n int64) bool {
	if n > 0 && q.used+n-q.waitBytes > q.limit {
		return false // dropping all of it would not help
	}
	q.used += n
	q.makeRoom()
	return true
}

func (q *queue) release(n int64) { q.reserve(-n) }

// put queues ev, the half-th event of exchange x, or of no exchange when x is nil. The body's reserved bytes become the
// queue's; lost says that there was no memory for it. Every event gets its sequence number here, dropped or not, so
// that every loss is a gap.
func (q *queue) put(ev *event.Event, x *ticket, half int, reserved int64, lost bool) {
	it := &item{ev: ev, x: x, size: reserved + itemOverhead}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seq++
	ev.Seq = q.seq
	if x != nil {
		x.items[half] = it
		if lost {
			q.drop(x)
		}
		if x.dropped {
			q.used -= reserved
			return
		}
	}
	q.used += itemOverhead
	it.state = waiting
	q.items = append(q.items, it)
	q.waitBytes += it.size
	q.live++
	q.makeRoom()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// makeRoom drops the oldest waiting exchanges until the limit is kept.
func (q *queue) makeRoom() {
	for q.used > q.limit && q.inFlight < len(q.items) {
		q.discard(q.items[q.inFlight])
		q.remove(q.inFlight)
	}
}

// discard drops the exchange of a waiting item, or the item alone if it belongs to none.
func (q *queue) discard(it *item) {
	if it.state == waiting && it.x != nil {
		q.drop(it.x)
	}
	q.kill(it)
}

// drop gives up an exchange: what of it waits is freed, what of it comes later is not queued.
func (q *queue) drop(x *ticket) {
	if x.dropped {
		return
	}
	x.dropped = true
	q.dropped++
	for _, it := range x.items {
		if it != nil {
			q.kill(it)
		}
	}
}

// kill frees a waiting item. Its place in the FIFO goes when it is reached.
func (q *queue) kill(it *item) {
	if it.state != waiting {
		return
	}
	it.state, it.ev.Body = out, nil
	q.used -= it.size
	q.waitBytes -= it.size
	q.live--
}

// remove takes the item at i out of the FIFO; i is at most inFlight, so that few items move.
func (q *queue) remove(i int) {
	copy(q.items[1:i+1], q.items[:i])
	q.items[0] = nil
	q.items = q.items[1:]
	q.tell()
}

// next takes the oldest waiting item into flight; nil if there is none, or window items are in flight, or enough bytes.
func (q *queue) next(window int) *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.inFlight < len(q.items) && q.items[q.inFlight].state == out {
		q.remove(q.inFlight)
	}
	if q.inFlight == len(q.items) || q.inFlight >= window {
		return nil
	}
	it := q.items[q.inFlight]
	if q.inFlight > 0 && q.flyingBytes+it.size > maxInFlightBytes {
		return nil
	}
	it.state = flying
	q.inFlight++
	q.flyingBytes += it.size
	q.waitBytes -= it.size
	it.ev.Dropped = q.dropped
	return it
}

// acked ends the flight of the oldest flying item: it is stored. When its exchange is stored with it, whole, that one's
// id is returned.
func (q *queue) acked() (exchange string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.land(0)
	q.events++
	if it.x != nil {
		if it.x.acked++; it.x.acked == len(it.x.items) {
			q.published++
			return it.ev.Exchange
		}
	}
	return ""
}

// refused ends the flight of it: NATS will never take it.
func (q *queue) refused(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.land(slices.Index(q.items[:q.inFlight], it))
	if it.x != nil {
		q.drop(it.x)
	}
}

// land ends the flight of the item at i.
func (q *queue) land(i int) *item {
	it := q.items[i]
	it.state, it.acks, it.ev.Body = out, nil, nil
	q.used -= it.size
	q.flyingBytes -= it.size
	q.live--
	q.inFlight--
	q.remove(i)
	return it
}

// resize accounts for the body of a flying item, which is n bytes from now on; false, and nothing is accounted, when
// there is no room for it.
func (q *queue) resize(it *item, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	grown := int64(n) + itemOverhead - it.size
	if !q.reserveLocked(grown) {
		return false
	}
	it.size += grown
	q.flyingBytes += grown
	return true
}

// rewind makes all flying items wait again, to be sent anew in their order. Those that NATS did store are recognised by
// their message ids.
func (q *queue) rewind() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items[:q.inFlight] {
		it.state, it.acks = waiting, nil
		q.waitBytes += it.size
		if it.x != nil && it.x.dropped {
			q.kill(it)
		}
	}
	q.inFlight, q.flyingBytes = 0, 0
}

// head is the oldest flying item, or nil.
func (q *queue) head() *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inFlight == 0 {
		return nil
	}
	return q.items[0]
}

// flush waits until all that was put before is published or dropped.
func (q *queue) flush(ctx context.Context) error {
	q.mu.Lock()
	if q.gone(q.seq) {
		q.mu.Unlock()
		return nil
	}
	w := waiter{q.seq, make(chan struct{})}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("publish %d events: %w", q.snapshot().Pending, context.Cause(ctx))
	}
}

// tell wakes those whose events are all gone.
func (q *queue) tell() {
	keep := q.waiters[:0]
	for _, w := range q.waiters {
		if q.gone(w.seq) {
			close(w.done)
		} else {
			keep = append(keep, w)
		}
	}
	q.waiters = keep
}

func (q *queue) gone(seq uint64) bool { return len(q.items) == 0 || q.items[0].ev.Seq > seq }

func (q *queue) snapshot() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Published: q.published, Events: q.events, Dropped: q.dropped, Pending: q.live, Bytes: q.used}
}
