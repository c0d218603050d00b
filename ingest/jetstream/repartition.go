package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// partitionsKey is the key of BucketCheckpoint that contains the number of partitions; the default is 1.
const partitionsKey = "partitions"

// lateEvents is the time after the end of a second during which the stream may still receive events of that second.
const lateEvents = 2 * time.Second

// ErrPartitionCount means that the stream has a different number of partitions.
var ErrPartitionCount = errors.New("the stream has another number of partitions")

// A PartitionCountError wraps ErrPartitionCount with the number of partitions.
type PartitionCountError struct{ Partitions int }

func (e *PartitionCountError) Error() string {
	return fmt.Sprintf("%v: %d", ErrPartitionCount, e.Partitions)
}
func (e *PartitionCountError) Unwrap() error { return ErrPartitionCount }

// partitionCount is the value of partitionsKey.
type partitionCount struct {
	Partitions int `json:"partitions"`
}

func checkpointKey(partition, partitions int) string {
	return fmt.Sprintf("p%dof%d", partition, partitions)
}

func readPartitionCount(ctx context.Context, kv *KV) (n int, revision uint64, err error) {
	b, revision, err := kv.Get(ctx, partitionsKey)
	if errors.Is(err, ErrKeyNotFound) {
		return 1, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var count partitionCount
	if err := json.Unmarshal(b, &count); err != nil || count.Partitions < 1 || count.Partitions > MaxPartitions {
		return 0, 0, fmt.Errorf("read the number of partitions: invalid value %q; delete the key %s of %s to read the stream as one partition", b, partitionsKey, event.BucketCheckpoint)
	}
	return count.Partitions, revision, nil
}

// A Repartition changes the number of partitions from M to N at the end of one second of stream time. Events up to
// that point are read, stored and tallied in M partitions, later events in N, so that each is counted exactly once.
//
//	partition 0 of 2  ──stored────────────┤               ┌── 0 of 3
//	                                      ├── LastSecond ─┼── 1 of 3
//	partition 1 of 2  ──stored──┄┄read┄┄┄┄┤    LastSeq    └── 2 of 3
//
// A Repartition holds the leases of all M partitions. Its caller reads each of Readers until io.EOF, which follows
// LastSeq, closes its tallies up to LastSecond, commits LastSeq, and calls Finish.
type Repartition struct {
	Readers    []*Reader
	LastSeq    uint64 // last sequence of the old partitions
	LastSecond int64  // last second of the old partitions, Unix time

	c             *Conn
	kv            *KV
	to            int
	countRevision uint64   // revision of partitionsKey while all leases were held
	checkpoints   []uint64 // revisions of the new partitions' checkpoints at that time
	highestEpoch  uint64   // highest epoch of all old and new partitions
}

// BeginRepartition takes the leases of all partitions to change their number. It waits until the last second of the old
// partitions has passed, a few seconds at most. It returns a *LeaseHeldError while another process holds one of the
// leases, and a *PartitionCountError when another process has changed the number meanwhile.
func (c *Conn) BeginRepartition(ctx context.Context, to int, owner string, ttl time.Duration) (_ *Repartition, err error) {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return nil, err
	}
	from, _, err := readPartitionCount(ctx, kv)
	if err != nil {
		return nil, err
	}
	switch {
	case to < 1 || to > MaxPartitions:
		return nil, fmt.Errorf("repartition the stream: %d partitions are not between 1 and %d", to, MaxPartitions)
	case from == to: // another process was faster
		return nil, fmt.Errorf("repartition the stream: %w", &PartitionCountError{from})
	}
	p := &Repartition{c: c, kv: kv, to: to}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	for i := range from {
		r, err := c.OpenReader(ctx, ReaderConfig{Partition: i, Partitions: from, Owner: owner, LeaseTTL: ttl})
		if err != nil {
			return nil, err
		}
		p.Readers = append(p.Readers, r)
	}
	if err := p.readRevisions(ctx); err != nil {
		return nil, err
	}
	if err := p.findEnd(ctx); err != nil {
		return nil, err
	}
	for _, r := range p.Readers {
		r.endAt(p.LastSeq)
	}
	return p, nil
}

