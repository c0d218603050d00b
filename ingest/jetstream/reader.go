package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds of what a reader holds ready for Next, beside one pull request on its way.
const (
	readyMessages = 2000
	readyBytes    = 32 << 20
)

// ReaderConfig says what to read and as whom.
type ReaderConfig struct {
	Partition, Partitions int // p of N; only 0 of 1 so far

	// Owner names this process among those that may read the partition. A process that starts again under the same
	// name takes its own lease back at once, so a name that stays must be guarded by something else (a locked
	// directory).
	Owner    string
	LeaseTTL time.Duration // after it, a dead owner's partition is taken over; 0: 15 s
}

// A Message is one message of the stream.
type Message struct {
	Seq    uint64
	Time   time.Time    // the stream's timestamp
	Event  *event.Event // nil when undecodable
	Err    error        // why it is undecodable; it wraps event.ErrMalformed
	Replay bool         // its effects are stored already; it is here to rebuild state
}

// A Reader reads one partition of the stream of events in order and keeps its checkpoint. Next and Commit are for one
// goroutine; the other methods for any.
type Reader struct {
	c      *Conn
	lease  *lease
	stored uint64 // when the reader was opened: up to it everything is a replay
	epoch  uint64
	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once

	seen  uint64        // the follower's: newest sequence taken
	ready chan struct{} // cap 1: something to look at for Next
	room  chan struct{} // cap 1: Next took something

	mu       sync.Mutex // guards the rest
	buf      []Message  // decoded, not yet returned by Next
	bytes    int        // of the bodies in buf
	behind   uint64     // messages in the stream after the last of buf, when that was delivered
	attached bool
	cp       checkpoint // as last written
	given    uint64     // newest sequence returned by Next
	lost     uint64
	err      error // why the reader is over
}

// OpenReader takes the partition's lease and starts to read at its checkpoint, or at the start of the stream when there
// is none. While another process holds the lease it returns a *LeaseHeldError.
func (c *Conn) OpenReader(ctx context.Context, cfg ReaderConfig) (*Reader, error) {
	switch {
	case cfg.Partition != 0 || cfg.Partitions != 1:
		return nil, fmt.Errorf("open partition %d of %d: only 0 of 1 is supported", cfg.Partition, cfg.Partitions)
	case cfg.Owner == "":
		return nil, errors.New("open reader: owner is empty")
	}
	if cfg.LeaseTTL <= 0 {
		cfg.LeaseTTL = 15 * time.Second
	}
	s, err := c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", event.StreamEvents, err)
	}
	kv, err := c.KV(ctx, event.BucketProgress)
	if err != nil {
		return nil, err
	}
	info, lost := s.CachedInfo(), uint64(0)
	key := fmt.Sprintf("p%dof%d", cfg.Partition, cfg.Partitions)
	l, err := c.takeLease(ctx, kv, key, cfg.Owner, cfg.LeaseTTL, func(cp *checkpoint) {
		lost = c.fit(cp, info.Created, info.State.FirstSeq, info.State.LastSeq)
	})
	if err != nil {
		return nil, err
	}
	r := &Reader{
		c: c, lease: l, stored: l.cp.Stored, epoch: l.cp.Epoch, cp: l.cp, seen: l.cp.ReplayFrom - 1, given: l.cp.ReplayFrom - 1,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	r.countLost(lost)
	r.start(info.Created) //nolint:contextcheck // the reader lasts until Close; ctx bounds the opening
	return r, nil
}

// fit makes cp agree with the stream: its ReplayFrom is at least first, its Stored at least first-1. It returns how many
// messages after Stored the stream no longer has.
func (c *Conn) fit(cp *checkpoint, created time.Time, first, last uint64) (lost uint64) {
	first = max(first, 1)
	switch {
	case cp.Stream.IsZero():
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case !cp.Stream.Equal(created):
		c.log.Error("the stream of events was made anew; reading it from its start", "stored", cp.Stored, "first", first)
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case cp.Stored > last:
		c.log.Error("the stream of events ends before the checkpoint: its server lost what was not on its disk", "stored", cp.Stored, "last", last)
		cp.Stored = last
	case cp.Stored+1 < first:
		lost = first - 1 - cp.Stored
		cp.Stored = first - 1
	}
	cp.Stream = created
	cp.ReplayFrom = min(max(cp.ReplayFrom, first), cp.Stored+1)
	return lost
}

// start starts the two goroutines of the reader: one reads the stream, one renews the lease.
func (r *Reader) start(created time.Time) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	f := &follower{
		c: r.c, stream: event.StreamEvents, last: r.seen, created: created,
		attached: func(pending uint64) { r.setAttached(true, pending) },
		detached: func() { r.setAttached(false, 0) },
	}
	r.done.Go(func() {
		if err := f.run(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error { return r.take(ctx, m, meta) }); ctx.Err() == nil {
			r.fail(err)
		}
	})
	r.done.Go(func() {
		if err := r.lease.renew(ctx); ctx.Err() == nil {
			r.fail(err)
		}
	})
}

func (r *Reader) setAttached(on bool, behind uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached = on; on {
		r.behind = behind
	}
}

// fail ends the reader: Next returns err once what was read before is taken.
func (r *Reader) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	signal(r.ready)
}

