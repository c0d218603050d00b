package jetstream

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// repartition changes the number of partitions of an unread stream.
func repartition(t testing.TB, ctx context.Context, c *Conn, n int) {
	t.Helper()
	rep := must.Get(c.BeginRepartition(ctx, n, "a", 0))(t)
	for _, r := range rep.Readers {
		drain(t, ctx, r)
		must.Do(t, r.Commit(ctx, rep.LastSeq, 0))
	}
	must.Do(t, rep.Finish(ctx))
	must.Do(t, rep.Close(ctx))
}

// drain reads to io.EOF and returns the sequences that are not replays.
func drain(t testing.TB, ctx context.Context, r *Reader) (seqs []uint64) {
	t.Helper()
	for {
		msgs, err := r.Next(ctx, 100, 20*time.Millisecond)
		if errors.Is(err, io.EOF) {
			return seqs
		}
		must.Do(t, err)
		for _, m := range msgs {
			if !m.Replay {
				seqs = append(seqs, m.Seq)
			}
		}
	}
}

func TestPartitionCount(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	f := func(p, n int, want error) {
		t.Helper()
		r, err := c.OpenReader(ctx, ReaderConfig{Partition: p, Partitions: n, Owner: "a"})
		must.Is(t, err, want, "partition", p, "of", n)
		if err == nil {
			must.Do(t, r.Close(ctx))
		}
	}
	f(0, 1, nil)
	f(1, 4, ErrPartitionCount)
	repartition(t, ctx, c, 4)
	f(1, 4, nil)
	f(0, 1, ErrPartitionCount)
	for _, bad := range []ReaderConfig{{Partition: 4, Partitions: 4}, {Partition: -1, Partitions: 4}, {Partitions: 257}, {}, {Partitions: 1, Owner: ""}} {
		if _, err := c.OpenReader(ctx, bad); err == nil {
			t.Errorf("opened %+v", bad)
		}
	}
	must.Is(t, must.Err(c.BeginRepartition(ctx, 4, "a", 0)), ErrPartitionCount, "repartition 4 partitions into 4")
	must.Fail(t, must.Err(c.BeginRepartition(ctx, 257, "a", 0)), "", "repartitioned into 257 partitions")
}

// TestRepartition changes two partitions at different sequences into three: each event is new either to an old or to a new
// partition, and tallies continue after the newest tally of the old partitions.
func TestRepartition(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	repartition(t, ctx, c, 2)
	publishConversations(t, ctx, c, 0, 200)
	fresh := map[uint64]int{}
	for p, n := range []int{30, 10} {
		r := openPartition(t, ctx, c, p, 2)
		msgs := readN(t, ctx, r, n)
		for _, m := range msgs {
			fresh[m.Seq]++
		}
		must.Do(t, r.Commit(ctx, msgs[n-1].Seq, msgs[n/2].Seq))
		must.Do(t, c.PublishTally(ctx, p, r.Epoch(), msgs[n-1].Time.Unix()-int64(p), nil))
		must.Do(t, r.Close(ctx))
	}
	busy := openPartition(t, ctx, c, 1, 2)
	other := must.Get(Connect(ctx, c.cfg, nil, nil))(t)
	defer other.Close()
	must.Is(t, must.Err(other.BeginRepartition(ctx, 3, "b", 0)), ErrLeaseHeld, "repartition while a partition is read")
	must.Do(t, busy.Close(ctx))

	rep := must.Get(c.BeginRepartition(ctx, 3, "a", 0))(t)
	publishConversations(t, ctx, c, 200, 260) // after the repartitioning
	must.Fail(t, rep.Finish(ctx), "", "finished before the old partitions were read")
	var first uint64
	for _, r := range rep.Readers {
		for _, seq := range drain(t, ctx, r) {
			fresh[seq]++
		}
		must.Do(t, r.Commit(ctx, rep.LastSeq, rep.LastSeq-uint64(r.cfg.Partition)))
		first = rep.LastSeq - uint64(r.cfg.Partition)
	}
	must.Do(t, rep.Finish(ctx))
	must.Is(t, rep.Finish(ctx), ErrLeaseLost, "second finish, by an expired process")
	must.Do(t, rep.Close(ctx))
	for p := range 3 {
		r := openPartition(t, ctx, c, p, 3)
		if r.Stored() != rep.LastSeq || r.LastTally() != rep.LastSecond || r.cp.ReplayFrom != first {
			t.Errorf("partition %d starts at %+v, last tally %d; want %d, %d", p, r.cp, r.LastTally(), rep.LastSeq, rep.LastSecond)
		}
		for ok := false; !ok; _, ok = r.CaughtUp(ctx) {
			msgs := must.Get(r.Next(ctx, 100, 20*time.Millisecond))(t)
			for _, m := range msgs {
				if !m.Replay {
					fresh[m.Seq]++
				}
				if m.Time.Unix() > rep.LastSecond != (m.Seq > rep.LastSeq) {
					t.Errorf("event %d of second %d: repartitioned at %d, second %d", m.Seq, m.Time.Unix(), rep.LastSeq, rep.LastSecond)
				}
			}
		}
		must.Do(t, r.Close(ctx))
	}
	want := map[uint64]int{}
	for seq := range uint64(260) {
		want[seq+1] = 1
	}
	must.Agree(t, cmp.Diff(want, fresh), "events by number of partitions to which they are new")
}

func TestLastTally(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	f := func(want int64) {
		t.Helper()
		r := openPartition(t, ctx, c, 0, 1)
		must.Equal(t, r.LastTally(), want, "last tally")
		must.Do(t, r.Close(ctx))
	}
	f(0)
	for _, second := range []int64{100, 105} {
		must.Do(t, c.PublishTally(ctx, 0, 1, second, []byte("{}")))
	}
	must.Do(t, c.PublishTally(ctx, 1, 1, 200, []byte("{}")))
	f(105)
	must.Get(c.js.PublishMsg(ctx, nats.NewMsg(event.TallyPrefix+"0")))(t)
	f(0)
}
