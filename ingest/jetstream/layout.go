package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// layoutKey holds the number of partitions that the checkpoints are of; without it that is 1.
const layoutKey = "layout"

// cutSettle is how long after the last second before a cut the stream may still get an event of that second.
const cutSettle = 2 * time.Second

// ErrPartitionCount means that the stream is cut into another number of partitions.
var ErrPartitionCount = errors.New("the stream is read in another number of partitions")

// A PartitionCountError wraps ErrPartitionCount and says which number it is.
type PartitionCountError struct{ Partitions int }

func (e *PartitionCountError) Error() string {
	return fmt.Sprintf("%v: %d", ErrPartitionCount, e.Partitions)
}
func (e *PartitionCountError) Unwrap() error { return ErrPartitionCount }

type layout struct {
	Partitions int `json:"partitions"`
}

func checkpointKey(partition, partitions int) string {
	return fmt.Sprintf("p%dof%d", partition, partitions)
}

func readLayout(ctx context.Context, kv *KV) (partitions int, revision uint64, err error) {
	b, revision, err := kv.Get(ctx, layoutKey)
	if errors.Is(err, ErrKeyNotFound) {
		return 1, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var l layout
	if err := json.Unmarshal(b, &l); err != nil || l.Partitions < 1 || l.Partitions > MaxPartitions {
		return 0, 0, fmt.Errorf("read the number of partitions: %q is none; delete the key %s of %s to read the stream as one", b, layoutKey, event.BucketCheckpoint)
	}
	return l.Partitions, revision, nil
}

// A Cut changes the number of partitions from M to N at the end of one second of stream time. Up to it everything is read,
// stored and tallied in M partitions, after it in N, so that nothing is counted in both or in neither.
//
//	partition 0 of 2  ──stored────────────┤           ┌── 0 of 3
//	                                      ├── Second ─┼── 1 of 3
//	partition 1 of 2  ──stored──┄┄read┄┄┄┄┤    Seq    └── 2 of 3
//
// Whoever makes the cut holds the leases of all M partitions. It reads each of Readers to its end, which is at Seq, closes
// its tallies up to Second, commits Seq, and calls Finish.
type Repartition struct {
	Readers    []*Reader
	LastSeq    uint64 // the last sequence of the old partitions
	LastSecond int64  // Unix time of their last second

	c        *Conn
	kv       *KV
	to       int
	revision uint64   // of the layout, while all leases were held
	keys     []uint64 // revisions of the new partitions' checkpoints, likewise
	epoch    uint64   // the highest of all those
}

// BeginRepartition takes all leases of the stream's partitions to cut it into another number. It waits until the second of the cut
// is over, some seconds at most. While another process holds one of the leases it returns a *LeaseHeldError, and a
// *PartitionCountError when another process has cut the stream meanwhile.
func (c *Conn) BeginRepartition(ctx context.Context, to int, owner string, ttl time.Duration) (_ *Repartition, err error) {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return nil, err
	}
	from, _, err := readLayout(ctx, kv)
	if err != nil {
		return nil, err
	}
	switch {
	case to < 1 || to > MaxPartitions:
		return nil, fmt.Errorf("cut the stream into %d partitions: not possible", to)
	case from == to: // somebody was faster
		return nil, fmt.Errorf("cut the stream: %w", &PartitionCountError{from})
	}
	cut := &Repartition{c: c, kv: kv, to: to}
	defer func() {
		if err != nil {
			err = errors.Join(err, cut.Close(ctx))
		}
	}()
	for p := range from {
		r, err := c.OpenReader(ctx, ReaderConfig{Partition: p, Partitions: from, Owner: owner, LeaseTTL: ttl})
		if err != nil {
			return nil, err
		}
		cut.Readers = append(cut.Readers, r)
	}
	if err := cut.remember(ctx); err != nil {
		return nil, err
	}
	if err := cut.place(ctx); err != nil {
		return nil, err
	}
	for _, r := range cut.Readers {
		r.endAt(cut.LastSeq)
	}
	return cut, nil
}

