package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// A Message is one message of the stream.
type Message struct {
	Seq    uint64
	Time   time.Time    // the stream's timestamp
	Event  *event.Event // nil when undecodable
	Err    error        // why it is undecodable; it wraps event.ErrMalformed
	Replay bool         // its effects are stored already; it is here to rebuild state
}

// A Reader reads one partition of the stream of events in order and keeps its checkpoint. Next and CaughtUp are for one
// goroutine; the other methods for any.
type Reader struct {
	c       *Conn
	cfg     ReaderConfig
	label   string // of metrics: the partition
	lease   *lease
	stored  uint64 // when the reader was opened: up to it everything is a replay
	epoch   uint64
	tallied int64
	created time.Time // of the stream
	last    uint64    // of the stream, when the reader was opened
	follow  *follower
	stop    context.CancelFunc
	done    sync.WaitGroup
	closed  sync.Once
	looked  time.Time // CaughtUp's: when it last noted what is clear

	seen  uint64        // the follower's: newest sequence taken
	left  uint64        // the follower's: how many were left to deliver then, if known; else 0
	ready chan struct{} // cap 1: something to look at for Next
	room  chan struct{} // cap 1: Next took something

	mu       sync.Mutex // guards the rest
	buf      []Message  // decoded, not yet returned by Next
	bytes    int        // of the bodies in buf
	behind   uint64     // messages in the stream after the last of buf, when that was delivered
	attached bool
	cp       checkpoint // as last written
	given    uint64     // newest sequence returned by Next
	clear    uint64     // up to it, nothing of the partition is left to read
	counted  uint64     // up to it, losses are counted
	ends     bool       // at until
	until    uint64
	lost     uint64
	err      error // why the reader is over
}

// start starts the two goroutines of the reader: one reads the stream, one renews the lease.
func (r *Reader) start(created time.Time) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.follow = &follower{
		c: r.c, stream: event.StreamEvents, last: r.seen, created: created, subjects: r.cfg.subjects(), share: r.cfg.Partitions,
		attached: func(pending uint64) { r.setAttached(true, pending) },
		detached: func() { r.setAttached(false, 0) },
	}
	if r.cfg.Partitions > 1 {
		r.follow.asking = r.countGone
	}
	r.done.Go(func() {
		if err := r.follow.run(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error { return r.take(ctx, m, meta) }); ctx.Err() == nil {
			r.fail(err)
		}
	})
	r.done.Go(func() {
		if err := r.lease.renew(ctx, r.noteClear); ctx.Err() == nil {
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
	r.countHole(seq, meta.NumPending)
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
		if len(r.buf) == 0 || len(r.buf) < readyMessages/r.cfg.Partitions && r.bytes+size <= readyBytes/r.cfg.Partitions {
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
	r.c.m.received.Inc()
	r.c.m.receivedBytes.Add(float64(len(m.Data)))
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
// stream was replaced or the connection closed; then a new reader must be opened. A reader of a Cut ends with io.EOF.
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
			r.lookForEnd(ctx)
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
	if r.ends {
		for n = 0; n < min(limit, len(r.buf)) && r.buf[n].Seq <= r.until; n++ {
		}
		if n == 0 && (len(r.buf) > 0 || r.given >= r.until) {
			r.given = r.until
			return nil, io.EOF
		}
	}
	if n == 0 {
		r.c.m.lagEvents.WithLabelValues(r.label).Set(float64(r.pending()))
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
	r.c.m.lagEvents.WithLabelValues(r.label).Set(float64(r.pending()))
	r.c.m.lagSeconds.WithLabelValues(r.label).Set(r.c.now().Sub(msgs[n-1].Time).Seconds())
	signal(r.room)
	return msgs, nil
}

// Pending is the number of the partition's messages in the stream after the last one returned by Next. While NATS is
// away it is at least 1, because nobody knows. 0 means caught up as far as the reader has heard; CaughtUp asks.
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

// Tallied is the second up to which, when this reader was opened, the partition's tallies were published.
func (r *Reader) LastTally() int64 { return r.tallied }

// Stream is what the sequences belong to: when the stream was created, and its last sequence when this reader was opened.
func (r *Reader) Stream() (created time.Time, last uint64) { return r.created, r.last }

// Lost is the number of messages that were gone from the stream before this reader came to them. Nobody knows the shard of
// what is gone: with N partitions each counts an Nth.
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
		r.noteClear(next)
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
	r.c.m.commitSeconds.Observe(time.Since(begun).Seconds())
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
		r.c.m.lagEvents.DeleteLabelValues(r.label)
		r.c.m.lagSeconds.DeleteLabelValues(r.label)
		if err = r.lease.release(ctx); errors.Is(err, ErrLeaseLost) {
			err = nil // someone else has it
		}
	})
	return err
}
