package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// StoreSpans stores what a receiver remembers of spans as an opaque payload. If the stream was deleted, StoreSpans creates it
// and returns an error.
func (c *Conn) StoreSpans(ctx context.Context, payload []byte) error {
	if err := c.Healthy(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: event.SpansPrefix + "otlp", Data: payload})
	switch {
	case errors.Is(err, natsjs.ErrNoStreamResponse):
		return errors.Join(err, c.ensureStream(ctx, c.streams()[3]))
	case err != nil:
		return fmt.Errorf("store what is known of spans: %w", err)
	}
	return nil
}

// ReadSpans calls fn with each payload of StoreSpans that is in the stream, oldest first.
func (c *Conn) ReadSpans(ctx context.Context, fn func(payload []byte)) error {
	s, err := c.js.Stream(ctx, event.StreamSpans)
	if err == nil {
		err = scan(ctx, s, ephemeralConsumer(natsjs.DeliverAllPolicy, nil), 256, func(batch []natsjs.Msg, _ uint64) error {
			for _, m := range batch {
				fn(m.Data())
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, natsjs.ErrStreamNotFound) { // StoreSpans creates it
		return fmt.Errorf("read what is known of spans: %w", err)
	}
	return nil
}
