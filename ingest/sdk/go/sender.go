package llmtap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/shape"
)

const (
	// partBytes is the most payload of one message.
	partBytes = 512 << 10
	// headerRoom is what a message may hold beside its payload, in bytes.
	headerRoom = 64 << 10

	ackTimeout = 5 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// codeMessageTooLarge is JetStream's error for a message above the stream's own limit.
const codeMessageTooLarge jetstream.ErrorCode = 10054

// errTooManyParts is permanent: the server takes so small messages only that a body would need more parts than a reader
// accepts.
var errTooManyParts = fmt.Errorf("a body needs more than %d parts", event.MaxParts)

// natsOptions are the hook's options and the caller's on top. They need no permission but to publish the service's
// subjects and to read an inbox of its own.
func natsOptions(cfg *Config) (nats.Options, error) {
	o := nats.GetDefaultOptions()
	token := event.ServiceToken(cfg.Service)
	var logged atomic.Int64
	ours := []nats.Option{
		nats.Name("llmtap-go/" + token), nats.CustomInboxPrefix("_INBOX." + token),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(maxBackoff), nats.Timeout(2 * time.Second),
		nats.IgnoreAuthErrorAbort(), nats.FlusherTimeout(ackTimeout),
		nats.ReconnectBufSize(-1), // the queue is the buffer
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// A missing permission is reported for every message.
			if now := time.Now().Unix(); now-logged.Swap(now) >= 60 {
				cfg.Logger.Warn("llmtap: nats reports an error", "error", err)
			}
		}),
	}
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

// A sender publishes what is queued, oldest first, and keeps it until NATS says that it is stored. Where that fails it
// starts again at the oldest. It is one goroutine, beside those of the NATS client.
type sender struct {
	queue  *queue
	opts   nats.Options
	redact func([]byte) []byte
	shaper *shape.Shaper         // of capture mode shape; else nil
	told   func(exchange string) // Config.OnPublished; may be nil
	log    *slog.Logger

	nc      *nats.Conn
	js      jetstream.JetStream
	proven  bool // the last message that could be stored was
	failing bool // said so in the log
	dropped uint64
}

// run publishes until ctx ends.
func (s *sender) run(ctx context.Context) {
	defer func() {
		if s.nc != nil {
			s.nc.Close() // not CleanupPublisher: right after a first publish it leaves a goroutine of the client behind
		}
	}()
	for backoff := minBackoff; ; {
		err := s.pump(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // one more is stored
			backoff, s.proven = minBackoff, true
			s.report(nil)
			continue
		}
		s.queue.rewind()
		s.proven = false
		s.report(err)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// window is how many items may be in flight: one until NATS has stored one. Of many, those sent first could fail and
// those behind them be stored, and then the order would be lost when the first are sent again.
func (s *sender) window() int {
	if s.proven {
		return maxInFlight
	}
	return 1
}

// pump sends what may be sent and waits until the oldest flying item is stored, or something fails.
func (s *sender) pump(ctx context.Context) error {
	for {
		for it := s.queue.next(s.window()); it != nil; it = s.queue.next(s.window()) {
			if err := s.publish(it); permanent(err) {
				s.refuse(it, err)
			} else if err != nil {
				return err
			}
		}
		var stored <-chan *jetstream.PubAck
		var failed <-chan error
		head := s.queue.head()
		if head != nil {
			stored, failed = head.acks[0].Ok(), head.acks[0].Err()
		}
		select {
		case <-stored:
			if head.acks = head.acks[1:]; len(head.acks) == 0 {
				s.published(s.queue.acked())
				return nil
			}
		case err := <-failed:
			if !permanent(err) {
				return err
			}
			s.refuse(head, err)
		case <-s.queue.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// published tells the agent that an exchange is stored; id is empty when none is.
func (s *sender) published(id string) {
	if id == "" || s.told == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("llmtap: OnPublished panics", "panic", fmt.Sprint(r))
		}
	}()
	s.told(id)
}

// permanent says that sending the same message again cannot help.
func permanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, errTooManyParts)
}

// refuse gives up an exchange that NATS will never take.
func (s *sender) refuse(it *item, err error) {
	s.log.Warn("llmtap: nats will not take an exchange", "error", err)
	s.queue.refused(it)
}

// report logs when publishing starts to fail and when it works again, and what was dropped.
func (s *sender) report(err error) {
	switch {
	case err != nil && !s.failing:
		s.log.Warn("llmtap: cannot publish, calls are kept in memory", "error", err)
	case err == nil && s.failing:
		dropped := s.queue.snapshot().Dropped
		s.log.Info("llmtap: publishing again", "dropped_exchanges", dropped-s.dropped)
		s.dropped = dropped
	}
	s.failing = err != nil
}

// connect makes the connection, in the background when NATS is not there.
func (s *sender) connect() error {
	if s.nc != nil && !s.nc.IsClosed() {
		return nil
	}
	nc, err := s.opts.Connect()
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		nc.Close()
		return fmt.Errorf("use jetstream: %w", err)
	}
	s.nc, s.js = nc, js
	return nil
}

// publish hands an item's messages to the NATS client.
func (s *sender) publish(it *item) error {
	if err := s.connect(); err != nil {
		return err
	}
	if !s.nc.IsConnected() {
		return nats.ErrDisconnected
	}
	if !it.prepared {
		s.prepare(it)
		it.prepared = true
	}
	ev := *it.ev
	ev.BodyBytes = len(ev.Body)
	size := partSize(s.nc.MaxPayload())
	if ev.Parts = max(1, (len(ev.Body)+size-1)/size); ev.Parts > event.MaxParts {
		return errTooManyParts
	}
	body := ev.Body
	for ev.Part = 1; ev.Part <= ev.Parts; ev.Part++ {
		n := min(size, len(body))
		ev.Body, body = body[:n], body[n:]
		m := &nats.Msg{Subject: ev.Subject(), Header: nats.Header(ev.Encode()), Data: ev.Body}
		// The client's own attempts would overtake messages that are sent again from here.
		ack, err := s.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("publish to %s: %w", ev.Subject(), err)
		}
		it.acks = append(it.acks, ack)
	}
	return nil
}

// partSize is how much of a body fits into one message of a server that takes maxPayload bytes, headers and all.
func partSize(maxPayload int64) int {
	return int(min(partBytes, max(maxPayload-headerRoom, maxPayload/2, 1)))
}
