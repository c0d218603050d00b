package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
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

// Erased counts the messages of an ErasureSubject.
type Erased struct {
	Scanned, Events, DeadLetters uint64
}

// Erase deletes the messages of target from the events and the dead letters and overwrites them on disk. A dry run only
// counts them. Messages that arrive during the erasure are not scanned. progress is called regularly.
func (c *Conn) Erase(ctx context.Context, target ErasureSubject, dryRun bool, progress func(scanned, total uint64)) (n Erased, err error) {
	subject := event.SubjectAll
	if target.Conversation != "" && !target.Inferred {
		subject = fmt.Sprintf("%s*.*.%02x", event.SubjectPrefix, event.ShardOf(target.Conversation))
	}
	erase := func(stream, subject string, headersOnly bool) (found uint64, err error) {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return 0, fmt.Errorf("open stream %s: %w", stream, err)
		}
		cfg := ephemeralConsumer(natsjs.DeliverAllPolicy, []string{subject})
		cfg.HeadersOnly = headersOnly
		before := n.Scanned
		err = scan(ctx, s, cfg, 500, func(batch []natsjs.Msg, total uint64) error {
			for _, m := range batch {
				meta, err := m.Metadata()
				if err != nil || !target.matches(m) {
					continue
				}
				if err := secureDelete(ctx, s, meta.Sequence.Stream, dryRun); err != nil {
					return err
				}
				found++
			}
			n.Scanned += uint64(len(batch))
			progress(n.Scanned, before+total)
			return nil
		})
		if err != nil {
			return found, fmt.Errorf("erase messages of stream %s: %w", stream, err)
		}
		return found, nil
	}
	if n.Events, err = erase(event.StreamEvents, subject, true); err != nil {
		return n, err
	}
	n.DeadLetters, err = erase(event.StreamDead, event.DeadPrefix+">", false)
	return n, err
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

// matches reports whether m belongs to target.
func (target *ErasureSubject) matches(m natsjs.Msg) bool {
	h := m.Headers()
	if h.Get(headerDeadReason) == reasonRow {
		return target.matchesRow(m.Data())
	}
	subject := m.Subject()
	if s := h.Get(HeaderDeadSubject); s != "" {
		subject = s
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
