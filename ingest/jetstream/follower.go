package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// Bounds of one pull request. The byte limit is above the largest message that JetStream's file store takes (32 MiB), so
// that no message can stand in a reader's way.
const (
	pullMessages = 1000
	pullBytes    = 33 << 20 // shared out among the partitions of a process, but for a message that does not fit in
	pullExpires  = 30 * time.Second
	heartbeat    = 2 * time.Second
)

// Why a follower attaches anew or, the first, ends.
var (
	// errReplaced means that the stream is not the one it was: made anew, or cut behind the last message read.
	errReplaced = errors.New("the stream was replaced or cut")
	errGap      = errors.New("messages are missing in the delivery")
	errSilent   = errors.New("no sign of life from JetStream")
)

// A follower hands every message of a stream to a function, in order, each once. It is nats.go's OrderedConsumer but for
// three things that one does not do: it stops at once while NATS is away (an OrderedConsumer sleeps out its back-off, up
// to 20 s), it attaches anew as soon as the connection is back, and a message that pretends to be a status of the server
// (no body and a header "Status") is a message to it, not an error for ever.
type follower struct {
	c       *Conn
	stream  string
	last    uint64    // sequence of the newest message handled; the next one is looked for after it
	created time.Time // of the stream; zero: whatever it is

	subjects []string // those to follow; none: all
	share    int      // how many followers share the bytes on their way; 0 as 1

	attached func(pending uint64)      // called when delivery begins, with the number of messages to come
	detached func()                    // called when it is interrupted
	asking   func(ctx context.Context) // if not nil, called before each pull
	at       atomic.Pointer[place]     // nil while not attached
}

// place is how far a follower is in what its consumer delivers.
type place struct {
	consumer string
	taken    atomic.Uint64 // messages handled
}

// run follows until ctx ends, handle fails, the stream is replaced or the connection is closed.
func (f *follower) run(ctx context.Context, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	wait, logged := 20*time.Millisecond, false
	for {
		err := f.follow(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error {
			if logged {
				f.c.log.Info("reading goes on", "stream", f.stream, "seq", meta.Sequence.Stream)
				logged = false
			}
			wait = 20 * time.Millisecond
			return handle(m, meta)
		})
		f.at.Store(nil)
		f.detached()
		var fatal handlerError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &fatal):
			return fatal.err
		case errors.Is(err, errReplaced), errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("read stream %s: %w", f.stream, err)
		case !logged:
			f.c.log.Warn("reading is interrupted", "stream", f.stream, "seq", f.last, "err", err)
			logged = true
		}
		if sleep(ctx, wait) != nil {
			return ctx.Err()
		}
		wait = min(2*wait, 250*time.Millisecond)
	}
}

// handlerError is an error of the caller's function, which ends run.
type handlerError struct{ err error }

func (e handlerError) Error() string { return e.err.Error() }

// follow attaches once and reads until something is wrong.
func (f *follower) follow(ctx context.Context, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	ctx, cancel := f.c.whileIntact(ctx)
	defer cancel()
	at, err := f.attach(ctx)
	if err != nil {
		return err
	}
	in := f.c.nc.NewInbox()
	// One pull at a time: its messages, its heartbeats and its end fit, even when nobody reads for its whole life.
	ch := make(chan *nats.Msg, pullMessages+64)
	sub, err := f.c.nc.ChanSubscribe(in, ch)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only when the connection is gone, and the subscription with it
	size := pullBytes / max(f.share, 1)
	silence := time.NewTicker(2 * heartbeat)
	defer silence.Stop()

	heard := false
	for {
		if f.asking != nil {
			f.asking(ctx)
		}
		request := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, pullMessages, size, pullExpires, heartbeat)
		if err := f.c.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+f.stream+"."+at.consumer, in, request); err != nil {
			return fmt.Errorf("ask for messages: %w", err)
		}
		size = pullBytes / max(f.share, 1)
		for left := pullMessages; left > 0; {
			select {
			case m := <-ch:
				heard = true
				if m.Subject == in {
					over, err := pullStatus(m)
					if err != nil {
						return err
					}
					if over {
						left = 0
					}
					if tooLarge(m) {
						size = pullBytes // the next message alone
					}
					continue
				}
				left--
				if err := f.deliver(m, at.taken.Load()+1, handle); err != nil {
					return err
				}
				at.taken.Add(1)
			case <-silence.C:
				if !heard && len(ch) == 0 {
					return errSilent
				}
				heard = false
			case <-ctx.Done():
				return errBroken // or the caller's context has ended, which run sees
			}
		}
	}
}

// attach makes a consumer after the last message. JetStream removes it when nobody asks it for messages any more.
func (f *follower) attach(ctx context.Context) (*place, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := f.c.js.Stream(ctx, f.stream)
	if err != nil {
		return nil, fmt.Errorf("look up the stream: %w", err)
	}
	info := s.CachedInfo()
	if f.created.IsZero() {
		f.created = info.Created
	}
	if !info.Created.Equal(f.created) || info.State.LastSeq < f.last {
		return nil, errReplaced
	}
	consumer, err := s.CreateConsumer(ctx, natsjs.ConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: f.last + 1, FilterSubjects: f.subjects, AckPolicy: natsjs.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 2 * time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	at := &place{consumer: consumer.CachedInfo().Name}
	f.at.Store(at)
	f.attached(consumer.CachedInfo().NumPending)
	return at, nil
}

// deliver hands m on if it is the delivery number next of the consumer and not known yet.
func (f *follower) deliver(m *nats.Msg, next uint64, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the position of a message: %w", err)
	}
	if meta.Sequence.Consumer != next {
		return errGap
	}
	if meta.Sequence.Stream <= f.last {
		return nil
	}
	if err := handle(m, meta); err != nil {
		return handlerError{err}
	}
	f.last = meta.Sequence.Stream
	return nil
}

// pullStatus reads a message of the server about a pull: a heartbeat, the pull's end, or that the consumer is no more.
func pullStatus(m *nats.Msg) (over bool, err error) {
	switch status, text := m.Header.Get("Status"), m.Header.Get("Description"); {
	case status == "100", text == "Batch Completed": // which follows the last message, when the next pull is on its way
		return false, nil
	case status == "404", status == "408", tooLarge(m):
		return true, nil
	default:
		return false, fmt.Errorf("pull ended with %s %s", status, text)
	}
}

// tooLarge reports whether a pull ended because the next message has more bytes than it asked for.
func tooLarge(m *nats.Msg) bool {
	return m.Header.Get("Description") == "Message Size Exceeds MaxBytes"
}
