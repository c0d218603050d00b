package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	frameBatch    = 16          // frames to fetch at once
	storedTimeout = time.Minute // how long an erasure waits until the other events of a frame are stored
)

// erasureKey is the key of BucketCheckpoint that changes when stored bodies are erased.
const erasureKey = "erasure"

// An ErasureSubject selects the messages to erase.
type ErasureSubject struct {
	Conversation string              // value of the conversation header
	User         string              // value of the user header; used if Conversation is empty
	Exchanges    map[string]struct{} // ids of further exchanges to erase, regardless of their headers
	Inferred     bool                // some of Exchanges lack the conversation header, so all shards are scanned
}

// Erased counts the messages and the events of frames of an ErasureSubject.
type Erased struct {
	Scanned, Events, DeadLetters uint64
}

// Erase deletes the messages of target from the events and the dead letters and overwrites them on disk. A dry run only
// counts them. Messages that arrive during the erasure are not scanned. progress is called regularly.
func (c *Conn) Erase(ctx context.Context, target ErasureSubject, dryRun bool, progress func(scanned, total uint64)) (n Erased, err error) {
	subject, shard := event.SubjectAll, "*"
	if target.Conversation != "" && !target.Inferred {
		shard = fmt.Sprintf("%02x", event.ShardOf(target.Conversation))
		subject = event.SubjectPrefix + "*.*." + shard
	}
	erase := func(stream, subject string, size uint64, headersOnly bool, found *uint64, one func(s natsjs.Stream, m natsjs.Msg, meta *natsjs.MsgMetadata) (uint64, error)) error {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", stream, err)
		}
		cfg := ephemeralConsumer(natsjs.DeliverAllPolicy, []string{subject})
		cfg.HeadersOnly = headersOnly
		before := n.Scanned
		err = scan(ctx, s, cfg, size, func(batch []natsjs.Msg, total uint64) error {
			for _, m := range batch {
				meta, err := m.Metadata()
				if err != nil {
					continue
				}
				erased, err := one(s, m, meta)
				if *found += erased; err != nil {
					return err
				}
			}
			n.Scanned += uint64(len(batch))
			progress(n.Scanned, before+total)
			return nil
		})
		if err != nil {
			return fmt.Errorf("erase messages of stream %s: %w", stream, err)
		}
		return nil
	}
	message := func(s natsjs.Stream, m natsjs.Msg, meta *natsjs.MsgMetadata) (uint64, error) {
		if !target.matches(m.Subject(), m.Headers(), m.Data()) {
			return 0, nil
		}
		return 1, secureDelete(ctx, s, meta.Sequence.Stream, dryRun)
	}
	if err := erase(event.StreamEvents, subject, 500, true, &n.Events, message); err != nil {
		return n, err
	}
	err = erase(event.StreamEvents, event.SubjectPrefix+event.FrameKind+".*."+shard, frameBatch, false, &n.Events, func(s natsjs.Stream, m natsjs.Msg, meta *natsjs.MsgMetadata) (uint64, error) {
		return c.eraseFrame(ctx, s, m, meta.Sequence.Stream, target, dryRun)
	})
	if err != nil {
		return n, err
	}
	return n, erase(event.StreamDead, event.DeadPrefix+">", 500, false, &n.DeadLetters, message)
}

// eraseFrame deletes the frame at seq if some of its events belong to target, and returns their number. Others in it, see
// event.MayFollow, go with them once their effects are stored.
func (c *Conn) eraseFrame(ctx context.Context, s natsjs.Stream, m natsjs.Msg, seq uint64, target ErasureSubject, dryRun bool) (n uint64, err error) {
	all, _ := event.SplitFrame(m.Subject(), event.Header(m.Headers()), m.Data()) // what follows a defect is no event
	for _, m := range all {
		if target.matches(m.Subject, nats.Header(m.Header), nil) {
			n++
		}
	}
	if n == 0 || dryRun {
		return n, nil
	}
	if n < uint64(len(all)) {
		_, _, shard, err := event.ParseSubject(all[0].Subject)
		if err != nil {
			return 0, fmt.Errorf("erase a part of frame %d: %w", seq, err)
		}
		if err := c.awaitStored(ctx, seq, int(shard)); err != nil {
			return 0, err
		}
	}
	return n, secureDelete(ctx, s, seq, dryRun)
}

