package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// ErrNoJetStream means that JetStream is disabled on the server or for the account.
var ErrNoJetStream = errors.New("JetStream is not enabled")

// A State is a snapshot of the streams, buckets and partitions of llmtap.
type State struct {
	Server string        // version of the server
	RTT    time.Duration // round-trip time of a request
	// Skew is the server's time minus this machine's time, accurate to half of RTT. It is 0 if no stream exists.
	Skew           time.Duration
	Streams        []StreamState
	MissingBuckets []string
	Partitions     []PartitionState
	DeadLetters    map[string]uint64 // number by reason
}

// A StreamState is the state of one stream of llmtap.
type StreamState struct {
	Name       string
	Missing    bool
	Mismatches []string // settings that differ from the ones set by Ensure
	Messages   uint64
	Bytes      uint64
	MaxBytes   int64 // -1: no limit
	MaxAge     time.Duration

	FirstTime, LastTime time.Time // times of the oldest and the newest message
}

// A PartitionState is the progress of one partition.
type PartitionState struct {
	Name          string    // such as p0of1
	Owner         string    // process that reads the partition; "" if none
	LeaseUntil    time.Time // expiry of Owner's lease
	Pending       uint64    // messages that are not stored yet
	OldestPending time.Time // stream time of the oldest pending message
	Lost          uint64    // unread messages, of all partitions, that the stream dropped
}

// Inspect returns the State without changing anything. If it returns an error, the State is incomplete.
func (c *Conn) Inspect(ctx context.Context) (*State, error) {
	st := &State{Server: c.nc.ConnectedServerVersion(), DeadLetters: map[string]uint64{}}
	sent := time.Now()
	if _, err := c.js.AccountInfo(ctx); err != nil {
		if errors.Is(err, natsjs.ErrJetStreamNotEnabled) || errors.Is(err, natsjs.ErrJetStreamNotEnabledForAccount) {
			err = ErrNoJetStream
		}
		return st, fmt.Errorf("look up the JetStream account: %w", err)
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

// differences lists the settings of got that differ from want. Operators may change replicas and placement.
func differences(got, want *natsjs.StreamConfig) (wrong []string) {
	differ := func(same bool, name string, got, want any) {
		if !same {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	differ(got.MaxAge == want.MaxAge, "max_age", got.MaxAge, want.MaxAge)
	differ(got.MaxBytes == want.MaxBytes, "max_bytes", got.MaxBytes, want.MaxBytes)
	differ(got.Duplicates == want.Duplicates, "duplicate_window", got.Duplicates, want.Duplicates)
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
	partitions, _, err := readPartitionCount(ctx, kv)
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
		cfg := ReaderConfig{Partition: p, Partitions: partitions}
		if err := c.inspectBacklog(ctx, &ps, max(cp.Stored, cp.CaughtUp), cfg.subjects()); err != nil {
			return fmt.Errorf("inspect the backlog of %s: %w", key, err)
		}
		st.Partitions = append(st.Partitions, ps)
	}
	return nil
}

// errDone is returned by a callback to end a scan.
var errDone = errors.New("done")

// inspectBacklog counts the messages on subjects that follow the sequence stored.
func (c *Conn) inspectBacklog(ctx context.Context, ps *PartitionState, stored uint64, subjects []string) error {
	s, err := c.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		return err
	}
	if first := s.CachedInfo().State.FirstSeq; stored+1 < first {
		ps.Lost = first - 1 - stored
	}
	cfg := ephemeralConsumer(natsjs.DeliverByStartSequencePolicy, subjects)
	cfg.OptStartSeq, cfg.HeadersOnly = stored+1, true
	err = scan(ctx, s, cfg, 1, func(batch []natsjs.Msg, total uint64) error {
		meta, err := batch[0].Metadata()
		if err != nil {
			return err
		}
		ps.Pending, ps.OldestPending = total, meta.Timestamp
		return errDone
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// TalliesSince calls fn with each tally stored since the given time, oldest first.
func (c *Conn) TalliesSince(ctx context.Context, since time.Time, fn func(payload []byte) error) error {
	s, err := c.js.Stream(ctx, event.StreamTally)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", event.StreamTally, err)
	}
	cfg := ephemeralConsumer(natsjs.DeliverByStartTimePolicy, nil)
	cfg.OptStartTime = &since
	return scan(ctx, s, cfg, 1000, func(batch []natsjs.Msg, _ uint64) error {
		for _, m := range batch {
			if err := fn(m.Data()); err != nil {
				return err
			}
		}
		return nil
	})
}
