package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// ErrNoJetStream means that the server, or the account, has no JetStream.
var ErrNoJetStream = errors.New("JetStream is not enabled")

// A State is what NATS keeps for llmtap at one moment.
type State struct {
	Server string        // its version
	RTT    time.Duration // of one request
	// Skew is the server's clock minus this machine's, uncertain by half of RTT. It is 0 when no stream exists.
	Skew           time.Duration
	Streams        []StreamState
	MissingBuckets []string
	Partitions     []PartitionState
	DeadLetters    map[string]uint64 // by reason
}

// A StreamState is one stream of llmtap.
type StreamState struct {
	Name       string
	Missing    bool
	Mismatches []string // settings that are not as Ensure sets them
	Messages   uint64
	Bytes      uint64
	MaxBytes   int64 // -1: no limit
	MaxAge     time.Duration

	FirstTime, LastTime time.Time // of the oldest and the newest message
}

// A PartitionState is how far one partition of the events is read.
type PartitionState struct {
	Name          string    // p0of1
	Owner         string    // who reads it; "" when nobody does
	LeaseUntil    time.Time // until when Owner has it
	Pending       uint64    // its messages that are not stored yet
	OldestPending time.Time // stream time of the oldest of them
	Lost          uint64    // messages that left the stream unread, those of other partitions too
}

// Inspect looks at everything and changes nothing. The State holds what was found before an error.
func (c *Conn) Inspect(ctx context.Context) (*State, error) {
	st := &State{Server: c.nc.ConnectedServerVersion(), DeadLetters: map[string]uint64{}}
	sent := time.Now()
	if _, err := c.js.AccountInfo(ctx); err != nil {
		if errors.Is(err, natsjs.ErrJetStreamNotEnabled) || errors.Is(err, natsjs.ErrJetStreamNotEnabledForAccount) {
			err = ErrNoJetStream
		}
		return st, fmt.Errorf("ask for JetStream: %w", err)
	}
	st.RTT = time.Since(sent)
	for _, want := range c.streams() {
		s, err := c.inspectStream(ctx, st, &want)
		if err != nil {
			return st, fmt.Errorf("look up stream %s: %w", want.Name, err)
		}
		st.Streams = append(st.Streams, s)
	}
	for _, b := range buckets {
		_, err := c.js.KeyValue(ctx, b)
		if errors.Is(err, natsjs.ErrBucketNotFound) {
			st.MissingBuckets = append(st.MissingBuckets, b)
		} else if err != nil {
			return st, fmt.Errorf("look up bucket %s: %w", b, err)
		}
	}
	if st.Streams[0].Missing || slices.Contains(st.MissingBuckets, event.BucketCheckpoint) {
		return st, nil
	}
	return st, c.inspectPartitions(ctx, st)
}

func (c *Conn) inspectStream(ctx context.Context, st *State, want *natsjs.StreamConfig) (StreamState, error) {
	out := StreamState{Name: want.Name}
	s, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		out.Missing = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var options []natsjs.StreamInfoOpt
	if want.Name == event.StreamDead {
		options = append(options, natsjs.WithSubjectFilter(event.DeadPrefix+">"))
	}
	sent := time.Now()
	info, err := s.Info(ctx, options...)
	if err != nil {
		return out, err
	}
	if rtt := time.Since(sent); !info.TimeStamp.IsZero() && (st.Skew == 0 || rtt < st.RTT) {
		st.RTT, st.Skew = rtt, info.TimeStamp.Sub(sent.Add(rtt/2))
	}
	for subject, n := range info.State.Subjects {
		st.DeadLetters[strings.TrimPrefix(subject, event.DeadPrefix)] = n
	}
	out.Messages, out.Bytes, out.FirstTime, out.LastTime = info.State.Msgs, info.State.Bytes, info.State.FirstTime, info.State.LastTime
	out.MaxBytes, out.MaxAge = info.Config.MaxBytes, info.Config.MaxAge
	out.Mismatches = differences(&info.Config, want)
	return out, nil
}