// awaitStored waits until the effects of the message at seq of a shard are stored.
func (c *Conn) awaitStored(ctx context.Context, seq uint64, shard int) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	for end := time.Now().Add(storedTimeout); ; {
		n, _, err := readPartitionCount(ctx, kv)
		if err != nil {
			return err
		}
		cp, _, err := readCheckpoint(ctx, kv, checkpointKey(shard%n, n))
		if err != nil && !errors.Is(err, ErrKeyNotFound) {
			return err
		}
		if cp.Stored >= seq {
			return nil
		}
		if time.Now().After(end) || sleep(ctx, time.Second/4) != nil {
			return fmt.Errorf("message %d has events of others that are not stored yet, only those up to %d; repeat this when they are", seq, cp.Stored)
		}
	}
}

// secureDelete deletes and overwrites a message if it is still in the stream.
func secureDelete(ctx context.Context, s natsjs.Stream, seq uint64, dryRun bool) error {
	if dryRun {
		return nil
	}
	err := s.SecureDeleteMsg(ctx, seq)
	if err == nil {
		return nil
	}
	if _, gone := s.GetMsg(ctx, seq); errors.Is(gone, natsjs.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("delete message %d: %w", seq, err)
}

// matches reports whether a message that is an event or a dead letter belongs to target. A dead letter may be a frame.
func (target *ErasureSubject) matches(subject string, h nats.Header, data []byte) bool {
	if h.Get(headerDeadReason) == reasonRow {
		return target.matchesRow(data)
	}
	if s := h.Get(HeaderDeadSubject); s != "" {
		subject = s
		if event.IsFrame(s) {
			all, _ := event.SplitFrame(s, event.Header(h), data) // the rest is unreadable
			return slices.ContainsFunc(all, func(m event.Message) bool { return target.matches(m.Subject, nats.Header(m.Header), nil) })
		}
	}
	conversation, user, exchange := h.Get(event.HeaderConversation), h.Get(event.HeaderUser), h.Get(event.HeaderExchange)
	if e, err := event.Decode(subject, event.Header(h), nil); err == nil {
		conversation, user, exchange = e.Labels.Conversation, e.Labels.User, e.Exchange
	}
	_, listed := target.Exchanges[exchange]
	return listed || target.Conversation != "" && conversation == target.Conversation || target.User != "" && user == target.User
}

// matchesRow reports whether row, which is JSON and may be truncated, belongs to target.
func (target *ErasureSubject) matchesRow(row []byte) bool {
	for _, id := range []string{target.Conversation, target.User} {
		if b, err := json.Marshal(id); id != "" && err == nil && bytes.Contains(row, b) {
			return true
		}
	}
	for word := range bytes.SplitSeq(row, []byte{'"'}) {
		if _, ok := target.Exchanges[string(word)]; ok {
			return true
		}
	}
	return false
}

// AnnounceErasure notifies all analyzers that stored bodies are about to be erased. Analyzers poll every few seconds;
// from then on they emit the bodies of later events again, as if none were stored. live reports whether an analyzer
// reads the stream, and now is the time of the NATS server.
func (c *Conn) AnnounceErasure(ctx context.Context) (live bool, now time.Time, err error) {
	st, err := c.Inspect(ctx)
	if err != nil {
		return false, now, err
	}
	for _, p := range st.Partitions {
		live = live || p.Owner != "" && p.LeaseUntil.After(time.Now())
	}
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return live, now, err
	}
	now = time.Now().Add(st.Skew)
	return live, now, kv.Put(ctx, erasureKey, []byte(now.UTC().Format(time.RFC3339)))
}

// ErasureRevision returns a number that changes with each AnnounceErasure.
func (c *Conn) ErasureRevision(ctx context.Context) (uint64, error) {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return 0, err
	}
	_, revision, err := kv.Get(ctx, erasureKey)
	if errors.Is(err, ErrKeyNotFound) {
		return 0, nil
	}
	return revision, err
}
