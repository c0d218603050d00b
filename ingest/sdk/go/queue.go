package llmtap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// itemOverhead is the approximate memory of an event without its body, in bytes.
const itemOverhead = 1 << 10

// Bounds on unacknowledged messages.
const (
	maxInFlight      = 256
	maxInFlightBytes = 8 << 20
)

// An itemState is the state of an item.
type itemState uint8

const (
	removed  itemState = iota // new, dropped or stored
	queued                    // in the queue; may be dropped
	inFlight                  // published, not acknowledged; owned by the sender
)

// An item is an event to publish.
type item struct {
	ev    *event.Event
	pair  *pair // nil for run and tool events
	size  int64 // memory, in bytes
	state itemState

	prepared bool   // the body is in its published form
	frame    uint64 // number of the frame in which it was sent; 0 if it was not

	// Only of the first item of a frame in flight: the items, and the pending acknowledgements of their messages.
	items []*item
	acks  []jetstream.PubAckFuture
}

// A pair is the request and the response of one exchange in the queue. The queue's mutex guards it.
type pair struct {
	dialect wire.Dialect // dialect of the bodies; immutable

	items   [2]*item // request, response, once pushed
	stored  int
	dropped bool
}

// A queue is a FIFO of the events to publish in bounded memory. Calls add events and the sender removes them; neither
// waits for the other. When the memory is full, the queue drops both events of the oldest exchange that is not in
// flight.
type queue struct {
	limit int64
	wake  chan struct{} // contains a token if there may be something to send; never closed

	mu            sync.Mutex // guards the fields below and every pair
	used          int64
	items         []*item // oldest first: inFlight items in flight, then queued and dropped items
	frames        uint64  // frames sent
	inFlight      int
	inFlightBytes int64
	queuedBytes   int64 // memory that dropping can free
	pending       int   // items that are queued or in flight
	seq           uint64
	published     uint64 // exchanges
	events        uint64
	dropped       uint64 // exchanges
	waiters       []waiter
}

// A waiter is a pending call of flush.
type waiter struct {
	seq  uint64
	done chan struct{} // closed by the queue when every event up to seq is stored or dropped
}

func newQueue(limit int64) *queue { return &queue{limit: limit, wake: make(chan struct{}, 1)} }

// reserve accounts for n more bytes and drops old exchanges to make room. If dropping all of them would not make
// enough room, it returns false and changes nothing. A negative n releases memory.
func (q *queue) reserve(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserveLocked(n)
}

// reserveFree is like reserve, but drops nothing.
func (q *queue) reserveFree(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+n > q.limit {
		return false
	}
	q.used += n
	return true
}

func (q *queue) reserveLocked(n int64) bool {
	if n > 0 && q.used+n-q.queuedBytes > q.limit {
		return false
	}
	q.used += n
	q.makeRoom()
	return true
}

func (q *queue) release(n int64) { q.reserve(-n) }

// push queues ev, which is the request (half is 0) or response (half is 1) of p, or a run or tool event if p is nil.
// The queue takes over the reserved bytes of the body; lost means that there was no memory for it. push assigns the
// sequence number, even to dropped events, so that every loss is a gap.
func (q *queue) push(ev *event.Event, p *pair, half int, reserved int64, lost bool) {
	it := &item{ev: ev, pair: p, size: reserved + itemOverhead}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seq++
	ev.Seq = q.seq
	if p != nil {
		p.items[half] = it
		if lost {
			q.drop(p)
		}
		if p.dropped {
			q.used -= reserved
			return
		}
	}
	q.used += itemOverhead
	it.state = queued
	q.items = append(q.items, it)
	q.queuedBytes += it.size
	q.pending++
	q.makeRoom()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// makeRoom drops the oldest queued exchanges until the memory in use is within the limit.
func (q *queue) makeRoom() {
	for q.used > q.limit && q.inFlight < len(q.items) {
		it := q.items[q.inFlight]
		if it.state == queued && it.pair != nil {
			q.drop(it.pair)
		}
		q.free(it)
		q.remove(q.inFlight)
	}
}

// drop frees the queued events of an exchange and prevents later ones from being queued.
func (q *queue) drop(p *pair) {
	if p.dropped {
		return
	}
	p.dropped = true
	q.dropped++
	for _, it := range p.items {
		if it != nil {
			q.free(it)
		}
	}
}

// free frees the memory of a queued item. The item stays in items until it becomes the oldest queued one.
func (q *queue) free(it *item) {
	if it.state != queued {
		return
	}
	it.state, it.ev.Body = removed, nil
	q.used -= it.size
	q.queuedBytes -= it.size
	q.pending--
}

// remove removes the item at index i, which is at most inFlight, so few items move.
func (q *queue) remove(i int) {
	copy(q.items[1:i+1], q.items[:i])
	q.items[0] = nil
	q.items = q.items[1:]
	q.notifyWaiters()
}

// next marks the oldest queued item as in flight and returns it. It returns nil if no item is queued or if window
// items or maxInFlightBytes are in flight.
func (q *queue) next(window int) *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.inFlight < len(q.items) && q.items[q.inFlight].state == removed {
		q.remove(q.inFlight)
	}
	if q.inFlight == len(q.items) || q.inFlight >= window {
		return nil
	}
	it := q.items[q.inFlight]
	if q.inFlight > 0 && q.inFlightBytes+it.size > maxInFlightBytes {
		return nil
	}
	q.send(it)
	return it
}

