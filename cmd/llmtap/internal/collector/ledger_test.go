package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// openLedger returns the ledger of partition p of n, loaded into a new analyzer.
func (c *cluster) openLedger(p, n int) (*ledgerStore, *analyzer.Analyzer) {
	c.t.Helper()
	reader := must.Get(c.conn.OpenReader(c.t.Context(), jetstream.ReaderConfig{Partition: 0, Partitions: 1, Owner: "test"}))(c.t)
	defer func() { _ = reader.Close(c.t.Context()) }()
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	l := newLedger(c.conn, p, n, reader, slog.New(slog.DiscardHandler))
	l.last = 1 << 40
	must.Do(c.t, l.load(c.t.Context(), a))
	return l, a
}

func versionEntry(version string, first, last uint64) ledger.Entry {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return ledger.Entry{
		Key:   ledger.Key{Kind: ledger.KindVersion, Service: "shop", Stage: "planner", Name: version},
		First: ledger.Sighting{Position: ledger.Position{Seq: first}, At: at.Add(time.Duration(first) * time.Second), Exchange: fmt.Sprint("e", first), Version: version},
		Last:  ledger.Position{Seq: last}, LastAt: at.Add(time.Duration(last) * time.Second),
	}
}

// writeStep writes the changes of one step.
func writeStep(t *testing.T, l *ledgerStore, removed []ledger.Key, changed ...ledger.Entry) {
	t.Helper()
	must.Do(t, l.write(t.Context(), l.add(changed, removed)))
}

// A process that has lost its partition without noticing writes and deletes entries: those of the new owner stay.
func TestLedgerStaleOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	stale, _ := c.openLedger(0, 1)
	writeStep(t, stale, nil, versionEntry("1", 1, 5), versionEntry("2", 2, 6), versionEntry("3", 3, 3))
	owner, _ := c.openLedger(0, 1)
	want := c.ledger()
	writeStep(t, owner, nil, versionEntry("1", 1, 9), versionEntry("2", 2, 8))
	later := c.ledger()
	if cmp.Equal(want, later) || len(later) != 3 {
		t.Fatalf("%d entries", len(later))
	}
	one := versionEntry("1", 1, 7)
	writeStep(t, stale, []ledger.Key{versionEntry("2", 2, 6).Key}, one)
	must.Agree(t, cmp.Diff(later, c.ledger()), "ledger after the stale owner")
	// The owner deletes entries without leaving delete markers.
	writeStep(t, owner, []ledger.Key{one.Key, versionEntry("3", 3, 3).Key})
	must.Equal(t, len(c.ledger()), 1, "entries")
	s, err := c.js.Stream(t.Context(), "KV_"+event.BucketLedger)
	if err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("%v, %+v", err, s.CachedInfo().State)
	}
	writeStep(t, owner, nil, one) // it is added again
	must.Equal(t, len(c.ledger()), 2, "entries")
}

// A batch writes only the changes of its steps, and a failed write loses none.
func TestLedgerSteps(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l, _ := c.openLedger(0, 1)
	first := l.add([]ledger.Entry{versionEntry("1", 1, 1)}, nil)
	second := l.add([]ledger.Entry{versionEntry("1", 1, 2), versionEntry("2", 2, 2)}, nil)
	if err := l.write(t.Context(), first); err != nil || len(c.ledger()) != 1 {
		t.Errorf("%v, %d entries", err, len(c.ledger()))
	}
	must.Do(t, c.js.DeleteStream(t.Context(), "KV_"+event.BucketLedger))
	var later *sinks.RetryError
	if err := l.write(t.Context(), second); !errors.As(err, &later) || later.Hint == "" {
		t.Errorf("error without the bucket: %v", err)
	}
	must.Do(t, c.conn.Ensure(t.Context()))
	if err := l.write(t.Context(), second); err != nil || len(c.ledger()) != 2 {
		t.Errorf("%v, %d entries", err, len(c.ledger()))
	}
	must.Equal(t, len(l.steps), 0, "steps remain")
}

// A partition reads its own entries and those of other numbers of partitions, but not those of other partitions. It skips
// unreadable entries.
func TestLedgerForeign(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for i, place := range [][2]int{{0, 4}, {1, 4}, {0, 1}} {
		l, _ := c.openLedger(place[0], place[1])
		writeStep(t, l, nil, versionEntry(fmt.Sprint(i), 1, 1))
	}
	kv := must.Get(c.conn.KV(t.Context(), event.BucketLedger))(t)
	l, _ := c.openLedger(0, 4)
	must.Do(t, kv.Put(t.Context(), l.own+"bad", []byte("{")))
	own, foreign := 0, 0
	entries, err := l.read(t.Context())
	for _, e := range entries {
		if e.own {
			own++
		} else {
			foreign++
		}
	}
	if err != nil || own != 2 || foreign != 1 {
		t.Errorf("%v, %d own, %d foreign", err, own, foreign)
	}
	l, a := c.openLedger(0, 4)
	if changed, gone := a.TakeLedger(); len(changed)+len(gone) > 0 {
		t.Errorf("loading changes %d entries", len(changed)+len(gone))
	}
	if l.revision(l.own+"bad") == 0 {
		t.Error("the bad entry cannot be overwritten")
	}
}

// The checkpoint waits while the ledger cannot be written; afterwards the rows and tallies equal those of an undisturbed run,
// except the counts of new causes.
func TestCheckpointWaitsForLedger(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.partitions = 1
	kv := must.Get(c.conn.KV(t.Context(), event.BucketCheckpoint))(t)
	stored := func() uint64 {
		var checkpoint struct{ Stored uint64 }
		value, _, err := kv.Get(t.Context(), "p0of1")
		if err == nil {
			err = json.Unmarshal(value, &checkpoint)
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Fatal(err)
		}
		return checkpoint.Stored
	}
	remove := func() {
		must.Do(t, c.js.DeleteStream(t.Context(), "KV_"+event.BucketLedger))
	}
	remove()
	c.start()
	c.publish(60, func(int) {})
	must.Equal(t, stored(), 0, "checkpoint without a readable ledger")
	must.Do(t, c.conn.Ensure(t.Context()))
	last := must.Get(must.Get(c.js.Stream(t.Context(), event.StreamEvents))(t).Info(t.Context()))(t).State.LastSeq
	must.Wait(t, "the checkpoint advances", func() bool { return stored() >= last })
	remove()
	before := stored()
	c.publish(200, func(int) {})
	if n := stored(); n > before+60 { // a batch may have been in flight
		t.Errorf("the checkpoint advanced from %d to %d without a writable ledger", before, n)
	}
	must.Do(t, c.conn.Ensure(t.Context()))
	got := c.finish()
	c.reset()
	c.start()
	want, disturbed := c.finish().merged(), got.merged()
	// The deleted entries are older than the checkpoint, so nothing restores them. If the writes fail for longer than the
	// store timeout, the partition is opened again, reads an empty ledger and counts a cause of those entries as new.
	delete(want.tallies, second{})
	delete(disturbed.tallies, second{})
	compare(t, 3, want, disturbed)
	c.stopAll()
}
