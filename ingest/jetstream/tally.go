package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// PublishTally stores the counts of one second of one partition; what they look like is not ingest's business. The same
// second of the same epoch is stored once. It waits for a NATS that is away until ctx ends.
func (c *Conn) PublishTally(ctx context.Context, partition int, epoch uint64, second int64, payload []byte) error {
	msg := &nats.Msg{
		Subject: fmt.Sprintf("%s%d", event.TallyPrefix, partition), Data: payload,
		Header: nats.Header{event.HeaderMsgID: {fmt.Sprintf("%d.%d.%d", partition, epoch, second)}},
	}
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, msg, natsjs.WithRetryAttempts(0))
		return err
	})
	if err != nil {
		return fmt.Errorf("publish the tally of second %d: %w", second, err)
	}
	return nil
}

// ReadTallies calls fn with every tally in the stream, oldest first, and then with each new one, until ctx ends or fn
// fails, whose error it returns. caughtUp says that no newer tally was in the stream when this one was sent. When the
// stream is made anew it is read from its start, so fn must know what it has seen.
func (c *Conn) ReadTallies(ctx context.Context, fn func(payload []byte, seq uint64, caughtUp bool) error) error {
	for {
		f := &follower{c: c, stream: event.StreamTally, attached: func(uint64) {}, detached: func() {}}
		err := f.run(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error {
			return fn(m.Data, meta.Sequence.Stream, meta.NumPending == 0)
		})
		if !errors.Is(err, errReplaced) {
			return err
		}
		c.log.Warn("the stream of tallies was made anew; reading it from its start")
	}
}
