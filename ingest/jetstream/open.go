package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// ReaderConfig selects a partition and its owner.
type ReaderConfig struct {
	// Partition p of N contains the shards s with s mod N = p. N must be the same in all processes and at most
	// MaxPartitions.
	Partition, Partitions int

	// Owner identifies this process among the readers of the partition. A process that restarts under the same name
	// retakes its own lease immediately, so a persistent name must be guarded by other means (a locked directory).
	Owner    string
	LeaseTTL time.Duration // time after which the partition of a dead owner is taken over; 0: DefaultLeaseTTL
}

// OpenReader takes the partition's lease and starts reading at its checkpoint, or at the start of the stream if there
// is no checkpoint. It returns a *LeaseHeldError while another process holds the lease, or a *PartitionCountError.
func (c *Conn) OpenReader(ctx context.Context, cfg ReaderConfig) (*Reader, error) {
	switch {
	case cfg.Partitions < 1 || cfg.Partitions > MaxPartitions || cfg.Partition < 0 || cfg.Partition >= cfg.Partitions:
		return nil, fmt.Errorf("open partition %d of %d: no such partition", cfg.Partition, cfg.Partitions)
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
	rewound, err := c.rewound(ctx, s, kv, checkpointKey(cfg.Partition, cfg.Partitions))
	if err != nil {
		return nil, err
	}
	var info *natsjs.StreamInfo
	lost := uint64(0)
	l, err := c.takeLease(ctx, kv, checkpointKey(cfg.Partition, cfg.Partitions), cfg.Owner, cfg.LeaseTTL, c.expired, func(ctx context.Context, cp *checkpoint) error {
		var err error
		if info, err = s.Info(ctx); err != nil { // not before cp was read: its owner may have stored events since
			return fmt.Errorf("read the state of stream %s: %w", event.StreamEvents, err)
		}
		lost = cfg.share(c.fit(cp, info.Created, info.State.FirstSeq, info.State.LastSeq, rewound))
		return nil
	})
	if err != nil {
		return nil, err
	}
	lastTally, err := c.checkPartition(ctx, kv, cfg)
	if err != nil {
		return nil, errors.Join(err, l.release(ctx))
	}
	r := &Reader{
		c: c, cfg: cfg, label: strconv.Itoa(cfg.Partition), lease: l, stored: l.cp.Stored, epoch: l.cp.Epoch, lastTally: max(lastTally, l.cp.LastTally),
		cp: l.cp, received: l.cp.ReplayFrom - 1, returned: l.cp.ReplayFrom - 1, caughtUp: l.cp.CaughtUp, lossesCounted: max(l.cp.Stored, l.cp.CaughtUp),
		created: info.Created, last: info.State.LastSeq,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	if !l.cp.StoredAt.IsZero() {
		r.clock = Clock{last: l.cp.StoredAt.Add(l.cp.Shift), shift: l.cp.Shift}
	}
	r.countLost(lost)
	r.start(info.Created) //nolint:contextcheck // the reader runs until Close; ctx is only for OpenReader
	return r, nil
}

// checkPartition verifies the number of partitions and returns the second of the partition's last tally. The caller
// holds the partition's lease; the number can no longer change, because a repartitioning requires all leases.
func (c *Conn) checkPartition(ctx context.Context, kv *KV, cfg ReaderConfig) (lastTally int64, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		n, _, err := readPartitionCount(ctx, kv)
		if err != nil {
			return err
		}
		if n != cfg.Partitions {
			return &PartitionCountError{Partitions: n}
		}
		lastTally, err = c.lastTally(ctx, cfg.Partition)
		return err
	})
	return lastTally, err
}

// A rewind says that a stream has lost its end and has stored other messages under the same sequences since. The zero value is
// that of a stream that has not.
type rewind struct {
	stored   uint64    // sequence of the checkpoint
	storedAt time.Time // timestamp of the lost message
	last     uint64    // last sequence before the other messages
}

// rewound returns the rewind of the event stream below the checkpoint at key. A server whose files were not synced to disk
// loses the newest messages when its machine dies. Without this check, the messages that hooks have published since would
// count as stored.
func (c *Conn) rewound(ctx context.Context, s natsjs.Stream, kv *KV, key string) (r rewind, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		cp, _, err := readCheckpoint(ctx, kv, key)
		if errors.Is(err, ErrKeyNotFound) || err == nil && (cp.StoredAt.IsZero() || !cp.Stream.Equal(s.CachedInfo().Created)) {
			return nil
		}
		if err != nil {
			return err
		}
		if cp.Stored <= s.CachedInfo().State.LastSeq {
			if same, err := sameMessage(ctx, s, cp.Stored, cp.StoredAt); err != nil || same {
				return err
			}
		}
		cfg, after := ephemeralConsumer(natsjs.DeliverByStartTimePolicy, nil), cp.StoredAt.Add(1)
		cfg.OptStartTime = &after
		_, before, err := c.pending(ctx, cfg)
		if before >= cp.Stored {
			before = 0 // the clock of the server was set back: read all messages again
		}
		r = rewind{cp.Stored, cp.StoredAt, before}
		return err
	})
	return r, err
}

// sameMessage reports whether the message seq of s has the timestamp at, or has left the stream.
func sameMessage(ctx context.Context, s natsjs.Stream, seq uint64, at time.Time) (bool, error) {
	m, err := s.GetMsg(ctx, seq)
	switch {
	case errors.Is(err, natsjs.ErrMsgNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look up message %d: %w", seq, err)
	}
	return m.Time.Equal(at), nil
}

// fit makes cp consistent with the stream: ReplayFrom is at least first, Stored at least first-1. It returns the
// number of messages after Stored that are no longer in the stream.
func (c *Conn) fit(cp *checkpoint, created time.Time, first, last uint64, r rewind) (lost uint64) {
	first = max(first, 1)
	stored := cp.Stored
	defer func() {
		if cp.Stored != stored {
			cp.StoredAt, cp.Shift = time.Time{}, 0
		}
	}()
	if r.stored > 0 && r.stored == cp.Stored && r.storedAt.Equal(cp.StoredAt) && r.last < last {
		c.log.Error("the event stream has other events than those of the checkpoint: its server lost events that were not synced to disk; reading the others",
			"stored", cp.Stored, "from", r.last+1)
		cp.Stored, cp.CaughtUp = r.last, 0
	}
	switch {
	case cp.Stream.IsZero():
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case !cp.Stream.Equal(created):
		c.log.Error("the event stream was recreated; reading it from its start", "stored", cp.Stored, "first", first)
		*cp = checkpoint{Epoch: cp.Epoch, Stored: first - 1}
	case cp.Stored > last:
		c.log.Error("the event stream ends before the checkpoint: its server lost events that were not synced to disk", "stored", cp.Stored, "last", last)
		cp.Stored, cp.CaughtUp = last, 0
	case cp.Stored+1 < first:
		if from := max(cp.Stored, cp.CaughtUp) + 1; from < first {
			lost = first - from
		}
		cp.Stored = first - 1
	}
	cp.Stream = created
	cp.ReplayFrom = min(max(cp.ReplayFrom, first), cp.Stored+1)
	return lost
}
