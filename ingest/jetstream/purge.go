package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// PurgeStored removes the events from the stream that no reader of the n partitions needs any more: their effects are
// stored, and a restart would not replay them. It removes nothing while a partition has no checkpoint. It returns the
// number of removed events.
func (c *Conn) PurgeStored(ctx context.Context, n int) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", event.StreamEvents, err)
	}
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return 0, err
	}
	switch count, _, err := readPartitionCount(ctx, kv); {
	case err != nil:
		return 0, err
	case count != n:
		return 0, nil // the stream is being repartitioned
	}
	before, needed := s.CachedInfo(), uint64(math.MaxUint64)
	for p := range n {
		cp, _, err := readCheckpoint(ctx, kv, checkpointKey(p, n))
		if errors.Is(err, ErrKeyNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if !cp.Stream.Equal(before.Created) {
			return 0, nil
		}
		needed = min(needed, cp.neededFrom())
	}
	if needed <= before.State.FirstSeq || before.State.Msgs == 0 {
		return 0, nil
	}
	if err := s.Purge(ctx, natsjs.WithPurgeSequence(needed)); err != nil {
		return 0, fmt.Errorf("purge stream %s up to %d: %w", event.StreamEvents, needed, err)
	}
	return needed - before.State.FirstSeq, nil
}

// neededFrom returns the oldest sequence that the partition of cp needs.
func (cp *checkpoint) neededFrom() uint64 {
	if cp.ReplayFrom > cp.Stored { // no live state; CaughtUp may be ahead of the last event of the partition
		return max(cp.ReplayFrom, cp.CaughtUp+1)
	}
	return cp.ReplayFrom
}