// readRevisions reads the revisions that Finish updates, so that an expired process cannot undo a later repartitioning.
func (p *Repartition) readRevisions(ctx context.Context) (err error) {
	if _, p.countRevision, err = readPartitionCount(ctx, p.kv); err != nil {
		return err
	}
	for _, r := range p.Readers {
		p.highestEpoch = max(p.highestEpoch, r.Epoch())
	}
	for i := range p.to {
		cp, revision, err := readCheckpoint(ctx, p.kv, checkpointKey(i, p.to))
		if err != nil && !errors.Is(err, ErrKeyNotFound) {
			return err
		}
		p.highestEpoch = max(p.highestEpoch, cp.Epoch)
		p.checkpoints = append(p.checkpoints, revision)
	}
	return nil
}

// findEnd sets LastSecond to the earliest second that is not before any partition's tallies or checkpoint, and
// LastSeq to the last sequence of that second.
func (p *Repartition) findEnd(ctx context.Context) error {
	s, err := p.c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", event.StreamEvents, err)
	}
	for _, r := range p.Readers {
		p.LastSecond = max(p.LastSecond, r.LastTally())
		p.LastSeq = max(p.LastSeq, r.Stored())
	}
	switch m, err := s.GetMsg(ctx, p.LastSeq); {
	case err == nil:
		p.LastSecond = max(p.LastSecond, m.Time.Unix())
	case p.LastSeq > 0 && !errors.Is(err, natsjs.ErrMsgNotFound):
		return fmt.Errorf("look up message %d: %w", p.LastSeq, err)
	}
	if p.LastSecond == 0 {
		return nil // nothing was ever read
	}
	end := time.Unix(p.LastSecond+1, 0)
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return fmt.Errorf("look up the time of stream %s: %w", event.StreamEvents, err)
		}
		remaining := end.Add(lateEvents).Sub(info.TimeStamp)
		if remaining <= 0 {
			break
		}
		if err := sleep(ctx, min(remaining, time.Second)); err != nil {
			return err
		}
	}
	cfg := ephemeralConsumer(natsjs.DeliverByStartTimePolicy, nil)
	cfg.OptStartTime = &end
	_, before, err := p.c.pending(ctx, cfg)
	p.LastSeq = max(p.LastSeq, before)
	return err
}

// Finish starts the new partitions after LastSeq, which all readers must have committed. It returns ErrLeaseLost if
// another process has repartitioned the stream meanwhile.
func (p *Repartition) Finish(ctx context.Context) error {
	cp := checkpoint{Stored: p.LastSeq, ReplayFrom: p.LastSeq + 1, Epoch: p.highestEpoch, LastTally: p.LastSecond}
	for _, r := range p.Readers {
		r.mu.Lock()
		old := r.cp
		r.mu.Unlock()
		if old.Stored != p.LastSeq {
			return fmt.Errorf("repartition at %d: partition %d is stored only up to %d", p.LastSeq, r.cfg.Partition, old.Stored)
		}
		cp.ReplayFrom, cp.Stream = min(cp.ReplayFrom, old.ReplayFrom), old.Stream
	}
	update := func(key string, value []byte, revision uint64) error {
		return p.c.retry(ctx, func(ctx context.Context) error {
			_, err := p.kv.Update(ctx, key, value, revision)
			if errors.Is(err, ErrKeyConflict) {
				return fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			return err
		})
	}
	for i, revision := range p.checkpoints {
		if err := update(checkpointKey(i, p.to), cp.encode(), revision); err != nil {
			return fmt.Errorf("start partition %d of %d: %w", i, p.to, err)
		}
	}
	b, err := json.Marshal(partitionCount{p.to})
	if err != nil {
		return fmt.Errorf("encode the number of partitions: %w", err)
	}
	return update(partitionsKey, b, p.countRevision)
}

// Close closes the readers and releases their leases.
func (p *Repartition) Close(ctx context.Context) error {
	var errs []error
	for _, r := range p.Readers {
		errs = append(errs, r.Close(ctx))
	}
	return errors.Join(errs...)
}
