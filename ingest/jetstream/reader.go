package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Bounds of the messages that a reader buffers for Next, in addition to one pull request in flight. Under load the embedded
// server and the client have a copy of each. With four times as many messages, the heap of a saturated process was so near
// memory.limit that collecting garbage took half of its CPU.
const (
	bufferMessages = 500
	bufferBytes    = 6 << 20
)

// A Message is a message of the event stream, or an event of a frame.
type Message struct {
	Seq    uint64
	Index  int          // in the frame; events of a frame have the same sequence
	Time   time.Time    // stream time, see Clock; in a frame 1 ns later for each event, so that it has the order of the events
	Event  *event.Event // nil if undecodable
	Err    error        // decoding error; it wraps event.ErrMalformed
	Replay bool         // its effects are already stored; it only rebuilds state

	shift time.Duration // of Time
}

// A Reader reads one partition of the event stream in order and maintains its checkpoint. Next and CaughtUp must be
// called from one goroutine; the other methods are safe for concurrent use.
type Reader struct {
	c          *Conn
	cfg        ReaderConfig
	label      string // partition, for metrics
	lease      *lease
	stored     uint64 // stored sequence when the reader was opened; messages up to it are replays
	epoch      uint64
	lastTally  int64
	created    time.Time // creation time of the stream
	last       uint64    // last sequence of the stream when the reader was opened
	follow     *follower
	stop       context.CancelFunc
	stopRenew  context.CancelFunc
	done       sync.WaitGroup
	closed     sync.Once
	detached   atomic.Bool
	caughtUpAt time.Time // last update of caughtUp; used by CaughtUp only

	received      uint64        // last sequence received; used by the follower only
	pendingBefore uint64        // messages pending after received, 0 if unknown; used by the follower only
	ready         chan struct{} // capacity 1: wakes Next
	room          chan struct{} // capacity 1: wakes the follower after Next

	mu            sync.Mutex // guards the fields below
	buf           []Message  // decoded, not yet returned by Next
	bytes         int        // total size of the bodies in buf
	backlog       uint64     // messages that followed the last one of buf when it was delivered
	attached      bool
	cp            checkpoint // last written checkpoint
	returned      uint64     // last sequence returned by Next
	clock         Clock      // of new messages
	positions     []position // last messages of the results of Next that are not committed; at most maxPositions
	caughtUp      uint64     // all messages of the partition up to this sequence are stored
	lossesCounted uint64     // losses up to this sequence are counted
	hasEnd        bool
	end           uint64 // last sequence to return, if hasEnd
	lost          uint64
	err           error // why the reader ended
}

// maxPositions bounds the uncommitted positions that a reader remembers. While the store is down there are many, and no commits.
const maxPositions = 4096

// A position is a sequence of the stream, its timestamp, and the shift of the clock.
type position struct {
	seq   uint64
	at    time.Time
	shift time.Duration
}

// start starts the goroutines of the reader: one reads the stream, one renews the lease.
func (r *Reader) start(created time.Time) {
	ctx, stop := context.WithCancel(context.Background())
	renewing, stopRenew := context.WithCancel(ctx)
	r.stop, r.stopRenew = stop, stopRenew
	r.follow = &follower{
		c: r.c, stream: event.StreamEvents, last: r.received, created: created, subjects: r.cfg.subjects(), share: r.cfg.Partitions,
		name:     r.consumer,
		onAttach: func(pending uint64) { r.setAttached(true, pending) },
		onDetach: func() { r.setAttached(false, 0) },
	}
	if r.cfg.Partitions > 1 {
		r.follow.beforePull = r.countDropped
	}
	r.done.Go(func() {
		err := r.follow.run(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error { return r.receive(ctx, m, meta) })
		if ctx.Err() == nil {
			r.fail(err)
		}
	})
	r.done.Go(func() {
		if err := r.lease.renew(renewing, r.setCaughtUp); renewing.Err() == nil {
			r.fail(err)
		}
	})
}

// consumer returns the name of the consumer of the partition, by which others watch its lag, or "" if another reader has it.
func (r *Reader) consumer() string {
	if r.detached.Load() {
		return ""
	}
	return fmt.Sprintf("llmtap-%d-of-%d", r.cfg.Partition, max(r.cfg.Partitions, 1))
}

// Detach leaves the lease to the next reader that this process opens, without releasing it. r goes on reading, but cannot
// commit, and the other reader reports lag and losses.
func (r *Reader) Detach() {
	r.detached.Store(true)
	r.stopRenew()
}

func (r *Reader) setAttached(on bool, pending uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached = on; on {
		r.backlog = pending
	}
}

// fail ends the reader: Next returns err after the buffered messages.
func (r *Reader) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	wake(r.ready)
}

