package llmtap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
)

const (
	ackTimeout = 5 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// codeMessageTooLarge is JetStream's error for a message above the limit of the stream.
const codeMessageTooLarge jetstream.ErrorCode = 10054

// errTooManyParts means that the server's maximum payload is so small that a body would need more parts than readers
// accept. It is permanent.
var errTooManyParts = fmt.Errorf("a body needs more than %d parts", event.MaxParts)

// natsOptions returns the hook's options, overridden by Config.NATSOptions. They require permission to publish the
// service's subjects and to subscribe to an inbox of the service, nothing else.
func natsOptions(cfg *Config, report *reporter) (nats.Options, error) {
	o := nats.GetDefaultOptions()
	token := event.ServiceToken(cfg.Service)
	var logged atomic.Int64
	ours := []nats.Option{
		nats.Name("llmtap-go/" + token), nats.CustomInboxPrefix("_INBOX." + token),
		nats.MaxReconnects(-1), nats.ReconnectWait(maxBackoff), nats.Timeout(2 * time.Second),
		nats.IgnoreAuthErrorAbort(), nats.FlusherTimeout(ackTimeout),
		nats.ReconnectBufSize(-1), // no reconnect buffer: the queue already buffers
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				report.permissionDenied(err)
				return
			}
			if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
				return // the sender logs it
			}
			if now := time.Now().Unix(); now-logged.Swap(now) >= 60 { // at most once a minute
				cfg.Logger.Warn("llmtap: NATS error", "error", err)
			}
		}),
	}
	cfg.natsTLS(&o)
	for _, opt := range append(ours, cfg.NATSOptions...) {
		if opt == nil {
			continue
		}
		if err := opt(&o); err != nil {
			return o, fmt.Errorf("config NATSOptions: %w", err)
		}
	}
	for u := range strings.SplitSeq(cfg.URL, ",") {
		o.Servers = append(o.Servers, strings.TrimSpace(u))
	}
	return o, nil
}

// A sender publishes queued events, oldest first, and retains each until NATS has stored it. After a failure it
// starts again with the oldest. It runs in one goroutine, in addition to the goroutines of the NATS client.
type sender struct {
	queue       *queue
	opts        nats.Options
	attrs       map[string]string // Config.Attrs
	redact      func([]byte) []byte
	shaper      *shape.Shaper // nil unless the capture mode is shape
	onPublished func(exchange string)
	log         *slog.Logger
	report      *reporter

	dialer  dialer
	nc      *nats.Conn
	js      jetstream.JetStream
	healthy bool // the last attempt to publish succeeded
	alone   bool // the stream accepts no frames
}

