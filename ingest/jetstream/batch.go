package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	maxBatches  = 8   // batches that are published concurrently
	batchWindow = 256 // unacknowledged messages of one batch
)

// codeMessageTooLarge is JetStream's error for a message above the limit of the stream.
const codeMessageTooLarge natsjs.ErrorCode = 10054

// A Rejection is an event that JetStream will never store. The other events of its batch are stored.
type Rejection struct {
	Index int // in the batch
	Err   error
}

// PublishBatch stores events in order, each alone, or in parts if their bodies are long, and returns the rejected ones. If it returns
// an error, because NATS is unreachable, refuses to store or ctx ends, none of the events counts as stored; the batch can be
// published again, since JetStream drops duplicates by their message ids. At most maxBatches are published concurrently;
// others wait. After an error the events may be in use for some more seconds, so that the memory of maxBatches batches is not
// free yet.
func (c *Conn) PublishBatch(ctx context.Context, events []*event.Event) ([]Rejection, error) {
	if err := c.Healthy(); err != nil {
		return nil, err
	}
	var p *Publisher
	select {
	case p = <-c.batches:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other batches: %w", ctx.Err())
	}
	type outcome struct {
		rejected []Rejection
		err      error
	}
	done := make(chan outcome, 1)
	go func() { // a write to a server that hangs ends at its own timeout, not with ctx
		rejected, err := p.publishBatch(ctx, events)
		c.batches <- p
		done <- outcome{rejected, err}
	}()
	select {
	case o := <-done:
		return o.rejected, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("publish %d events: %w", len(events), ctx.Err())
	}
}

// newBatches returns the publishers for PublishBatch.
func (c *Conn) newBatches() chan *Publisher {
	all := make(chan *Publisher, maxBatches)
	for range maxBatches {
		all <- c.NewPublisher(batchWindow)
	}
	return all
}

// publishBatch publishes one batch with a publisher that has no other events in flight, and leaves none. It uses no frames: a client
// that sends events again groups them in another way, so the frames would have other ids.
func (p *Publisher) publishBatch(ctx context.Context, events []*event.Event) (rejected []Rejection, err error) {
	if err := p.mu.lock(ctx); err != nil {
		return nil, err
	}
	defer p.mu.unlock()
	defer func() { p.queue, p.bytes, p.sent, p.firstErr = nil, 0, 0, nil }()
	settle := func() error {
		index := p.queue[0].events[0].index // only messages of one event are rejected for ever
		if err := p.waitOldest(ctx); err != nil {
			return err
		}
		failure := p.firstErr
		if p.firstErr = nil; !neverStored(failure) {
			return failure
		}
		if !slices.ContainsFunc(rejected, func(r Rejection) bool { return r.Index == index }) { // else a further part
			rejected = append(rejected, Rejection{index, failure})
		}
		return nil
	}
	size := event.PartSize(p.c.nc.MaxPayload())
	send := func(m event.Message, events []gathered) {
		for err == nil && p.full() {
			err = settle()
		}
		if err = cmp.Or(err, ctx.Err()); err == nil {
			p.send(m, events)
		}
	}
	for i, e := range events {
		if len(e.Body) > event.MaxParts*size {
			rejected = append(rejected, Rejection{i, fmt.Errorf("a body of %d bytes needs more than %d parts", len(e.Body), event.MaxParts)})
			continue
		}
		if pack([]gathered{{e, i}}, size, false, send); err != nil {
			return nil, err
		}
	}
	for len(p.queue) > 0 {
		if err := settle(); err != nil {
			return nil, fmt.Errorf("wait for %d acknowledgements: %w", len(p.queue), err)
		}
	}
	return rejected, nil
}

// neverStored reports whether err means that a message is too large for the server or the stream.
func neverStored(err error) bool {
	var api *natsjs.APIError
	return errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge || errors.Is(err, nats.ErrMaxPayload)
}