// wake wakes the current or next receiver of ch.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// receive decodes m and buffers its events for Next. It blocks while the buffer is full.
func (r *Reader) receive(ctx context.Context, m *nats.Msg, meta *nats.MsgMetadata) error {
	seq := meta.Sequence.Stream
	r.countGap(seq, meta.NumPending)
	r.received = seq
	at := meta.Timestamp.UTC()
	msg := Message{Seq: seq, Time: at, Replay: seq <= r.stored}
	if !msg.Replay {
		msg.Time, msg.shift = r.streamTime(at)
	}
	msgs := r.decode(ctx, m, msg)
	if err := r.buffer(ctx, msgs, meta.NumPending); err != nil {
		return err
	}
	r.c.m.received.Add(float64(len(msgs)))
	r.c.m.receivedBytes.Add(float64(len(m.Data)))
	return nil
}

// decode returns the events of m with the position of msg. What it cannot decode becomes dead letters.
func (r *Reader) decode(ctx context.Context, m *nats.Msg, msg Message) (msgs []Message) {
	h, dead := event.Header(m.Header), func(m *nats.Msg, msg *Message) {
		if !msg.Replay {
			r.c.deadLetterUndecodable(ctx, m, msg.Seq, msg.Index, msg.Err)
		}
	}
	if !event.IsFrame(m.Subject) {
		if msg.Event, msg.Err = event.Decode(m.Subject, h, m.Data); msg.Err != nil {
			dead(m, &msg)
		}
		return []Message{msg}
	}
	framed, err := event.DecodeFrame(m.Subject, h, m.Data)
	first := msg.Time
	msgs = make([]Message, len(framed), len(framed)+1)
	for i, f := range framed {
		msg.Index, msg.Event, msg.Err = i, f.Event, f.Err
		msg.Time = first.Add(time.Duration(i))
		if msgs[i] = msg; f.Err == nil {
			continue
		}
		alone, _ := event.SplitFrame(m.Subject, h, m.Data) // its error is that of DecodeFrame
		dead(&nats.Msg{Subject: alone[i].Subject, Header: nats.Header(alone[i].Header), Data: alone[i].Data}, &msg)
	}
	if err != nil {
		msg.Index, msg.Event, msg.Err = len(framed), nil, err
		dead(m, &msg)
		msgs = append(msgs, msg)
	}
	return msgs
}

