package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// keyForgotten of BucketProgress changes when somebody deletes what is stored of bodies.
const keyForgotten = "forgotten"

// A ErasureSubject is whose messages are forgotten.
type ErasureSubject struct {
	Conversation string              // by the header; or
	User         string              // by the header
	Exchanges    map[string]struct{} // beside those, whatever their headers say
	Inferred     bool                // some of Exchanges do not name the conversation, and may lie anywhere
}

// Erased counts messages of a ErasureSubject.
type Erased struct {
	Scanned, Events, DeadLetters uint64
}

// Forget deletes the messages of who from the events and the dead letters, and overwrites them on the disk. A dry run only
// counts them. It reads up to what is there when it begins; progress is told now and then how many messages are read, of
// how many.
func (c *Conn) Erase(ctx context.Context, who ErasureSubject, dryRun bool, progress func(read, of uint64)) (f Erased, err error) {
	subject := event.SubjectAll
	if who.Conversation != "" && !who.Inferred {
		subject = fmt.Sprintf("%s*.*.%02x", event.SubjectPrefix, event.ShardOf(who.Conversation))
	}
	j := forgetter{c: c, who: &who, dryRun: dryRun, progress: progress}
	if f.Events, err = j.forget(ctx, event.StreamEvents, subject, true); err != nil {
		return f, fmt.Errorf("forget events: %w", err)
	}
	if f.DeadLetters, err = j.forget(ctx, event.StreamDead, event.DeadPrefix+">", false); err != nil {
		return f, fmt.Errorf("forget dead letters: %w", err)
	}
	f.Scanned = j.read
	return f, nil
}

type forgetter struct {
	c        *Conn
	who      *ErasureSubject
	dryRun   bool
	progress func(read, of uint64)
	read     uint64
}

const forgetBatch = 500

// forget returns how many messages of one stream are those of the person.
func (j *forgetter) forget(ctx context.Context, stream, subject string, headersOnly bool) (found uint64, err error) {
	s, err := j.c.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", stream, err)
	}
	consumer, err := s.CreateConsumer(ctx, natsjs.ConsumerConfig{
		DeliverPolicy: natsjs.DeliverAllPolicy, AckPolicy: natsjs.AckNonePolicy, FilterSubject: subject, HeadersOnly: headersOnly,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", stream, err)
	}
	info := consumer.CachedInfo()
	defer func() { _ = s.DeleteConsumer(ctx, info.Name) }() // else JetStream removes it when it is idle
	of := j.read + info.NumPending
	for left := info.NumPending; left > 0; {
		j.progress(j.read, of)
		batch, err := consumer.Fetch(int(min(left, forgetBatch)), natsjs.FetchMaxWait(requestTimeout))
		if err != nil {
			return found, fmt.Errorf("read stream %s: %w", stream, err)
		}
		var seqs []uint64
		got := uint64(0)
		for m := range batch.Messages() { // to its end, as a goroutine waits for that
			got++
			if meta, err := m.Metadata(); err == nil && j.is(m) {
				seqs = append(seqs, meta.Sequence.Stream)
			}
		}
		if err := batch.Error(); err != nil {
			return found, fmt.Errorf("read stream %s: %w", stream, err)
		}
		for _, seq := range seqs {
			if err := j.remove(ctx, s, seq); err != nil {
				return found, err
			}
			found++
		}
		if got == 0 {
			return found, nil // they have left the stream meanwhile
		}
		left -= min(got, left)
		j.read += got
	}
	return found, nil
}

func (j *forgetter) remove(ctx context.Context, s natsjs.Stream, seq uint64) error {
	if j.dryRun {
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

// is reports whether m is a message of the person.
func (j *forgetter) is(m natsjs.Msg) bool {
	h := event.Header(m.Headers())
	if nats.Header(h).Get(HeaderDeadReason) == reasonRow {
		return j.quotes(m.Data())
	}
	subject := m.Subject()
	if s := nats.Header(h).Get(HeaderDeadSubject); s != "" {
		subject = s
	}
	conversation, user, exchange := nats.Header(h).Get(event.HeaderConversation), nats.Header(h).Get(event.HeaderUser), nats.Header(h).Get(event.HeaderExchange)
	if e, err := event.Decode(subject, h, nil); err == nil {
		conversation, user, exchange = e.Labels.Conversation, e.Labels.User, e.Exchange
	}
	_, named := j.who.Exchanges[exchange]
	return named || j.who.Conversation != "" && conversation == j.who.Conversation || j.who.User != "" && user == j.who.User
}

// quotes reports whether a row, as JSON that may be cut, is of the person.
func (j *forgetter) quotes(row []byte) bool {
	for _, id := range []string{j.who.Conversation, j.who.User} {
		if b, err := json.Marshal(id); id != "" && err == nil && bytes.Contains(row, b) {
			return true
		}
	}
	for word := range bytes.SplitSeq(row, []byte{'"'}) {
		if _, ok := j.who.Exchanges[string(word)]; ok {
			return true
		}
	}
	return false
}

// AnnounceErasure tells all analyzers, which look every few seconds, that somebody is about to delete what is stored of
// bodies: they put out again what comes from then on, as if nothing was stored. live reports whether any reads the stream,
// and now is the time by the clock of NATS.
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
	return live, now, kv.Put(ctx, keyForgotten, []byte(now.UTC().Format(time.RFC3339)))
}

// ErasureRevision returns a number that changes with each AnnounceErasure.
func (c *Conn) ErasureRevision(ctx context.Context) (uint64, error) {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return 0, err
	}
	_, revision, err := kv.Get(ctx, keyForgotten)
	if errors.Is(err, ErrKeyNotFound) {
		return 0, nil
	}
	return revision, err
}
