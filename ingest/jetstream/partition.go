package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// MaxPartitions is the number of shards, because every partition has at least one.
const MaxPartitions = 256

// caughtUpInterval is the interval at which an idle reader updates the CaughtUp sequence of its checkpoint.
const caughtUpInterval = 20 * time.Second

// subjects returns the subject filter of the partition's consumer, or nil if there is only one partition. The filter
// includes shards in upper case, which are also valid. Messages with malformed subjects belong to partition 0, which
// stores them as dead letters.
func (cfg *ReaderConfig) subjects() []string {
	if cfg.Partitions == 1 {
		return nil
	}
	var list []string
	for shard := cfg.Partition; shard < MaxPartitions; shard += cfg.Partitions {
		lower, upper := fmt.Sprintf("%02x", shard), fmt.Sprintf("%02X", shard)
		tokens := []string{lower, lower[:1] + upper[1:], upper[:1] + lower[1:], upper}
		slices.Sort(tokens)
		for _, token := range slices.Compact(tokens) {
			list = append(list, event.SubjectPrefix+"*.*."+token)
		}
	}
	if cfg.Partition == 0 {
		list = append(list, event.SubjectPrefix+"*", event.SubjectPrefix+"*.*", event.SubjectPrefix+"*.*.*.>")
	}
	return list
}

// share returns the partition's share of n messages with unknown shards. The shares of all partitions add up to n.
func (cfg *ReaderConfig) share(n uint64) uint64 {
	share, rest := n/uint64(cfg.Partitions), n%uint64(cfg.Partitions)
	if uint64(cfg.Partition) < rest {
		share++
	}
	return share
}

// CaughtUp asks JetStream whether Next has returned every message of the partition. at is the stream time of
// the answer. ok is false if messages are pending or the state is unknown.
func (r *Reader) CaughtUp(ctx context.Context) (at time.Time, ok bool) {
	att := r.follow.attached.Load()
	if att == nil || r.Pending() > 0 {
		return at, false
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var last uint64 // last sequence of the stream before the consumer is queried
	if now := time.Now(); r.cfg.Partitions > 1 && now.Sub(r.caughtUpAt) >= caughtUpInterval {
		if s, err := r.c.js.Stream(ctx, event.StreamEvents); err == nil {
			last, r.caughtUpAt = s.CachedInfo().State.LastSeq, now
		}
	}
	delivered := att.delivered.Load()
	consumer, err := r.c.js.Consumer(ctx, event.StreamEvents, att.consumer)
	if err != nil {
		return at, false
	}
	info := consumer.CachedInfo()
	if info.NumPending > 0 || info.Delivered.Consumer != delivered || r.Pending() > 0 {
		return at, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored >= r.returned { // while the store refuses rows, messages are read that are not stored
		r.caughtUp = max(r.caughtUp, last)
	}
	r.lossesCounted = max(r.lossesCounted, last)
	return info.TimeStamp.Add(r.clock.shift), true
}

// setCaughtUp sets the CaughtUp sequence of a checkpoint.
func (r *Reader) setCaughtUp(cp *checkpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cp.CaughtUp = r.caughtUp
}

// countGap counts the events that the stream dropped between the last message and the one at seq.
func (r *Reader) countGap(seq, pending uint64) {
	if from := max(r.received, r.stored); r.cfg.Partitions == 1 {
		if seq > from+1 {
			r.countLost(seq - from - 1)
		}
		return
	}
	// Skipped sequences may belong to other partitions. But the consumer's pending count decreases only by deliveries
	// and by events that the stream drops.
	if r.pendingBefore > pending+1 {
		r.countLost(r.pendingBefore - pending - 1)
	}
	r.pendingBefore = pending
}

// countDropped counts the events after the last received message that the stream dropped. It is called before each
// pull.
func (r *Reader) countDropped(ctx context.Context) {
	r.mu.Lock()
	r.pendingBefore = r.backlog
	r.mu.Unlock()
	if r.pendingBefore == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := r.c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return // the next pull retries
	}
	r.mu.Lock()
	first, from := s.CachedInfo().State.FirstSeq, max(r.lossesCounted, r.received)+1
	r.lossesCounted = max(first, from) - 1
	r.mu.Unlock()
	if first > from {
		r.pendingBefore = 0 // what it would show is counted here
		r.countLost(r.cfg.share(first - from))
	}
}

// endAt makes Next return io.EOF after the sequence last.
func (r *Reader) endAt(last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasEnd, r.end = true, last
}

// checkEnd checks whether messages remain before the end. JetStream counts them when a consumer is created.
func (r *Reader) checkEnd(ctx context.Context) {
	r.mu.Lock()
	returned, end := r.returned, r.end
	check := r.hasEnd && returned < end && len(r.buf) == 0
	r.mu.Unlock()
	if !check {
		return
	}
	cfg := ephemeralConsumer(natsjs.DeliverByStartSequencePolicy, r.cfg.subjects())
	cfg.OptStartSeq = returned + 1
	if pending, _, err := r.c.pending(ctx, cfg); err != nil || pending > 0 {
		return // the next call of Next retries, or the messages are in flight
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buf) == 0 {
		r.returned = end
	}
}