// buffer buffers the events of a message for Next. It blocks while the buffer is full.
func (r *Reader) buffer(ctx context.Context, msgs []Message, pending uint64) error {
	size := 0 // an undecodable body is not buffered
	for i := range msgs {
		if e := msgs[i].Event; e != nil {
			size += len(e.Body)
		}
	}
	for {
		r.mu.Lock()
		if len(r.buf) == 0 || len(r.buf) < bufferMessages/r.cfg.Partitions && r.bytes+size <= bufferBytes/r.cfg.Partitions {
			break
		}
		r.mu.Unlock()
		select {
		case <-r.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	first := len(r.buf) == 0
	r.buf = append(r.buf, msgs...)
	r.bytes += size
	r.backlog = pending
	r.mu.Unlock()
	if first {
		wake(r.ready)
	}
	return nil
}

func (r *Reader) countLost(n uint64) {
	if n == 0 || r.detached.Load() {
		return
	}
	r.mu.Lock()
	r.lost += n
	r.mu.Unlock()
	r.c.m.dropped.WithLabelValues(reasonLost).Add(float64(n))
	r.c.log.Error("events left the stream before they were read; raise max_bytes or max_age", "events", n)
}

// Next returns the next messages in order, or none if none arrive within wait. There are at most limit, or more if the last ones
// are events of one frame, which are returned together. While NATS is unreachable
// it returns no messages, and afterwards continues after the last one. Errors are permanent: ctx ended, ErrLeaseLost,
// or a replaced stream or closed connection, which require a new reader. A reader of a Repartition ends with io.EOF.
func (r *Reader) Next(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	idle := time.NewTimer(wait)
	defer idle.Stop()
	for {
		if msgs, err := r.take(limit); len(msgs) > 0 || err != nil {
			return msgs, err
		}
		select {
		case <-r.ready:
		case <-idle.C:
			r.checkEnd(ctx)
			return r.take(limit)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take removes at most limit messages from the buffer, and the rest of the last one's frame, and returns them.
func (r *Reader) take(limit int) ([]Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.err, ErrLeaseLost) || len(r.buf) == 0 && r.err != nil {
		return nil, r.err
	}
	n := min(limit, len(r.buf))
	if r.hasEnd {
		for n = 0; n < min(limit, len(r.buf)) && r.buf[n].Seq <= r.end; n++ {
		}
		if n == 0 && (len(r.buf) > 0 || r.returned >= r.end) {
			r.returned = r.end
			return nil, io.EOF
		}
	}
	if n == 0 {
		r.c.m.lagEvents.WithLabelValues(r.label).Set(float64(r.pending()))
		return nil, nil
	}
	for n < len(r.buf) && r.buf[n].Seq == r.buf[n-1].Seq {
		n++
	}
	msgs := r.buf[:n:n]
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil // msgs owns the array
	}
	for i := range msgs {
		if e := msgs[i].Event; e != nil {
			r.bytes -= len(e.Body)
		}
	}
	r.returned = msgs[n-1].Seq
	if m := &msgs[n-1]; len(r.positions) < maxPositions {
		r.positions = append(r.positions, position{m.Seq, m.Time.Add(-m.shift - time.Duration(m.Index)), m.shift})
	}
	if !r.detached.Load() {
		r.c.m.lagEvents.WithLabelValues(r.label).Set(float64(r.pending()))
		r.c.m.lagSeconds.WithLabelValues(r.label).Set(r.c.now().Sub(msgs[n-1].Time).Seconds())
	}
	wake(r.room)
	return msgs, nil
}

// Pending returns the number of messages of the partition that Next has not returned, as of the last delivery; those that are
// buffered count by event.
// (CaughtUp asks JetStream for the current state.) While NATS is unreachable, it returns at least 1.
func (r *Reader) Pending() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending()
}

func (r *Reader) pending() uint64 {
	n := uint64(len(r.buf)) + r.backlog
	if n == 0 && (!r.attached || !r.c.nc.IsConnected()) {
		return 1
	}
	return n
}

// Stored returns the stored sequence of the last Commit. The effects of all events up to it are stored.
func (r *Reader) Stored() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cp.Stored
}

// Epoch returns the epoch of this reader's lease. It is greater than the epochs of all previous readers of the
// partition.
func (r *Reader) Epoch() uint64 { return r.epoch }

// LastTally returns the second of the partition's last tally when this reader was opened.
func (r *Reader) LastTally() int64 { return r.lastTally }

// Stream returns the creation time of the stream, and its last sequence when this reader was opened.
func (r *Reader) Stream() (created time.Time, last uint64) { return r.created, r.last }

// Lost returns the number of events that left the stream before this reader received them. The shards of lost events
// are unknown, so with N partitions each counts 1/N of them.
func (r *Reader) Lost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Commit writes the checkpoint and renews the lease. The effects of all events up to stored must be stored.
// replayFrom is the oldest sequence that live state needs, or 0 if it needs none. While NATS is unreachable, Commit
// retries until ctx ends. It returns ErrLeaseLost when another process has taken over the partition.
func (r *Reader) Commit(ctx context.Context, stored, replayFrom uint64) error {
	begun := time.Now()
	r.mu.Lock()
	from, to, at := r.cp.Stored, max(r.returned, r.stored), r.position(stored)
	r.mu.Unlock()
	if stored < from || stored > to {
		return fmt.Errorf("commit %d: not between the checkpoint %d and the last message read %d", stored, from, to)
	}
	if replayFrom == 0 {
		replayFrom = stored + 1
	}
	if replayFrom > stored+1 {
		return fmt.Errorf("commit %d: a replay from %d would skip events", stored, replayFrom)
	}
	var cp checkpoint
	err := r.lease.write(ctx, func(next *checkpoint) {
		next.Stored, next.StoredAt, next.Shift, next.ReplayFrom = stored, at.at, at.shift, replayFrom
		r.setCaughtUp(next)
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
	for len(r.positions) > 0 && r.positions[0].seq <= stored {
		r.positions = r.positions[1:]
	}
	r.mu.Unlock()
	r.c.m.commitSeconds.Observe(time.Since(begun).Seconds())
	return nil
}

// position returns the position of an event to commit, without a time if that is unknown. The caller holds mu.
func (r *Reader) position(seq uint64) position {
	if seq == r.cp.Stored {
		return position{seq, r.cp.StoredAt, r.cp.Shift}
	}
	for _, p := range r.positions {
		if p.seq == seq {
			return p
		}
	}
	return position{seq: seq}
}

// Close stops reading and releases the lease for the next reader, which reads uncommitted events again.
func (r *Reader) Close(ctx context.Context) error {
	var err error
	r.closed.Do(func() {
		r.stop()
		r.done.Wait()
		r.fail(errors.New("the reader is closed"))
		if r.detached.Load() {
			return
		}
		r.c.m.lagEvents.DeleteLabelValues(r.label)
		r.c.m.lagSeconds.DeleteLabelValues(r.label)
		if err = r.lease.release(ctx); errors.Is(err, ErrLeaseLost) {
			err = nil // another process owns it
		}
	})
	return err
}
