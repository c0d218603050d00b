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

// Bounds of one pull request. A message that exceeds the limit of bytes is pulled alone, without a limit.
const (
	pullMessages = 250
	pullBytes    = 4 << 20   // shared by the partitions of a process
	minPullBytes = 256 << 10 // of a partition
	pullExpires  = 30 * time.Second
	heartbeat    = 2 * time.Second
)

// Errors after which a follower re-attaches or, after errReplaced, ends.
var (
	// errReplaced means that the stream was recreated, or lost the last message read.
	errReplaced = errors.New("the stream was recreated or truncated")
	errGap      = errors.New("messages are missing in the delivery")
	errSilent   = errors.New("no heartbeat from JetStream")
)

// A follower passes every message of a stream to a function, once and in order. It differs from nats.go's OrderedConsumer
// in three ways: it stops immediately while NATS is unreachable (an OrderedConsumer sleeps through its backoff, up to
// 20 s), it re-attaches as soon as the connection is back, and it treats a message that looks like a server status (no
// body and a "Status" header) as a message instead of failing forever.
type follower struct {
	c       *Conn
	stream  string
	last    uint64    // sequence of the last handled message
	lastAt  time.Time // its timestamp; zero: unknown
	created time.Time // creation time of the stream; zero: any

	subjects []string      // subject filter; empty: all subjects
	name     func() string // of the consumer, which replaces another one of that name; nil or "": a random name
	share    int           // number of followers that share pullBytes; 0 counts as 1

	onAttach   func(pending uint64)      // called when delivery begins, with the number of pending messages
	onDetach   func()                    // called when delivery is interrupted
	beforePull func(ctx context.Context) // optional
	attached   atomic.Pointer[attachment]
}

// An attachment is the consumer of a follower and its progress.
type attachment struct {
	consumer  string
	delivered atomic.Uint64 // messages handled
}

// run follows the stream until ctx ends, handle fails, the stream is replaced or the connection is closed.
func (f *follower) run(ctx context.Context, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	wait, logged := newBackOff(250*time.Millisecond), false
	for {
		err := f.follow(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error {
			if logged {
				f.c.log.Info("reading resumed", "stream", f.stream, "seq", meta.Sequence.Stream)
				logged = false
			}
			wait.Reset()
			return handle(m, meta)
		})
		f.attached.Store(nil)
		f.onDetach()
		var fatal handlerError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &fatal):
			return fatal.err
		case errors.Is(err, errReplaced), errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("read stream %s: %w", f.stream, err)
		case !logged:
			f.c.log.Warn("reading interrupted", "stream", f.stream, "seq", f.last, "err", err)
			logged = true
		}
		if sleep(ctx, wait.NextBackOff()) != nil {
			return ctx.Err()
		}
	}
}

// handlerError is an error of the handler, which ends run.
type handlerError struct{ err error }

func (e handlerError) Error() string { return e.err.Error() }

// follow attaches once and reads until an error.
func (f *follower) follow(ctx context.Context, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	ctx, cancel := f.c.whileIntact(ctx)
	defer cancel()
	at, err := f.attach(ctx)
	if err != nil {
		return err
	}
	inbox := f.c.nc.NewInbox()
	// The channel has room for all messages, heartbeats and the final status of one pull, even if none of them is
	// received before the pull ends.
	ch := make(chan *nats.Msg, pullMessages+64)
	sub, err := f.c.nc.ChanSubscribe(inbox, ch)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the connection and thus the subscription are gone
	limit := max(pullBytes/max(f.share, 1), minPullBytes)
	alone := false
	silence := time.NewTicker(2 * heartbeat)
	defer silence.Stop()

	heard := false
	for {
		if f.beforePull != nil {
			f.beforePull(ctx)
		}
		remaining, maxBytes := pullMessages, limit
		if alone {
			alone, remaining, maxBytes = false, 1, 0
		}
		request := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, remaining, maxBytes, pullExpires, heartbeat)
		if err := f.c.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+f.stream+"."+at.consumer, inbox, request); err != nil {
			return fmt.Errorf("pull messages: %w", err)
		}
		for remaining > 0 {
			select {
			case m := <-ch:
				heard = true
				if m.Subject == inbox {
					completed, err := pullStatus(m)
					if err != nil {
						return err
					}
					if completed {
						alone = tooLarge(m) && remaining == pullMessages
						remaining = 0
					}
					continue
				}
				remaining--
				if err := f.deliver(m, at.delivered.Load()+1, handle); err != nil {
					return err
				}
				at.delivered.Add(1)
			case <-silence.C:
				if !heard && len(ch) == 0 {
					return errSilent
				}
				heard = false
			case <-ctx.Done():
				return errInterrupted // or the caller's context ended, which run checks
			}
		}
	}
}

// attach creates a consumer that starts after the last message. JetStream removes it when it is idle.
func (f *follower) attach(ctx context.Context) (*attachment, error) {
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
	if !f.lastAt.IsZero() {
		same, err := sameMessage(ctx, s, f.last, f.lastAt)
		if err != nil {
			return nil, err
		}
		if !same {
			return nil, errReplaced
		}
	}
	cfg := ephemeralConsumer(natsjs.DeliverByStartSequencePolicy, f.subjects)
	cfg.OptStartSeq, cfg.InactiveThreshold = f.last+1, 2*time.Minute
	if f.name != nil {
		cfg.Name = f.name()
	}
	if cfg.Name != "" {
		// One that a process left behind. If that process still runs, it attaches anew, and ends with its lease.
		if err := s.DeleteConsumer(ctx, cfg.Name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
			return nil, fmt.Errorf("replace the consumer: %w", err)
		}
	}
	consumer, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	at := &attachment{consumer: consumer.CachedInfo().Name}
	f.attached.Store(at)
	f.onAttach(consumer.CachedInfo().NumPending)
	return at, nil
}

// deliver passes m to handle if its consumer sequence is next and it is not a duplicate.
func (f *follower) deliver(m *nats.Msg, next uint64, handle func(*nats.Msg, *nats.MsgMetadata) error) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the metadata of a message: %w", err)
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
	f.last, f.lastAt = meta.Sequence.Stream, meta.Timestamp
	return nil
}

// pullStatus interprets a status message of a pull: a heartbeat, the end of the pull, or the loss of the consumer.
func pullStatus(m *nats.Msg) (completed bool, err error) {
	switch status, text := m.Header.Get("Status"), m.Header.Get("Description"); {
	case status == "100", text == "Batch Completed": // ends a pull whose messages have all arrived
		return false, nil
	case status == "404", status == "408", tooLarge(m):
		return true, nil
	default:
		return false, fmt.Errorf("pull ended with %s %s", status, text)
	}
}

// tooLarge reports whether a pull ended because the next message exceeds its byte limit.
func tooLarge(m *nats.Msg) bool {
	return m.Header.Get("Description") == "Message Size Exceeds MaxBytes"
}
