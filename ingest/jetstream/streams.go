package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Limits of the streams other than the event stream.
const (
	deadMaxAge    = 7 * 24 * time.Hour
	tallyMaxAge   = 2 * time.Hour
	smallMaxBytes = 256 << 20
	spansMaxAge   = 2 * time.Hour
	spansMaxBytes = 32 << 20 // as many spans as a receiver remembers

	smallDuplicateWindow = 2 * time.Minute // few messages, and nothing else drops their duplicates
)

var buckets = []string{event.BucketCheckpoint, event.BucketLedger, event.BucketAlerts}

// Ensure creates missing streams and buckets and updates the limits of the streams. It is idempotent, may run concurrently
// in several processes, and removes no stream, bucket or message; lowering a limit makes JetStream drop the messages that
// exceed it. Other settings changed by an operator (replicas, placement) are kept. While NATS is unreachable, Ensure
// retries until ctx ends.
func (c *Conn) Ensure(ctx context.Context) error {
	for _, want := range c.streams() {
		if err := c.retry(ctx, func(ctx context.Context) error { return c.ensureStream(ctx, want) }); err != nil {
			return fmt.Errorf("set up stream %s: %w", want.Name, err)
		}
	}
	for _, bucket := range buckets {
		if err := c.retry(ctx, func(ctx context.Context) error { return c.ensureBucket(ctx, bucket) }); err != nil {
			return fmt.Errorf("set up bucket %s: %w", bucket, err)
		}
	}
	return nil
}

// streams returns the expected configuration of the streams.
func (c *Conn) streams() []natsjs.StreamConfig {
	maxBytes := c.cfg.MaxBytes
	if maxBytes == 0 {
		maxBytes = -1
	}
	all := []natsjs.StreamConfig{
		{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, MaxAge: c.cfg.MaxAge, MaxBytes: maxBytes, Description: "LLM calls captured by hooks"},
		{Name: event.StreamDead, Subjects: []string{event.DeadPrefix + ">"}, MaxAge: deadMaxAge, MaxBytes: smallMaxBytes, Description: "dead letters, by reason"},
		{Name: event.StreamTally, Subjects: []string{event.TallyPrefix + ">"}, MaxAge: tallyMaxAge, MaxBytes: smallMaxBytes, Description: "counts per second for alerts"},
		{Name: event.StreamSpans, Subjects: []string{event.SpansPrefix + ">"}, MaxAge: spansMaxAge, MaxBytes: spansMaxBytes, Description: "what is known of OpenTelemetry's spans"},
	}
	for i := range all {
		all[i].Storage, all[i].Retention, all[i].Discard, all[i].MaxMsgs = natsjs.FileStorage, natsjs.LimitsPolicy, natsjs.DiscardOld, -1
		all[i].Duplicates, all[i].Replicas = smallDuplicateWindow, c.cfg.Replicas
	}
	all[0].Duplicates = duplicateWindow
	if c.cfg.Compress {
		all[0].Compression = natsjs.S2Compression
	}
	if c.refusing.Load() {
		// A stream that discards new messages keeps what it has, whatever its limits.
		all[0].Discard, all[0].MaxMsgs = natsjs.DiscardNew, 1
	}
	return all
}

// RefuseEvents makes the event stream refuse new events, or accept them again. It keeps the events that it has, and readers
// continue. Hooks and publishers retry, and keep events meanwhile. The setting holds until a Conn that does not refuse calls
// Ensure, so repeat the call.
func (c *Conn) RefuseEvents(ctx context.Context, refuse bool) error {
	c.refusing.Store(refuse)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.ensureStream(ctx, c.streams()[0])
}

