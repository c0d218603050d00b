package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// PublishTally stores the counts of one second of one partition as an opaque payload. The same second of the same
// epoch is stored only once. While NATS is unreachable, PublishTally retries until ctx ends.
func (c *Conn) PublishTally(ctx context.Context, partition int, epoch uint64, second int64, payload []byte) error {
	msg := &nats.Msg{
		Subject: tallySubject(partition), Data: payload,
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

func tallySubject(partition int) string { return event.TallyPrefix + strconv.Itoa(partition) }

// lastTally returns the second of the partition's newest tally, or 0 if there is none.
func (c *Conn) lastTally(ctx context.Context, partition int) (int64, error) {
	s, err := c.js.Stream(ctx, event.StreamTally)
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", event.StreamTally, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, tallySubject(partition))
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the newest tally of partition %d: %w", partition, err)
	}
	id := m.Header.Get(event.HeaderMsgID)
	second, err := strconv.ParseInt(id[strings.LastIndexByte(id, '.')+1:], 10, 64)
	if err != nil {
		c.log.Warn("the newest tally has an invalid message id", "partition", partition, "id", id)
		return 0, nil
	}
	return second, nil
}

// ReadTallies calls fn with every tally in the stream, oldest first, and then with each new tally, until ctx ends or
// fn fails. caughtUp reports whether the tally was the newest one at its delivery. A recreated stream is read from
// its start, so fn must ignore tallies that it has processed.
func (c *Conn) ReadTallies(ctx context.Context, fn func(payload []byte, seq uint64, caughtUp bool) error) error {
	for {
		f := &follower{c: c, stream: event.StreamTally, onAttach: func(uint64) {}, onDetach: func() {}}
		err := f.run(ctx, func(m *nats.Msg, meta *nats.MsgMetadata) error {
			return fn(m.Data, meta.Sequence.Stream, meta.NumPending == 0)
		})
		if !errors.Is(err, errReplaced) {
			return err
		}
		c.log.Warn("the tally stream was recreated; reading it from its start")
	}
}
