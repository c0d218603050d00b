package jetstream

import (
	"context"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// MaxPartitions is the number of shards: a partition holds one at least.
const MaxPartitions = 256

// clearEvery is how often a reader that has nothing to read notes so in its checkpoint.
const clearEvery = 20 * time.Second

// subjects are the filter of the partition's consumer; none with one partition. Shards in capitals decode as well. Subjects
// that are no subjects of the contract go to partition 0, to become dead letters there.
func (cfg *ReaderConfig) subjects() []string {
	if cfg.Partitions == 1 {
		return nil
	}
	const hex, capitals = "0123456789abcdef", "0123456789ABCDEF"
	var list []string
	for shard := cfg.Partition; shard < MaxPartitions; shard += cfg.Partitions {
		high, low := shard>>4, shard&15
		seen := map[string]bool{}
		for _, token := range []string{
			hex[high:high+1] + hex[low:low+1], capitals[high:high+1] + hex[low:low+1],
			hex[high:high+1] + capitals[low:low+1], capitals[high:high+1] + capitals[low:low+1],
		} {
			if !seen[token] {
				seen[token] = true
				list = append(list, event.SubjectPrefix+"*.*."+token)
			}
		}
	}
	if cfg.Partition == 0 {
		list = append(list, event.SubjectPrefix+"*", event.SubjectPrefix+"*.*", event.SubjectPrefix+"*.*.*.>")
	}
	return list
}

// share is the partition's part of n messages whose shards nobody knows; the parts of all partitions add up to n.
func (cfg *ReaderConfig) share(n uint64) uint64 {
	part, rest := n/uint64(cfg.Partitions), n%uint64(cfg.Partitions)
	if uint64(cfg.Partition) < rest {
		part++
	}
	return part
}

// CaughtUp asks JetStream whether Next has returned everything that the partition had at some time just now, and returns
// that time by the server's clock. It is false when it is not so, or not known.
func (r *Reader) CaughtUp(ctx context.Context) (at time.Time, ok bool) {
	place := r.follow.at.Load()
	if place == nil || r.Pending() > 0 {
		return at, false
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var last uint64 // what the stream had before the consumer is asked
	if now := time.Now(); r.cfg.Partitions > 1 && now.Sub(r.looked) >= clearEvery {
		if s, err := r.c.js.Stream(ctx, event.StreamEvents); err == nil {
			last, r.looked = s.CachedInfo().State.LastSeq, now
		}
	}
	taken := place.taken.Load()
	consumer, err := r.c.js.Consumer(ctx, event.StreamEvents, place.consumer)
	if err != nil {
		return at, false
	}
	info := consumer.CachedInfo()
	if info.NumPending > 0 || info.Delivered.Consumer != taken || r.Pending() > 0 {
		return at, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear = max(r.clear, last)
	r.counted = max(r.counted, last)
	return info.TimeStamp, true
}

// noteClear adds to a checkpoint what is written with it.
func (r *Reader) noteClear(cp *checkpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cp.Clear = r.clear
}

// countHole counts what the stream dropped between the last message and the one at seq.
func (r *Reader) countHole(seq, left uint64) {
	if from := max(r.seen, r.stored); r.cfg.Partitions == 1 {
		if seq > from+1 {
			r.countLost(seq - from - 1)
		}
		return
	}
	// The sequences between are those of other partitions. But what is left never becomes less by itself.
	if r.left > left+1 {
		r.countLost(r.left - left - 1)
	}
	r.left = left
}

// countGone counts what the stream dropped behind the last message, before more is asked for. Only a reader that is behind
// can have lost something.
func (r *Reader) countGone(ctx context.Context) {
	r.left = 0
	r.mu.Lock()
	behind := r.behind > 0
	r.mu.Unlock()
	if !behind {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := r.c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return // the next pull asks again
	}
	r.mu.Lock()
	first, from := s.CachedInfo().State.FirstSeq, max(r.counted, r.seen)+1
	r.counted = max(first, from) - 1
	r.mu.Unlock()
	if first > from {
		r.countLost(r.cfg.share(first - from))
	}
}

// endAt makes the reader return nothing after the sequence until, and then io.EOF.
func (r *Reader) endAt(until uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends, r.until = true, until
}

// lookForEnd finds out whether something is left to read before the end. A new consumer counts it in the store itself.
func (r *Reader) lookForEnd(ctx context.Context) {
	r.mu.Lock()
	given, until := r.given, r.until
	look := r.ends && given < until && len(r.buf) == 0
	r.mu.Unlock()
	if !look {
		return
	}
	left, _, err := r.c.look(ctx, natsjs.ConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: given + 1, FilterSubjects: r.cfg.subjects(),
	})
	if err != nil || left > 0 {
		return // Next comes again, or what is left is on its way
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buf) == 0 {
		r.given = until
	}
}

// look makes a consumer for a moment, and returns how many messages it would deliver and the sequence before the first.
func (c *Conn) look(ctx context.Context, cfg natsjs.ConsumerConfig) (left, before uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cfg.AckPolicy, cfg.MemoryStorage, cfg.Replicas, cfg.InactiveThreshold = natsjs.AckNonePolicy, true, 1, time.Minute
	consumer, err := c.js.CreateConsumer(ctx, event.StreamEvents, cfg)
	if err != nil {
		return 0, 0, fmt.Errorf("look into stream %s: %w", event.StreamEvents, err)
	}
	info := consumer.CachedInfo()
	if err := c.js.DeleteConsumer(ctx, event.StreamEvents, info.Name); err != nil {
		c.log.Debug("a consumer is left to its time-out", "err", err)
	}
	return info.NumPending, info.Delivered.Stream, nil
}