// send marks the oldest queued item as in flight.
func (q *queue) send(it *item) {
	it.state = inFlight
	q.inFlight++
	q.inFlightBytes += it.size
	q.queuedBytes -= it.size
	it.ev.Dropped = q.dropped
}

// nextFrame is like next, and also marks the items that follow and may be in the same frame, of limit bytes, as in flight. It returns
// the first item. Items that are sent again are again in one frame, which has the same id.
func (q *queue) nextFrame(window int, limit int64) *item {
	head := q.next(window)
	if head == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	again, size := head.frame, head.size
	head.items = append(head.items[:0], head)
	for q.inFlight < len(q.items) && len(head.items) < event.MaxFrameEvents {
		it := q.items[q.inFlight]
		if it.state == removed {
			q.remove(q.inFlight)
			continue
		}
		if size += it.size; it.frame != again || size > limit || q.inFlightBytes+it.size > maxInFlightBytes || !it.ev.MayFollow(head.ev) {
			break
		}
		q.send(it)
		head.items = append(head.items, it)
	}
	if again == 0 {
		q.frames++
		for _, it := range head.items {
			it.frame = q.frames
		}
	}
	return head
}

// ack removes the oldest item in flight, which is stored. It returns the id of the exchange if the request and the
// response are now stored.
func (q *queue) ack() (exchange string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.removeInFlight(0)
	q.events++
	if it.pair != nil {
		if it.pair.stored++; it.pair.stored == len(it.pair.items) {
			q.published++
			return it.ev.Exchange
		}
	}
	return ""
}

// reject removes an item in flight that NATS will never accept, and drops its exchange.
func (q *queue) reject(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeInFlight(slices.Index(q.items[:q.inFlight], it))
	if it.pair != nil {
		q.drop(it.pair)
	}
}

// removeInFlight removes the item in flight at i.
func (q *queue) removeInFlight(i int) *item {
	it := q.items[i]
	it.state, it.acks, it.items, it.ev.Body = removed, nil, nil, nil
	q.used -= it.size
	q.inFlightBytes -= it.size
	q.pending--
	q.inFlight--
	q.remove(i)
	return it
}

// resize accounts for a new body of n bytes of an item in flight. If there is no room for it, resize returns false
// and changes nothing.
func (q *queue) resize(it *item, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	grown := int64(n) + itemOverhead - it.size
	if !q.reserveLocked(grown) {
		return false
	}
	it.size += grown
	q.inFlightBytes += grown
	return true
}

// requeue queues all items in flight again, in order. JetStream drops the ones that it has stored by their message
// ids.
func (q *queue) requeue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items[:q.inFlight] {
		it.state, it.acks, it.items = queued, nil, nil
		q.queuedBytes += it.size
		if it.pair != nil && it.pair.dropped {
			q.free(it)
		}
	}
	q.inFlight, q.inFlightBytes = 0, 0
}

// oldestInFlight returns the oldest item in flight, or nil if none is in flight.
func (q *queue) oldestInFlight() *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inFlight == 0 {
		return nil
	}
	return q.items[0]
}

// flush waits until all events pushed before the call are stored or dropped.
func (q *queue) flush(ctx context.Context) error {
	q.mu.Lock()
	if q.settled(q.seq) {
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
		return fmt.Errorf("publish %v: %w", q.unsent(), context.Cause(ctx))
	}
}

func (q *queue) notifyWaiters() {
	keep := q.waiters[:0]
	for _, w := range q.waiters {
		if q.settled(w.seq) {
			close(w.done)
		} else {
			keep = append(keep, w)
		}
	}
	q.waiters = keep
}

// settled reports whether every event up to seq is stored or dropped.
func (q *queue) settled(seq uint64) bool { return len(q.items) == 0 || q.items[0].ev.Seq > seq }

// unsent counts the events that are not stored.
type unsent struct {
	exchanges int // of which at least one half is not stored
	steps     int // run and tool events
}

// String returns, for example, "2 exchanges".
func (u unsent) String() string {
	var parts []string
	if u.exchanges == 1 {
		parts = append(parts, "1 exchange")
	} else if u.exchanges > 0 || u.steps == 0 {
		parts = append(parts, fmt.Sprintf("%d exchanges", u.exchanges))
	}
	if u.steps > 0 {
		parts = append(parts, fmt.Sprintf("%d run and tool events", u.steps))
	}
	return strings.Join(parts, " and ")
}

func (q *queue) unsent() (u unsent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items {
		switch {
		case it.state == removed || it.pair != nil && it.pair.dropped || it.ev.Kind == event.Hook:
		case it.pair == nil:
			u.steps++
		case it == it.pair.items[0] || it.pair.items[0].state == removed: // not the second half of a counted exchange
			u.exchanges++
		}
	}
	return u
}

func (q *queue) droppedExchanges() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *queue) stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Published: q.published, Events: q.events, Dropped: q.dropped, Pending: q.pending, Bytes: q.used}
}
