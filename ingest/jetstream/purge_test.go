package jetstream

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Events leave the stream once every partition has stored them and needs them no more.
func TestPurgeStored(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	first := func() uint64 {
		t.Helper()
		s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
		return s.CachedInfo().State.FirstSeq
	}
	purge := func(partitions int, want uint64) {
		t.Helper()
		n := must.Get(c.PurgeStored(ctx, partitions))(t)
		must.Equal(t, n, want, "purged events")
	}
	publish(t, ctx, c, 0, 100)
	purge(1, 0) // no checkpoint
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 100)
	purge(1, 0)
	must.Do(t, r.Commit(ctx, 60, 41))
	purge(2, 0) // another number of partitions
	purge(1, 40)
	must.Equal(t, first(), 41, "the stream begins at: 41 to 60 are replayed, 61 to 100 are not stored")
	must.Do(t, r.Commit(ctx, 100, 0))
	must.Do(t, r.Close(ctx))
	// A reader that opens now replays nothing and has lost nothing.
	purge(1, 60)
	r = openReader(t, ctx, c, "a")
	if r.Lost() != 0 || r.Stored() != 100 {
		t.Errorf("lost %d, stored %d", r.Lost(), r.Stored())
	}
	publish(t, ctx, c, 100, 101)
	if m := readN(t, ctx, r, 1); m[0].Seq != 101 || m[0].Replay {
		t.Errorf("read %+v", m[0])
	}
}

// A partition without events of its own does not keep those of the others.
func TestPurgeStoredPartitions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cp   checkpoint
		want uint64
	}{
		{checkpoint{Stored: 10, ReplayFrom: 11, CaughtUp: 500}, 501},
		{checkpoint{Stored: 10, ReplayFrom: 11}, 11},
		{checkpoint{Stored: 10, ReplayFrom: 5, CaughtUp: 500}, 5}, // its state needs event 5
	} {
		must.Equal(t, test.cp.neededFrom(), test.want, "%+v: needed from", test.cp)
	}
}