// signal wakes the one who waits on ch, or the next who will.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// take decodes m and puts it where Next finds it, waiting while enough is there.
func (r *Reader) take(ctx context.Context, m *nats.Msg, meta *nats.MsgMetadata) error {
	seq := meta.Sequence.Stream
	if from := max(r.seen, r.stored); seq > from+1 {
		r.countLost(seq - from - 1)
	}
	r.seen = seq
	msg := Message{Seq: seq, Time: meta.Timestamp.UTC(), Replay: seq <= r.stored}
	msg.Event, msg.Err = event.Decode(m.Subject, event.Header(m.Header), m.Data)
	if msg.Err != nil && !msg.Replay {
		r.c.deadLetter(ctx, m, seq, msg.Err)
	}
	size := 0 // the body of an undecodable message is not kept
	if msg.Event != nil {
		size = len(msg.Event.Body)
	}
	for {
		r.mu.Lock()
		if len(r.buf) == 0 || len(r.buf) < readyMessages && r.bytes+size <= readyBytes {
			break
		}
		r.mu.Unlock()
		select {
		case <-r.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.buf = append(r.buf, msg)
	r.bytes += size
	r.behind = meta.NumPending
	first := len(r.buf) == 1
	r.mu.Unlock()
	if first {
		signal(r.ready)
	}
	r.c.m.out.Inc()
	r.c.m.outBytes.Add(float64(len(m.Data)))
	return nil
}

func (r *Reader) countLost(n uint64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	r.lost += n
	r.mu.Unlock()
	r.c.m.dropped.WithLabelValues(reasonLost).Add(float64(n))
	r.c.log.Error("events left the stream before they were read; raise max_bytes or max_age", "events", n)
}

// Next returns the next messages in order, at most limit, and an empty slice when none came within wait. While NATS is
// away it returns empty slices, and goes on afterwards where it was. An error is final: ctx's, ErrLeaseLost, or that the
// stream was replaced or the connection closed; then a new reader must be opened.
func (r *Reader) Next(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	idle := time.NewTimer(wait)
	defer idle.Stop()
	for {
		if msgs, err := r.taken(limit); len(msgs) > 0 || err != nil {
			return msgs, err
		}
		select {
		case <-r.ready:
		case <-idle.C:
			return r.taken(limit)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// taken takes what is there.
func (r *Reader) taken(limit int) ([]Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.err, ErrLeaseLost) || len(r.buf) == 0 && r.err != nil {
		return nil, r.err
	}
	n := min(limit, len(r.buf))
	if n == 0 {
		r.c.m.lag.Set(float64(r.pending()))
		return nil, nil
	}
	msgs := r.buf[:n:n]
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil // msgs has the array now
	}
	for i := range msgs {
		if e := msgs[i].Event; e != nil {
			r.bytes -= len(e.Body)
		}
	}
	r.given = msgs[n-1].Seq
	r.c.m.lag.Set(float64(r.pending()))
	r.c.m.lagSeconds.Set(r.c.now().Sub(msgs[n-1].Time).Seconds())
	signal(r.room)
	return msgs, nil
}

// Pending is the number of messages in the stream after the last one returned by Next. 0 means caught up: while NATS is
// away it is at least 1, because nobody knows.
func (r *Reader) Pending() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending()
}

func (r *Reader) pending() uint64 {
	n := uint64(len(r.buf)) + r.behind
	if n == 0 && (!r.attached || !r.c.nc.IsConnected()) {
		return 1
	}
	return n
}

// Stored is the sequence up to which every effect is stored, as of the last Commit.
func (r *Reader) Stored() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cp.Stored
}

// Epoch is the number of this reader's lease: higher than of every reader of the partition before.
func (r *Reader) Epoch() uint64 { return r.epoch }

// Lost is the number of messages that were gone from the stream before this reader came to them.
func (r *Reader) Lost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Commit writes the checkpoint and renews the lease. Every effect of every sequence up to stored must be stored, and
// replayFrom is the oldest sequence that live state still needs; 0 means that none is needed. It waits for a NATS that
// is away until ctx ends, and returns ErrLeaseLost when another process took the partition over.
func (r *Reader) Commit(ctx context.Context, stored, replayFrom uint64) error {
	begun := time.Now()
	r.mu.Lock()
	from, to := r.cp.Stored, max(r.given, r.stored)
	r.mu.Unlock()
	if stored < from || stored > to {
		return fmt.Errorf("commit %d: it is not between the checkpoint %d and the last message read %d", stored, from, to)
	}
	if replayFrom == 0 {
		replayFrom = stored + 1
	}
	if replayFrom > stored+1 {
		return fmt.Errorf("commit %d: a replay from %d would leave out events", stored, replayFrom)
	}
	var cp checkpoint
	err := r.lease.write(ctx, func(next *checkpoint) {
		next.Stored, next.ReplayFrom = stored, replayFrom
		cp = *next
	})
	if err != nil {
		if errors.Is(err, ErrLeaseLost) {
			r.fail(err)
		}
		return err
	}
	r.mu.Lock()
	r.cp = cp
	r.mu.Unlock()
	r.c.m.commit.Observe(time.Since(begun).Seconds())
	return nil
}

// Close stops reading and gives the lease back, so that the next reader starts at once. What was not committed is read
// again by that one.
func (r *Reader) Close(ctx context.Context) error {
	var err error
	r.closed.Do(func() {
		r.stop()
		r.done.Wait()
		r.fail(errors.New("the reader is closed"))
		if err = r.lease.release(ctx); errors.Is(err, ErrLeaseLost) {
			err = nil // someone else has it
		}
	})
	return err
}
