package jetstream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// ackTimeout is the time after which an unacknowledged event is sent again.
const ackTimeout = 10 * time.Second

// A Publisher publishes events in order, with up to a window of unacknowledged events. When NATS is unreachable, it
// retains these events and resends them in order, and what arrives twice is dropped: by JetStream for 10 s, then by the
// analyzer. A Publisher is safe for concurrent use.
type Publisher struct {
	c      *Conn
	js     natsjs.JetStream
	window int

	acked, failed atomic.Uint64

	mu mutex // guards the fields below
	// queue contains the unacknowledged events, oldest first. queue[:sent] was sent when the connection had been
	// re-established reconnects times.
	queue      []inFlight
	sent       int
	reconnects uint64
	firstErr   error // first failure since the last Flush
}

// inFlight is an unacknowledged event. If the event cannot be sent, err is set and future is nil.
type inFlight struct {
	msg    *nats.Msg
	future natsjs.PubAckFuture
	err    error
	since  time.Time
	index  int // of its event in a batch
}

// NewPublisher returns a publisher with at most window events in flight. The default is 256.
func (c *Conn) NewPublisher(window int) *Publisher {
	if window < 1 {
		window = 256
	}
	// This limit is never reached, although resending doubles the number of events that nats.go considers pending.
	js, err := natsjs.New(c.nc, natsjs.WithPublishAsyncMaxPending(4*window), natsjs.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		panic("BUG: options of the publisher: " + err.Error())
	}
	return &Publisher{c: c, js: js, window: window, mu: make(mutex, 1)}
}

// Publish sends e. It blocks only while the window is full. The body of e must not change until Flush returns. An
// error means that e was not accepted, because ctx ended or because e can never be sent (its body exceeds the
// server's max_payload). Later rejections by JetStream are counted and returned by Flush.
func (p *Publisher) Publish(ctx context.Context, e *event.Event) error {
	if err := p.mu.lock(ctx); err != nil {
		return err
	}
	defer p.mu.unlock()
	for p.sent > 0 && p.queue[0].acked() {
		p.pop(nil)
	}
	for len(p.queue) >= p.window {
		if err := p.waitOldest(ctx); err != nil {
			return fmt.Errorf("publish event: %w", err)
		}
	}
	p.add(e, 0)
	if last := p.queue[len(p.queue)-1]; last.err != nil {
		p.queue = p.queue[:len(p.queue)-1]
		p.sent--
		p.countFailed()
		return fmt.Errorf("publish event of %d bytes: %w", len(e.Body), last.err)
	}
	return nil
}

// add queues the event at index of its batch, and sends it if possible.
func (p *Publisher) add(e *event.Event, index int) {
	msg := &nats.Msg{Subject: e.Subject(), Header: nats.Header(e.Encode()), Data: e.Body}
	p.queue = append(p.queue, inFlight{msg: msg, since: time.Now(), index: index})
	p.push()
}

// Flush waits until every published event is acknowledged or rejected, and returns the first rejection since the last
// Flush. If ctx ends first, the events stay in flight.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.mu.lock(ctx); err != nil {
		return err
	}
	defer p.mu.unlock()
	for len(p.queue) > 0 {
		if err := p.waitOldest(ctx); err != nil {
			return fmt.Errorf("wait for %d acknowledgements: %w", len(p.queue), err)
		}
	}
	err := p.firstErr
	p.firstErr = nil
	return err
}

// Acked returns the number of events stored by JetStream.
func (p *Publisher) Acked() uint64 { return p.acked.Load() }

// Failed returns the number of events that could not be published; each was reported by Publish or Flush.
func (p *Publisher) Failed() uint64 { return p.failed.Load() }

// push sends the unsent events until the connection rejects one.
func (p *Publisher) push() {
	for p.sent < len(p.queue) {
		// Without a connection nothing is sent: the client holds its lock while it reconnects, and would then send this event before
		// those that the server lost.
		if !p.c.nc.IsConnected() {
			return
		}
		// After a reconnect, which may be during this loop, it is unknown which events arrived. Sending later ones first would change
		// the order, so all are sent again; JetStream drops the duplicates.
		if n := p.c.nc.Stats().Reconnects; n != p.reconnects {
			p.reconnects, p.sent = n, 0
		}
		f := &p.queue[p.sent]
		if f.err == nil {
			f.future, f.err = p.js.PublishMsgAsync(f.msg, natsjs.WithRetryAttempts(0))
			if f.err != nil && IsTransient(f.err) {
				f.err = nil
				return
			}
		}
		p.sent++
	}
}

// acked reports whether f is known to be stored. It does not wait.
func (f *inFlight) acked() bool {
	if f.err != nil {
		return false
	}
	select {
	case <-f.future.Ok():
		return true
	default:
		return false
	}
}

// waitOldest waits until the oldest event in flight is acknowledged or rejected, and resends events if necessary.
func (p *Publisher) waitOldest(ctx context.Context) error {
	for wait := newBackOff(250 * time.Millisecond); ; {
		p.push()
		if p.sent > 0 {
			f := &p.queue[0]
			if f.err != nil {
				p.pop(f.err)
				return nil
			}
			select {
			case <-f.future.Ok():
				p.pop(nil)
				return nil
			case err := <-f.future.Err():
				if !IsTransient(err) {
					p.pop(err)
					return nil
				}
				p.sent = 0
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := sleep(ctx, wait.NextBackOff()); err != nil {
			return err
		}
	}
}

// pop removes the oldest event, which was stored if err is nil and rejected otherwise.
func (p *Publisher) pop(err error) {
	f := p.queue[0]
	p.queue[0] = inFlight{}
	p.queue, p.sent = p.queue[1:], p.sent-1
	if err != nil {
		p.countFailed()
		if p.firstErr == nil {
			p.firstErr = fmt.Errorf("publish to %s: %w", f.msg.Subject, err)
		}
		return
	}
	p.acked.Add(1)
	p.c.m.published.Inc()
	p.c.m.publishSeconds.Observe(time.Since(f.since).Seconds())
}

func (p *Publisher) countFailed() {
	p.failed.Add(1)
	p.c.m.dropped.WithLabelValues(reasonPublishFailed).Inc()
}
