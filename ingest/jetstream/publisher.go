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

// ackTimeout is the time after which an unacknowledged message is sent again.
const ackTimeout = 10 * time.Second

// maxWindowBytes bounds the unacknowledged messages of a publisher, in addition to its window.
const maxWindowBytes = 16 << 20

// A Publisher publishes events in order, in frames, with up to a window of unacknowledged messages. When NATS is unreachable, it
// retains these messages and resends them in order, and what arrives twice is dropped: by JetStream for 10 s, then by the analyzer.
// A Publisher is safe for concurrent use.
type Publisher struct {
	c      *Conn
	js     natsjs.JetStream
	window int

	acked, failed atomic.Uint64

	mu mutex // guards the fields below
	gatherer
	// queue contains the unacknowledged messages, oldest first. queue[:sent] was sent when the connection had been
	// re-established reconnects times.
	queue      []inFlight
	bytes      int // of the messages in queue
	sent       int
	cautious   bool // since a reconnect or an error: the first could fail while later ones are stored, so it is sent alone
	reconnects uint64
	firstErr   error // first failure since the last Flush
}

// inFlight is an unacknowledged message. If it cannot be sent, err is set and future is nil.
type inFlight struct {
	msg    *nats.Msg
	future natsjs.PubAckFuture
	err    error
	since  time.Time
	events []gathered
}

// NewPublisher returns a publisher with at most window messages in flight. The default is 256.
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

// Publish sends e within lingerTime, together with those after it that may be in its frame. It blocks only while the window is full.
// e must not change until Flush returns. An error means that e was not accepted, because ctx ended or because e can never be sent
// (its body exceeds the server's max_payload). Later rejections by JetStream are counted and returned by Flush.
func (p *Publisher) Publish(ctx context.Context, e *event.Event) error {
	if err := p.mu.lock(ctx); err != nil {
		return err
	}
	defer p.mu.unlock()
	for p.sent > 0 && p.queue[0].acked() {
		p.pop(nil)
	}
	for p.full() {
		if err := p.waitOldest(ctx); err != nil {
			return fmt.Errorf("publish event: %w", err)
		}
	}
	limit := event.PartSize(p.c.nc.MaxPayload())
	if len(e.Body) <= limit {
		p.gather(e, limit, p.send)
		if len(p.events) > 0 && p.timer == nil {
			p.timer = time.AfterFunc(lingerTime, p.endLinger)
		}
		return nil
	}
	p.release(limit, p.send)
	p.send(event.Message{Subject: e.Subject(), Header: e.Encode(), Data: e.Body}, []gathered{{event: e}})
	if last := p.queue[len(p.queue)-1]; last.err != nil {
		p.queue = p.queue[:len(p.queue)-1]
		p.bytes -= len(last.msg.Data)
		p.sent--
		p.countFailed(1)
		return fmt.Errorf("publish event of %d bytes: %w", len(e.Body), last.err)
	}
	return nil
}

// full reports whether no message may be added to the window.
func (p *Publisher) full() bool {
	return len(p.queue) >= p.window || p.bytes >= maxWindowBytes
}

// endLinger sends the events that wait for others.
func (p *Publisher) endLinger() {
	if p.mu.lock(context.Background()) != nil {
		return
	}
	defer p.mu.unlock()
	p.release(event.PartSize(p.c.nc.MaxPayload()), p.send)
}

// send queues a message of events, and sends it if possible.
func (p *Publisher) send(m event.Message, events []gathered) {
	p.queue = append(p.queue, inFlight{msg: &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data}, since: time.Now(), events: events})
	p.bytes += len(m.Data)
	p.push()
}

// Flush waits until every published event is acknowledged or rejected, and returns the first rejection since the last
// Flush. If ctx ends first, the events stay in flight.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.mu.lock(ctx); err != nil {
		return err
	}
	defer p.mu.unlock()
	p.release(event.PartSize(p.c.nc.MaxPayload()), p.send)
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

// push sends the unsent messages until the connection rejects one.
func (p *Publisher) push() {
	for p.sent < len(p.queue) {
		// Without a connection nothing is sent: the client holds its lock while it reconnects, and would then send this message before
		// those that the server lost.
		if !p.c.nc.IsConnected() {
			return
		}
		// After a reconnect, which may be during this loop, it is unknown which messages arrived. Sending later ones first would
		// change the order, so all are sent again; JetStream drops the duplicates.
		if n := p.c.nc.Stats().Reconnects; n != p.reconnects {
			p.reconnects, p.sent, p.cautious = n, 0, true
		}
		if p.cautious && p.sent > 0 {
			return
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

// waitOldest waits until the oldest message in flight is acknowledged or rejected, and resends messages if necessary.
func (p *Publisher) waitOldest(ctx context.Context) error {
	for wait := newBackOff(250 * time.Millisecond); ; {
		p.push()
		if p.sent > 0 {
			f := &p.queue[0]
			if f.err != nil {
				p.refused(f.err)
				return nil
			}
			select {
			case <-f.future.Ok():
				p.pop(nil)
				return nil
			case err := <-f.future.Err():
				if !IsTransient(err) {
					p.refused(err)
					return nil
				}
				p.sent, p.cautious = 0, true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := sleep(ctx, wait.NextBackOff()); err != nil {
			return err
		}
	}
}

// refused removes the oldest message, which was rejected. A frame that is too large is replaced by its events, and no further
// frames are sent: the limit of the stream is below that of the server.
func (p *Publisher) refused(err error) {
	f := p.queue[0]
	if len(f.events) == 1 || !neverStored(err) {
		p.pop(err)
		return
	}
	p.alone = true
	rest := p.queue[1:]
	p.queue, p.bytes, p.sent = nil, p.bytes-len(f.msg.Data), 0
	pack(f.events, event.PartSize(p.c.nc.MaxPayload()), false, p.send)
	p.queue = append(p.queue, rest...)
}

// pop removes the oldest message, which was stored if err is nil and rejected otherwise.
func (p *Publisher) pop(err error) {
	f := p.queue[0]
	p.queue[0] = inFlight{}
	p.queue, p.bytes, p.sent = p.queue[1:], p.bytes-len(f.msg.Data), p.sent-1
	if err != nil {
		p.countFailed(len(f.events))
		if p.firstErr == nil {
			p.firstErr = fmt.Errorf("publish to %s: %w", f.msg.Subject, err)
		}
		return
	}
	p.cautious = false
	p.acked.Add(uint64(len(f.events)))
	p.c.m.published.Add(float64(len(f.events)))
	p.c.m.publishSeconds.Observe(time.Since(f.since).Seconds())
}

func (p *Publisher) countFailed(n int) {
	p.failed.Add(uint64(n))
	p.c.m.dropped.WithLabelValues(reasonPublishFailed).Add(float64(n))
}