// remember notes what Finish will change, so that it changes nothing that someone else did in the meantime: who sleeps
// through its leases must not undo a later cut.
func (cut *Repartition) remember(ctx context.Context) (err error) {
	if _, cut.revision, err = readLayout(ctx, cut.kv); err != nil {
		return err
	}
	for _, r := range cut.Readers {
		cut.epoch = max(cut.epoch, r.Epoch())
	}
	for p := range cut.to {
		cp, revision, err := readCheckpoint(ctx, cut.kv, checkpointKey(p, cut.to))
		if err != nil && !errors.Is(err, ErrKeyNotFound) {
			return err
		}
		cut.epoch = max(cut.epoch, cp.Epoch)
		cut.keys = append(cut.keys, revision)
	}
	return nil
}

// place finds the earliest second that no partition's tallies or checkpoint go beyond, and its last sequence.
func (cut *Repartition) place(ctx context.Context) error {
	s, err := cut.c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", event.StreamEvents, err)
	}
	for _, r := range cut.Readers {
		cut.LastSecond = max(cut.LastSecond, r.LastTally())
		cut.LastSeq = max(cut.LastSeq, r.Stored())
	}
	switch m, err := s.GetMsg(ctx, cut.LastSeq); {
	case err == nil:
		cut.LastSecond = max(cut.LastSecond, m.Time.Unix())
	case cut.LastSeq > 0 && !errors.Is(err, natsjs.ErrMsgNotFound):
		return fmt.Errorf("look up message %d: %w", cut.LastSeq, err)
	}
	if cut.LastSecond == 0 {
		return nil // nothing was ever read
	}
	end := time.Unix(cut.LastSecond+1, 0)
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return fmt.Errorf("ask for the time of stream %s: %w", event.StreamEvents, err)
		}
		left := end.Add(cutSettle).Sub(info.TimeStamp)
		if left <= 0 {
			break
		}
		if err := sleep(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	_, before, err := cut.c.look(ctx, natsjs.ConsumerConfig{DeliverPolicy: natsjs.DeliverByStartTimePolicy, OptStartTime: &end})
	cut.LastSeq = max(cut.LastSeq, before)
	return err
}

// Finish makes the new partitions start at the cut. All readers must have committed Seq. It returns ErrLeaseLost when
// someone else has cut the stream since.
func (cut *Repartition) Finish(ctx context.Context) error {
	cp := checkpoint{Stored: cut.LastSeq, ReplayFrom: cut.LastSeq + 1, Epoch: cut.epoch, Tallied: cut.LastSecond}
	for _, r := range cut.Readers {
		r.mu.Lock()
		old := r.cp
		r.mu.Unlock()
		if old.Stored != cut.LastSeq {
			return fmt.Errorf("cut at %d: partition %d is stored up to %d only", cut.LastSeq, r.cfg.Partition, old.Stored)
		}
		cp.ReplayFrom, cp.Stream = min(cp.ReplayFrom, old.ReplayFrom), old.Stream
	}
	update := func(key string, value []byte, revision uint64) error {
		return cut.c.retry(ctx, func(ctx context.Context) error {
			_, err := cut.kv.Update(ctx, key, value, revision)
			if errors.Is(err, ErrKeyConflict) {
				return fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			return err
		})
	}
	for p, revision := range cut.keys {
		if err := update(checkpointKey(p, cut.to), cp.encode(), revision); err != nil {
			return fmt.Errorf("start partition %d of %d: %w", p, cut.to, err)
		}
	}
	b, err := json.Marshal(layout{cut.to})
	if err != nil {
		return fmt.Errorf("encode the number of partitions: %w", err)
	}
	return update(layoutKey, b, cut.revision)
}

// Close closes the readers and gives the leases back.
func (cut *Repartition) Close(ctx context.Context) error {
	var errs []error
	for _, r := range cut.Readers {
		errs = append(errs, r.Close(ctx))
	}
	return errors.Join(errs...)
}
