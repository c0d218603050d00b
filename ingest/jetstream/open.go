package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
)

// ReaderConfig says what to read and as whom.
type ReaderConfig struct {
	// Partition p of N holds the shards s with s mod N = p; N is 1 to MaxPartitions and the same for every process, see
	// Cut.
	Partition, Partitions int

	// Owner names this process among those that may read the partition. A process that starts again under the same
	// name takes its own lease back at once, so a name that stays must be guarded by something else (a locked
	// directory).
	Owner    string
	LeaseTTL time.Duration // after it, a dead owner's partition is taken over; 0: 15 s
}

// OpenReader takes the partition's lease and starts to read at its checkpoint, or at the start of the stream when there
// is none. While another process holds the lease it returns a *LeaseHeldError, and a *PartitionCountError when the stream is cut
// into another number of partitions.
func (c *Conn) OpenReader(ctx context.Context, cfg ReaderConfig) (*Reader, error) {
	switch {
	case cfg.Partitions < 1 || cfg.Partitions > MaxPartitions || cfg.Partition < 0 || cfg.Partition >= cfg.Partitions:
		return nil, fmt.Errorf("open partition %d of %d: there is no such partition", cfg.Partition, cfg.Partitions)
	case cfg.Owner == "":
		return nil, errors.New("open reader: owner is empty")
	}
	if cfg.LeaseTTL <= 0 {
		cfg.LeaseTTL = DefaultLeaseTTL
	}
	s, err := c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", event.StreamEvents, err)
	}
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return nil, err
	}
	info, lost := s.CachedInfo(), uint64(0)
	l, err := c.takeLease(ctx, kv, checkpointKey(cfg.Partition, cfg.Partitions), cfg.Owner, cfg.LeaseTTL, func(cp *checkpoint) {
		lost = cfg.share(c.fit(cp, info.Created, info.State.FirstSeq, info.State.LastSeq))
	})
	if err != nil {
		return nil, err
	}
	tallied, err := c.mayRead(ctx, kv, cfg)
	if err != nil {
		return nil, errors.Join(err, l.release(ctx))
	}
	r := &Reader{
		c: c, cfg: cfg, label: strconv.Itoa(cfg.Partition), lease: l, stored: l.cp.Stored, epoch: l.cp.Epoch, tallied: max(tallied, l.cp.Tallied),
		cp: l.cp, seen: l.cp.ReplayFrom - 1, given: l.cp.ReplayFrom - 1, clear: l.cp.Clear, counted: max(l.cp.Stored, l.cp.Clear),
		created: info.Created, last: info.State.LastSeq,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	r.countLost(lost)
	r.start(info.Created) //nolint:contextcheck // the reader lasts until Close; ctx bounds the opening
	return r, nil
}

// mayRead returns the second up to which the partition's tallies are published. It is asked while the lease is held: who
// cuts the stream anew holds all leases, so the number of partitions cannot change any more.
func (c *Conn) mayRead(ctx context.Context, kv *KV, cfg ReaderConfig) (tallied int64, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		have, _, err := readLayout(ctx, kv)
		if err != nil {
			return err
		}
		if have != cfg.Partitions {
			return &PartitionCountError{Partitions: have}
		}
		tallied, err = c.lastTally(ctx, cfg.Partition)
		return err
	})
	return tallied, err
}

// fit makes cp agree with the stream: its ReplayFrom is at least first, its Stored at least first-1. It returns how many
// messages after Stored the stream no longer has.
func (c *Conn) fit(cp *checkpoint, created time.Time, first, last uint64) (lost uint64) {
	first = max(first, 1)
	switch {
	case cp.Stream.IsZero():
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case !cp.Stream.Equal(created):
		c.log.Error("the stream of events was made anew; reading it from its start", "stored", cp.Stored, "first", first)
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case cp.Stored > last:
		c.log.Error("the stream of events ends before the checkpoint: its server lost what was not on its disk", "stored", cp.Stored, "last", last)
		cp.Stored, cp.Clear = last, 0
	case cp.Stored+1 < first:
		if from := max(cp.Stored, cp.Clear) + 1; from < first {
			lost = first - from
		}
		cp.Stored = first - 1
	}
	cp.Stream = created
	cp.ReplayFrom = min(max(cp.ReplayFrom, first), cp.Stored+1)
	return lost
}
