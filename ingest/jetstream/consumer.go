package jetstream

import (
	"context"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// ephemeralConsumer returns the configuration of a consumer in memory that JetStream removes after a minute without pulls.
func ephemeralConsumer(policy natsjs.DeliverPolicy, subjects []string) natsjs.ConsumerConfig {
	return natsjs.ConsumerConfig{
		DeliverPolicy: policy, FilterSubjects: subjects, AckPolicy: natsjs.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
}

// scan calls fn with the messages of cfg that are in the stream now, in batches of at most size, and their total number.
func scan(ctx context.Context, s natsjs.Stream, cfg natsjs.ConsumerConfig, size uint64, fn func(batch []natsjs.Msg, total uint64) error) error {
	consumer, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	info := consumer.CachedInfo()
	defer func() { _ = s.DeleteConsumer(ctx, info.Name) }() // otherwise JetStream removes it when it is idle
	for remaining := info.NumPending; remaining > 0; {
		fetched, err := consumer.Fetch(int(min(remaining, size)), natsjs.FetchMaxWait(requestTimeout))
		if err != nil {
			return fmt.Errorf("fetch messages: %w", err)
		}
		var batch []natsjs.Msg
		for m := range fetched.Messages() {
			batch = append(batch, m)
		}
		if err := fetched.Error(); err != nil {
			return fmt.Errorf("fetch messages: %w", err)
		}
		if len(batch) == 0 {
			return nil // the remaining messages have left the stream
		}
		if err := fn(batch, info.NumPending); err != nil {
			return err
		}
		remaining -= min(uint64(len(batch)), remaining)
	}
	return nil
}

// pending returns the number of events that a consumer with cfg would deliver, and the sequence before the first. JetStream
// counts them when it creates the consumer.
func (c *Conn) pending(ctx context.Context, cfg natsjs.ConsumerConfig) (n, before uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	consumer, err := c.js.CreateConsumer(ctx, event.StreamEvents, cfg)
	if err != nil {
		return 0, 0, fmt.Errorf("count messages of stream %s: %w", event.StreamEvents, err)
	}
	info := consumer.CachedInfo()
	if err := c.js.DeleteConsumer(ctx, event.StreamEvents, info.Name); err != nil {
		c.log.Debug("consumer not deleted; it expires", "err", err)
	}
	return info.NumPending, info.Delivered.Stream, nil
}
