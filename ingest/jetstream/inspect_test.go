package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func inspect(t *testing.T, ctx context.Context, c *Conn) *State {
	t.Helper()
	return must.Get(c.Inspect(ctx))(t)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	must.Do(t, c.js.DeleteStream(ctx, event.StreamDead))
	if st := inspect(t, ctx, c); !st.Streams[1].Missing || len(st.DeadLetters) != 0 {
		t.Errorf("without the dead-letter stream: %+v", st)
	}
	must.Do(t, c.Ensure(ctx))
	st := inspect(t, ctx, c)
	if st.Server == "" || st.RTT <= 0 || st.Skew.Abs() > time.Second || len(st.MissingBuckets) != 0 || len(st.Streams) != 4 {
		t.Errorf("fresh: %+v", st)
	}
	for _, s := range st.Streams {
		if s.Missing || len(s.Mismatches) > 0 || s.Messages != 0 || s.MaxAge == 0 {
			t.Errorf("fresh: %+v", s)
		}
	}
	if len(st.Partitions) != 1 || st.Partitions[0] != (PartitionState{Name: "p0of1"}) {
		t.Errorf("fresh: %+v", st.Partitions)
	}

	publish(t, ctx, c, 0, 5)
	r := openReader(t, ctx, c, "reader")
	defer r.Close(ctx)
	st = inspect(t, ctx, c)
	if p := st.Partitions[0]; p.Owner != "reader" || p.LeaseUntil.IsZero() || p.Pending != 5 || time.Since(p.OldestPending) > time.Minute || p.Lost != 0 {
		t.Errorf("five events pending: %+v", p)
	}
	readN(t, ctx, r, 5)
	must.Do(t, r.Commit(ctx, 3, 1))
	p := inspect(t, ctx, c).Partitions[0]
	must.Equal(t, p.Pending, 2, "two events pending: %+v", p)
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	must.Do(t, s.Purge(ctx))
	if p := inspect(t, ctx, c).Partitions[0]; p.Pending != 0 || p.Lost != 2 {
		t.Errorf("two events lost: %+v", p)
	}
	if n := s.CachedInfo().State.Consumers; n > 1 {
		t.Errorf("%d consumers left, want 1", n)
	}
}

func TestInspectPartitions(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	kv := must.Get(c.KV(ctx, event.BucketCheckpoint))(t)
	for key, value := range map[string]string{
		partitionsKey: `{"partitions":2}`, "p0of1": `{"stored":0}`, "p1of2": `{"stored":2,"caught_up":6,"owner":"b"}`,
	} {
		must.Do(t, kv.Put(ctx, key, []byte(value)))
	}
	// Six unread events of partition 0.
	for i := range 6 {
		e := testEvent(i, 10)
		for e.Shard()%2 == 1 {
			e.Labels.Conversation += "y"
		}
		p := c.NewPublisher(1)
		p.alone = true
		must.Do(t, errors.Join(p.Publish(ctx, e), p.Flush(ctx)))
	}
	st := inspect(t, ctx, c)
	if len(st.Partitions) != 2 {
		t.Fatalf("%+v", st.Partitions)
	}
	if p := st.Partitions[0]; p.Name != "p0of2" || p.Owner != "" || p.Pending != 6 {
		t.Errorf("%+v", p)
	}
	if p := st.Partitions[1]; p.Name != "p1of2" || p.Owner != "b" || p.Pending != 0 || p.Lost != 0 {
		t.Errorf("%+v", p)
	}
	must.Do(t, kv.Put(ctx, partitionsKey, []byte("{")))
	must.Fail(t, must.Err(c.Inspect(ctx)), "number of partitions", "invalid number of partitions")
}

func TestInspectLimitsAndDeadLetters(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	cfg := c.streams()[0]
	cfg.MaxAge, cfg.MaxBytes = time.Hour, 1<<20
	must.Get(c.js.UpdateStream(ctx, cfg))(t)
	for range 3 {
		must.Get(c.js.Publish(ctx, event.DeadPrefix+reasonBadHeader, nil))(t)
	}
	st := inspect(t, ctx, c)
	if w := st.Streams[0].Mismatches; len(w) != 2 || !strings.HasPrefix(w[0], "max_age is 1h0m0s, want ") || !strings.HasPrefix(w[1], "max_bytes is 1048576, want ") {
		t.Errorf("limits: %q", w)
	}
	if len(st.DeadLetters) != 1 || st.DeadLetters[reasonBadHeader] != 3 {
		t.Errorf("dead letters: %v", st.DeadLetters)
	}
}

func TestTalliesSince(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	begun := time.Now()
	for second := range int64(20) {
		must.Do(t, c.PublishTally(ctx, 0, 1, second, []byte{byte(second)}))
	}
	var got []byte
	add := func(b []byte) error { got = append(got, b...); return nil }
	if err := c.TalliesSince(ctx, begun.Add(-time.Minute), add); err != nil || len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("%v, %v", got, err)
	}
	got = nil
	if err := c.TalliesSince(ctx, time.Now().Add(time.Minute), add); err != nil || len(got) != 0 {
		t.Errorf("since a future time: %v, %v", got, err)
	}
	stop := errors.New("stop")
	must.Is(t, c.TalliesSince(ctx, begun.Add(-time.Minute), func([]byte) error { return stop }), stop, "error of fn")
}

func TestInspectWithoutJetStream(t *testing.T) {
	t.Parallel()
	srv := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}))(t)
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	cfg := Default()
	cfg.URL = srv.ClientURL()
	c := must.Get(Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	defer c.Close()
	must.Is(t, must.Err(c.Inspect(t.Context())), ErrNoJetStream)
}