// differences says what in got is not as in want. Replicas and placement are the operator's.
func differences(got, want *natsjs.StreamConfig) (wrong []string) {
	differ := func(same bool, name string, got, want any) {
		if !same {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	differ(got.MaxAge == want.MaxAge, "max_age", got.MaxAge, want.MaxAge)
	differ(got.MaxBytes == want.MaxBytes, "max_bytes", got.MaxBytes, want.MaxBytes)
	differ(got.Duplicates == want.Duplicates, "the window for duplicates", got.Duplicates, want.Duplicates)
	differ(got.Discard == want.Discard, "discard", got.Discard, want.Discard)
	differ(got.Retention == want.Retention, "retention", got.Retention, want.Retention)
	differ(got.Storage == want.Storage, "storage", got.Storage, want.Storage)
	for _, s := range want.Subjects {
		differ(slices.Contains(got.Subjects, s), "subjects", got.Subjects, s)
	}
	return wrong
}

func (c *Conn) inspectPartitions(ctx context.Context, st *State) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	partitions, _, err := readLayout(ctx, kv)
	if err != nil {
		return err
	}
	for p := range partitions {
		key := checkpointKey(p, partitions)
		cp, _, err := readCheckpoint(ctx, kv, key)
		if err != nil && !errors.Is(err, ErrKeyNotFound) {
			return err
		}
		ps := PartitionState{Name: key, Owner: cp.Owner, LeaseUntil: cp.Lease}
		of := ReaderConfig{Partition: p, Partitions: partitions}
		if err := c.inspectBacklog(ctx, &ps, max(cp.Stored, cp.Clear), of.subjects()); err != nil {
			return fmt.Errorf("look at the backlog of %s: %w", key, err)
		}
		st.Partitions = append(st.Partitions, ps)
	}
	return nil
}

// inspectBacklog counts the messages on subjects after stored, with a consumer that is removed again.
func (c *Conn) inspectBacklog(ctx context.Context, ps *PartitionState, stored uint64, subjects []string) error {
	s, err := c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return err
	}
	if first := s.CachedInfo().State.FirstSeq; stored+1 < first {
		ps.Lost = first - 1 - stored
	}
	consumer, err := s.CreateConsumer(ctx, natsjs.ConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: stored + 1, AckPolicy: natsjs.AckNonePolicy, FilterSubjects: subjects,
		HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	info := consumer.CachedInfo()
	defer func() { _ = s.DeleteConsumer(ctx, info.Name) }() // else JetStream removes it when it is idle
	if ps.Pending = info.NumPending; ps.Pending == 0 {
		return nil
	}
	batch, err := consumer.Fetch(1, natsjs.FetchMaxWait(requestTimeout))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		ps.OldestPending = meta.Timestamp
	}
	return batch.Error()
}

// TalliesSince calls fn with each tally that the stream has from since on, oldest first.
func (c *Conn) TalliesSince(ctx context.Context, since time.Time, fn func(payload []byte) error) error {
	consumer, err := c.js.OrderedConsumer(ctx, event.StreamTally, natsjs.OrderedConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartTimePolicy, OptStartTime: &since, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return fmt.Errorf("read tallies: %w", err)
	}
	for left := consumer.CachedInfo().NumPending; left > 0; {
		batch, err := consumer.Fetch(int(min(left, 1000)), natsjs.FetchMaxWait(requestTimeout))
		if err != nil {
			return fmt.Errorf("read tallies: %w", err)
		}
		got := uint64(0)
		var failed error
		for m := range batch.Messages() { // to its end, as a goroutine waits for that
			got++
			if failed == nil {
				failed = fn(m.Data())
			}
		}
		if failed != nil {
			return failed
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("read tallies: %w", err)
		}
		if got == 0 {
			return nil // they have left the stream meanwhile
		}
		left -= min(got, left)
	}
	return nil
}
