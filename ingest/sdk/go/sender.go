package llmtap

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
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

// natsOptions are the hook's options and the caller's on top. They need no permission but to publish the service's
// subjects and to read an inbox of its own.
func natsOptions(cfg *Config) (nats.Options, error) {
	o := nats.GetDefaultOptions()
	token := event.ServiceToken(cfg.Service)
	var logged atomic.Int64
	ours := []nats.Option{
		nats.Name("llmtap-go/" + token), nats.CustomInboxPrefix("_INBOX." + token),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(maxBackoff), nats.Timeout(2 * time.Second),
		nats.IgnoreAuthErrorAbort(),
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
	log    *slog.Logger

	nc      *nats.Conn
	js      jetstream.JetStream
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
		switch {
		case err == nil: // one more is stored
			backoff = minBackoff
			s.report(nil)
			continue
		case permanent(err):
			s.log.Warn("llmtap: nats will not take a message", "error", err)
			s.queue.refused()
			continue
		}
		s.queue.rewind()
		s.report(err)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// pump sends what may be sent and waits until the oldest flying item is stored, or something fails.
func (s *sender) pump(ctx context.Context) error {
	for {
		for it := s.queue.next(); it != nil; it = s.queue.next() {
			if err := s.publish(it); err != nil {
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
				s.queue.acked()
				return nil
			}
		case err := <-failed:
			return err
		case <-s.queue.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// permanent says that sending the same message again cannot help. The error is the oldest flying item's.
func permanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge
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
		s.prepare(it.ev)
		it.prepared = true
	}
	size := partBytes
	if room := int(s.nc.MaxPayload()) - headerRoom; room > 0 {
		size = min(size, room)
	}
	ev := *it.ev
	ev.BodyBytes, ev.Parts = len(ev.Body), max(1, (len(ev.Body)+size-1)/size)
	body := ev.Body
	for ev.Part = 1; ev.Part <= ev.Parts; ev.Part++ {
		n := min(size, len(body))
		ev.Body, body = body[:n], body[n:]
		ack, err := s.js.PublishMsgAsync(&nats.Msg{Subject: ev.Subject(), Header: nats.Header(ev.Encode()), Data: ev.Body})
		if err != nil {
			return fmt.Errorf("publish to %s: %w", ev.Subject(), err)
		}
		it.acks = append(it.acks, ack)
	}
	return nil
}

// prepare makes the body what may leave the process. Without a redactor that is what was captured.
func (s *sender) prepare(ev *event.Event) {
	if s.redact == nil || len(ev.Body) == 0 {
		return
	}
	body, err := redacted(s.redact, ev)
	if err != nil {
		s.log.Warn("llmtap: a body is withheld", "error", err)
		ev.Body, ev.Capture = nil, event.CaptureNone
		return
	}
	ev.Body, ev.ContentEncoding = body, ""
}

// redacted applies the caller's redactor to a decoded body. What it cannot decode it does not let pass.
func redacted(redact func([]byte) []byte, ev *event.Event) (body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("redact a body: panic: %v", r)
		}
	}()
	switch ev.ContentEncoding {
	case "":
		body = ev.Body
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(ev.Body))
		if err != nil {
			return nil, fmt.Errorf("decode a body to redact it: %w", err)
		}
		if body, err = io.ReadAll(io.LimitReader(z, maxBody+1)); err != nil || len(body) > maxBody {
			return nil, fmt.Errorf("decode a body to redact it: %d bytes: %w", len(body), errors.Join(err, errors.ErrUnsupported))
		}
	default:
		return nil, fmt.Errorf("decode a body to redact it: content encoding %q: %w", ev.ContentEncoding, errors.ErrUnsupported)
	}
	return redact(body), nil
}
