package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// keptKind is the kind in the subject of what an erasure kept of a frame.
const keptKind = "kept"

// Headers of what an erasure kept of a frame: the sequence and time of the frame.
const (
	headerKeptSeq  = "Llmtap-Kept-Seq"
	headerKeptTime = "Llmtap-Kept-Time"
)

const (
	storedTimeout = time.Minute      // how long an erasure waits until the effects of a frame are stored
	ownerGone     = 30 * time.Second // after the end of its lease, the owner of a partition is not just slow
)

// A keptFrame is what an erasure kept of a frame that is not in the stream any more. A reader that starts before the frame needs
// it at the position of the frame.
type keptFrame struct {
	seq uint64
	at  time.Time
	msg *nats.Msg // with the subject of the frame
}

func isKept(subject string) bool { return strings.HasPrefix(subject, event.SubjectPrefix+keptKind+".") }

// otherKind returns the subject of a frame with another kind.
func otherKind(subject, from, to string) string {
	return event.SubjectPrefix + to + strings.TrimPrefix(subject, event.SubjectPrefix+from)
}

// parseKept parses a message of keptKind.
func parseKept(m natsjs.Msg) (k keptFrame, err error) {
	h := m.Headers()
	seq, err1 := strconv.ParseUint(h.Get(headerKeptSeq), 10, 64)
	at, err2 := time.Parse(time.RFC3339Nano, h.Get(headerKeptTime))
	if err := errors.Join(err1, err2); err != nil {
		return k, fmt.Errorf("read a kept part of a frame: %w", err)
	}
	return keptFrame{seq, at, &nats.Msg{Subject: otherKind(m.Subject(), keptKind, event.FrameKind), Header: h, Data: m.Data()}}, nil
}

// keptFrom returns the frames from sequence seq on.
func keptFrom(all []keptFrame, seq uint64) []keptFrame {
	return slices.DeleteFunc(slices.Clone(all), func(k keptFrame) bool { return k.seq < seq })
}

// loadKept returns the kept frames of a partition, by sequence.
func loadKept(ctx context.Context, s natsjs.Stream, cfg *ReaderConfig) (all []keptFrame, err error) {
	subjects := []string{event.SubjectPrefix + keptKind + ".>"}
	if cfg.Partitions > 1 {
		subjects = nil
		for _, subject := range cfg.subjects() {
			if shard, ok := strings.CutPrefix(subject, event.SubjectPrefix+"*.*."); ok && len(shard) == 2 {
				subjects = append(subjects, event.SubjectPrefix+keptKind+".*."+shard)
			}
		}
	}
	err = scan(ctx, s, ephemeralConsumer(natsjs.DeliverAllPolicy, subjects), frameBatch, func(batch []natsjs.Msg, _ uint64) error {
		for _, m := range batch {
			if k, err := parseKept(m); err == nil {
				all = append(all, k)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what erasures kept of frames: %w", err)
	}
	slices.SortStableFunc(all, func(a, b keptFrame) int { return int(a.seq) - int(b.seq) })
	slices.Reverse(all) // the last one of each frame is the newest
	all = slices.CompactFunc(all, func(a, b keptFrame) bool { return a.seq == b.seq })
	slices.Reverse(all)
	return all, nil
}

// receiveKept buffers the events of the kept frames before the message seq. A frame that is still in the stream is read from there.
func (r *Reader) receiveKept(ctx context.Context, seq uint64) error {
	for len(r.kept) > 0 && r.kept[0].seq < seq {
		k := r.kept[0]
		r.kept = r.kept[1:]
		r.received = k.seq
		msg := Message{Seq: k.seq, Time: k.at, Replay: k.seq <= r.stored}
		if !msg.Replay {
			msg.Time, msg.shift = r.streamTime(k.at)
		}
		r.mu.Lock()
		pending := r.backlog
		r.mu.Unlock()
		if err := r.buffer(ctx, r.decode(ctx, k.msg, msg), pending); err != nil {
			return err
		}
	}
	if len(r.kept) > 0 && r.kept[0].seq == seq {
		r.kept = r.kept[1:]
	}
	return nil
}

// keep stores messages, which an erasure keeps of the frame at seq, for readers that start before it. It returns when the frame may
// be deleted: when its effects are stored, or when no process reads its partition.
func (c *Conn) keep(ctx context.Context, frame *keptFrame, messages []event.Message) error {
	m := &nats.Msg{Subject: otherKind(frame.msg.Subject, event.FrameKind, keptKind), Data: event.JoinFrame(messages), Header: nats.Header{
		event.HeaderFrame: {event.FrameVersion}, headerKeptSeq: {strconv.FormatUint(frame.seq, 10)}, headerKeptTime: {frame.at.Format(time.RFC3339Nano)},
	}}
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, m, natsjs.WithRetryAttempts(0))
		return err
	})
	if err != nil {
		return fmt.Errorf("store what is kept of frame %d: %w", frame.seq, err)
	}
	shard, err := strconv.ParseUint(m.Subject[len(m.Subject)-2:], 16, 8)
	if err != nil {
		return fmt.Errorf("keep events of frame %d: %w", frame.seq, err)
	}
	// A reader that starts from now on reads m. One that has started does not, so it must have read the frame.
	ctx, cancel := context.WithTimeout(ctx, storedTimeout)
	defer cancel()
	for {
		cp, err := c.checkpointOf(ctx, int(shard))
		if err != nil {
			return err
		}
		if cp.Stored >= frame.seq || cp.Owner == "" || c.now().Sub(cp.Lease) > ownerGone {
			return nil
		}
		if sleep(ctx, time.Second/4) != nil {
			return fmt.Errorf("the events of frame %d are not stored yet, only those up to %d; repeat this when they are", frame.seq, cp.Stored)
		}
	}
}

// checkpointOf returns the checkpoint of the partition of a shard.
func (c *Conn) checkpointOf(ctx context.Context, shard int) (cp checkpoint, err error) {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return cp, err
	}
	n, _, err := readPartitionCount(ctx, kv)
	if err != nil {
		return cp, err
	}
	cp, _, err = readCheckpoint(ctx, kv, checkpointKey(shard%n, n))
	if errors.Is(err, ErrKeyNotFound) {
		return cp, nil
	}
	return cp, err
}
