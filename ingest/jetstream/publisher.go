package jetstream

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// ackTimeout is how long an acknowledgement may take before the event is sent again.
const ackTimeout = 10 * time.Second

// A Publisher publishes events in order without waiting for each acknowledgement. Up to its window of events are in
// flight; when NATS goes away they are kept and sent again, in order, and their message ids keep JetStream from storing
// one twice (within its duplicate window of two minutes). A Publisher may be used by several goroutines.
type Publisher struct {
	c      *Conn
	js     natsjs.JetStream
	window int

	acked, failed atomic.Uint64

	turn chan struct{} // holds the token of whoever may use the fields below
	// queue is what has no acknowledgement yet, oldest first; queue[:sent] was sent over the connection that has seen
	// this many reconnects.
	queue      []inFlight
	sent       int
	reconnects uint64
	first      error // of the failures since the last Flush
}

// inFlight is one event on its way. A send that can never succeed leaves err and no future.
type inFlight struct {
	msg    *nats.Msg
	future natsjs.PubAckFuture
	err    error
	since  time.Time
}

// NewPublisher returns a publisher with at most window events in flight; 256 is a good window, 0 means it.
func (c *Conn) NewPublisher(window int) *Publisher {
	if window < 1 {
		window = 256
	}
	// The limit of nats.go is never reached: a resend may double what is pending there.
	js, err := natsjs.New(c.nc, natsjs.WithPublishAsyncMaxPending(4*window), natsjs.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		panic("BUG: options of the publisher: " + err.Error())
	}
	p := &Publisher{c: c, js: js, window: window, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// Publish sends e, and waits only while the window is full. Until Flush returns, e's body must not change. An error
// says that e was not taken: ctx ended, or e can never be sent (a body over the server's max_payload). What JetStream
// refuses later is counted, and reported by Flush.
func (p *Publisher) Publish(ctx context.Context, e *event.Event) error {
	msg := &nats.Msg{Subject: e.Subject(), Header: nats.Header(e.Encode()), Data: e.Body}
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.end()
	for p.sent > 0 && p.queue[0].acked() {
		p.pop(nil)
	}
	for len(p.queue) >= p.window {
		if err := p.settle(ctx); err != nil {
			return fmt.Errorf("publish event: %w", err)
		}
	}
	p.queue = append(p.queue, inFlight{msg: msg, since: time.Now()})
	p.push()
	if last := p.queue[len(p.queue)-1]; last.err != nil {
		p.queue = p.queue[:len(p.queue)-1]
		p.sent--
		p.countFailed()
		return fmt.Errorf("publish event of %d bytes: %w", len(e.Body), last.err)
	}
	return nil
}

// Flush waits until everything published is acknowledged or refused, and returns the first refusal since the last
// Flush. When ctx ends first, what is in flight stays so.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.end()
	for len(p.queue) > 0 {
		if err := p.settle(ctx); err != nil {
			return fmt.Errorf("wait for %d acknowledgements: %w", len(p.queue), err)
		}
	}
	first := p.first
	p.first = nil
	return first
}

// Acked is the number of events that JetStream has stored, Failed of those it never will.
func (p *Publisher) Acked() uint64 { return p.acked.Load() }

// Failed is the number of events that could not be published; each was reported by Publish or Flush.
func (p *Publisher) Failed() uint64 { return p.failed.Load() }

func (p *Publisher) begin(ctx context.Context) error {
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Publisher) end() { p.turn <- struct{}{} }

// push sends what is not sent yet, as far as the connection takes it.
func (p *Publisher) push() {
	// After a reconnect it is unknown what arrived of what was sent. Sending on would put later events before those
	// that were lost, so all are sent again first; JetStream drops the duplicates.
	if n := p.c.nc.Stats().Reconnects; n != p.reconnects {
		p.reconnects, p.sent = n, 0
	}
	for p.sent < len(p.queue) {
		f := &p.queue[p.sent]
		if f.err == nil {
			f.future, f.err = p.js.PublishMsgAsync(f.msg, natsjs.WithRetryAttempts(0))
			if f.err != nil && transient(f.err) {
				f.err = nil
				return
			}
		}
		p.sent++
	}
}

// acked reports whether f is stored, without waiting.
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

// settle waits for what becomes of the oldest event in flight, sending again as often as that takes. It returns an
// error only when ctx ends.
func (p *Publisher) settle(ctx context.Context) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
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
				if !transient(err) {
					p.pop(err)
					return nil
				}
				p.sent = 0
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// pop removes the oldest event: stored, or refused with err.
func (p *Publisher) pop(err error) {
	f := p.queue[0]
	p.queue[0] = inFlight{}
	p.queue, p.sent = p.queue[1:], p.sent-1
	if err != nil {
		p.countFailed()
		if p.first == nil {
			p.first = fmt.Errorf("publish to %s: %w", f.msg.Subject, err)
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