// run publishes until ctx ends.
func (s *sender) run(ctx context.Context) {
	s.dialer.ctx, s.dialer.base = ctx, net.Dialer{Timeout: s.opts.Timeout}
	if s.opts.Dialer != nil {
		s.dialer.base = *s.opts.Dialer
	}
	if s.opts.CustomDialer == nil {
		s.opts.CustomDialer = &s.dialer
	}
	defer func() {
		if s.nc != nil {
			s.nc.Close() // not CleanupPublisher, which leaks a goroutine of the client if called right after the first publish
		}
	}()
	for backoff := minBackoff; ; {
		err := s.pump(ctx)
		if ctx.Err() != nil {
			return
		}
		s.healthy = err == nil
		if err == nil { // one more item is stored
			s.report.succeeded(s.queue.droppedExchanges(), time.Now())
			backoff = minBackoff
			continue
		}
		s.report.failed(s.reason(err), s.queue.stats().Pending > 0, time.Now())
		s.queue.requeue()
		if errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
			// A server that is cut off from the network does not close the connection. The next one may work.
			_ = s.nc.ForceReconnect() // fails only if the connection is closed, which connect handles
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// window returns the maximum number of items in flight. It is 1, or one frame, until NATS has stored an item: if several were
// in flight, the first could fail while later ones are stored, and resending the first would break the order.
func (s *sender) window() int {
	if s.healthy {
		return maxInFlight
	}
	return 1
}

// pump sends as many items as window allows and waits until the oldest item in flight is stored. It returns at the
// first failure.
func (s *sender) pump(ctx context.Context) error {
	if err := s.connect(); err != nil { // also without events, so that a wrong URL is logged at once
		return err
	}
	for {
		for it := s.next(); it != nil; it = s.next() {
			if err := s.publish(it); permanent(err) && len(it.items) == 1 {
				s.reject(it, err)
			} else if err != nil {
				return err
			}
		}
		var stored <-chan *jetstream.PubAck
		var failed <-chan error
		head := s.queue.oldestInFlight()
		if head != nil {
			stored, failed = head.acks[0].Ok(), head.acks[0].Err()
		} else if s.nc.IsConnected() {
			s.report.succeeded(s.queue.droppedExchanges(), time.Now()) // nothing to send
		}
		select {
		case <-stored:
			if head.acks = head.acks[1:]; len(head.acks) == 0 {
				for range len(head.items) {
					s.published(s.queue.ack())
				}
				return nil
			}
		case err := <-failed:
			if permanent(err) && len(head.items) > 1 {
				s.alone = true // the limit of the stream is below that of the server
				return err
			}
			if !permanent(err) {
				return err
			}
			s.reject(head, err)
		case <-s.queue.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next returns the next item to send; its items are to be sent with it.
func (s *sender) next() *item {
	if s.alone || s.nc == nil {
		it := s.queue.next(s.window())
		if it != nil {
			it.items = append(it.items[:0], it)
		}
		return it
	}
	return s.queue.nextFrame(s.window(), int64(event.PartSize(s.nc.MaxPayload())))
}

// published calls OnPublished with the id of a stored exchange, unless id is empty.
func (s *sender) published(id string) {
	if id == "" || s.onPublished == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("llmtap: OnPublished panicked", "panic", fmt.Sprint(r))
		}
	}()
	s.onPublished(id)
}

// permanent reports whether sending the same message again is useless.
func permanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, errTooManyParts)
}

// reject drops an exchange that NATS will never accept.
func (s *sender) reject(it *item, err error) {
	s.log.Warn("llmtap: NATS rejects an exchange, dropping it", "error", err)
	s.queue.reject(it)
}

// reason returns the cause of err: if there is no connection, why the last attempt to connect failed.
func (s *sender) reason(err error) error {
	if errors.Is(err, nats.ErrDisconnected) && s.nc != nil {
		if last := s.nc.LastError(); last != nil {
			err = last
		}
	}
	return s.dialer.reason(err)
}

// connect connects to NATS unless there is a connection. The client restores a lost connection in the background.
func (s *sender) connect() error {
	if s.nc != nil && !s.nc.IsClosed() {
		return nil
	}
	nc, err := s.opts.Connect()
	if err != nil {
		return err // the reporter names the server
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		nc.Close()
		return fmt.Errorf("use JetStream: %w", err)
	}
	s.nc, s.js = nc, js
	return nil
}

// publish passes the messages of the items of a frame to the NATS client. it is the first one.
func (s *sender) publish(it *item) error {
	if !s.nc.IsConnected() {
		return nats.ErrDisconnected
	}
	size := event.PartSize(s.nc.MaxPayload())
	events := make([]*event.Event, len(it.items))
	for i, it := range it.items {
		if !it.prepared {
			s.prepare(it)
			it.prepared = true
		}
		if events[i] = it.ev; len(it.ev.Body) > event.MaxParts*size {
			return errTooManyParts
		}
	}
	for m := range event.Pack(events, size, !s.alone) {
		// No retries by the client: retried messages could overtake messages that the sender resends.
		ack, err := s.js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data}, jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("publish to %s: %w", m.Subject, err)
		}
		it.acks = append(it.acks, ack)
	}
	return nil
}