func (c *Conn) ensureStream(ctx context.Context, want natsjs.StreamConfig) error {
	s, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		_, err = c.js.CreateStream(ctx, want)
		if !errors.Is(err, natsjs.ErrStreamNameAlreadyInUse) {
			return err
		}
		s, err = c.js.Stream(ctx, want.Name) // another process was faster
	}
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	same := cfg.MaxAge == want.MaxAge && cfg.MaxBytes == want.MaxBytes && cfg.Duplicates == want.Duplicates && cfg.Discard == want.Discard && cfg.MaxMsgs == want.MaxMsgs &&
		(cfg.Compression == want.Compression || want.Compression == natsjs.NoCompression)
	for _, subject := range want.Subjects {
		if !slices.Contains(cfg.Subjects, subject) {
			cfg.Subjects, same = append(cfg.Subjects, subject), false
		}
	}
	if same {
		return nil
	}
	c.log.Info("updating a stream", "stream", want.Name, "max_age", want.MaxAge, "max_bytes", want.MaxBytes, "discard", want.Discard, "compression", want.Compression)
	cfg.MaxAge, cfg.MaxBytes, cfg.Duplicates, cfg.Discard, cfg.MaxMsgs = want.MaxAge, want.MaxBytes, want.Duplicates, want.Discard, want.MaxMsgs
	if want.Compression != natsjs.NoCompression { // else it stays as an operator has set it
		cfg.Compression = want.Compression
	}
	_, err = c.js.UpdateStream(ctx, cfg)
	return err
}

func (c *Conn) ensureBucket(ctx context.Context, bucket string) error {
	_, err := c.js.KeyValue(ctx, bucket)
	if !errors.Is(err, natsjs.ErrBucketNotFound) {
		return err
	}
	_, err = c.js.CreateKeyValue(ctx, natsjs.KeyValueConfig{Bucket: bucket, History: 1, Storage: natsjs.FileStorage, Replicas: c.cfg.Replicas})
	if errors.Is(err, natsjs.ErrBucketExists) {
		return nil
	}
	return err
}

// ephemeralConsumer returns the configuration of an in-memory consumer that JetStream removes after a minute without
// pulls.
func ephemeralConsumer(policy natsjs.DeliverPolicy, subjects []string) natsjs.ConsumerConfig {
	return natsjs.ConsumerConfig{
		DeliverPolicy: policy, FilterSubjects: subjects, AckPolicy: natsjs.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
}

// scan calls fn with batches of at most size messages: those selected by cfg that are in the stream now. total is
// their number.
func scan(ctx context.Context, s natsjs.Stream, cfg natsjs.ConsumerConfig, size uint64, fn func(batch []natsjs.Msg, total uint64) error) error {
	consumer, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	info := consumer.CachedInfo()
	defer func() { _ = s.DeleteConsumer(ctx, info.Name) }() // if this fails, JetStream removes the consumer when it is idle
	for remaining := info.NumPending; remaining > 0; {
		fetched, err := consumer.Fetch(int(min(remaining, size)), natsjs.FetchMaxWait(requestTimeout))
		if err != nil {
			return fmt.Errorf("fetch messages: %w", err)
		}
		var batch []natsjs.Msg
		for m := range fetched.Messages() {
			batch = append(batch, m)
		}
		if err := fetched.Error(); err != nil {
			return fmt.Errorf("fetch messages: %w", err)
		}
		if len(batch) == 0 {
			return nil // the remaining messages have left the stream
		}
		if err := fn(batch, info.NumPending); err != nil {
			return err
		}
		remaining -= min(uint64(len(batch)), remaining)
	}
	return nil
}

// pending returns the number of events that a consumer with cfg would deliver, and the sequence before the first of
// them. JetStream counts them when it creates the consumer.
func (c *Conn) pending(ctx context.Context, cfg natsjs.ConsumerConfig) (n, before uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	consumer, err := c.js.CreateConsumer(ctx, event.StreamEvents, cfg)
	if err != nil {
		return 0, 0, fmt.Errorf("count messages of stream %s: %w", event.StreamEvents, err)
	}
	info := consumer.CachedInfo()
	if err := c.js.DeleteConsumer(ctx, event.StreamEvents, info.Name); err != nil {
		c.log.Debug("consumer not deleted; it expires", "err", err)
	}
	return info.NumPending, info.Delivered.Stream, nil
}
