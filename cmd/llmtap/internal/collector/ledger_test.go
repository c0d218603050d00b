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
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

// openLedger is the ledger of partition p of n of the flock's stream, read into an analyzer of its own.
func (f *flock) openLedger(p, n int) (*ledgerStore, *analyzer.Analyzer) {
	f.t.Helper()
	reader, err := f.conn.OpenReader(f.t.Context(), jetstream.ReaderConfig{Partition: 0, Partitions: 1, Owner: "test"})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = reader.Close(f.t.Context()) }()
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	l := newLedger(f.conn, p, n, reader, slog.New(slog.DiscardHandler))
	l.last = 1 << 40
	if err := l.load(f.t.Context(), a); err != nil {
		f.t.Fatal(err)
	}
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

// keepAll keeps what one step changed.
func keepAll(t *testing.T, l *ledgerStore, gone []ledger.Key, changed ...ledger.Entry) {
	t.Helper()
	if err := l.write(t.Context(), l.add(changed, gone)); err != nil {
		t.Fatal(err)
	}
}

// A process that has lost its partition and does not know it writes and forgets after the one that has it: what that one
// wrote stays.
func TestLedgerOfTheLate(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	late, _ := f.openLedger(0, 1)
	keepAll(t, late, nil, versionEntry("1", 1, 5), versionEntry("2", 2, 6), versionEntry("3", 3, 3))
	next, _ := f.openLedger(0, 1)
	want := f.ledger()
	keepAll(t, next, nil, versionEntry("1", 1, 9), versionEntry("2", 2, 8))
	later := f.ledger()
	if cmp.Equal(want, later) || len(later) != 3 {
		t.Fatalf("%d entries are kept", len(later))
	}
	one := versionEntry("1", 1, 7)
	keepAll(t, late, []ledger.Key{versionEntry("2", 2, 6).Key}, one)
	if diff := cmp.Diff(later, f.ledger()); diff != "" {
		t.Errorf("-kept +after the late one\n%s", diff)
	}
	// And it is forgotten by the one that has it, without a trace.
	keepAll(t, next, []ledger.Key{one.Key, versionEntry("3", 3, 3).Key})
	if n := len(f.ledger()); n != 1 {
		t.Errorf("%d entries are left", n)
	}
	s, err := f.js.Stream(t.Context(), "KV_"+event.BucketLedger)
	if err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("%v, %+v", err, s.CachedInfo().State)
	}
	keepAll(t, next, nil, one) // it comes again
	if n := len(f.ledger()); n != 2 {
		t.Errorf("%d entries are left", n)
	}
}

// Only the steps that a batch is of are kept with it, and nothing is lost when that fails.
func TestLedgerKeepsStepByStep(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	l, _ := f.openLedger(0, 1)
	first := l.add([]ledger.Entry{versionEntry("1", 1, 1)}, nil)
	second := l.add([]ledger.Entry{versionEntry("1", 1, 2), versionEntry("2", 2, 2)}, nil)
	if err := l.write(t.Context(), first); err != nil || len(f.ledger()) != 1 {
		t.Errorf("%v, %d entries", err, len(f.ledger()))
	}
	if err := f.js.DeleteStream(t.Context(), "KV_"+event.BucketLedger); err != nil {
		t.Fatal(err)
	}
	var later *sinks.RetryError
	if err := l.write(t.Context(), second); !errors.As(err, &later) || later.Hint == "" {
		t.Errorf("without its bucket: %v", err)
	}
	if err := f.conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.write(t.Context(), second); err != nil || len(f.ledger()) != 2 {
		t.Errorf("%v, %d entries", err, len(f.ledger()))
	}
	if len(l.steps) != 0 {
		t.Errorf("%d steps are not forgotten", len(l.steps))
	}
}

// A partition reads its own entries and those of other cuts, not those of its neighbours; an entry that cannot be read
// does not stop it.
func TestLedgerOfOthers(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	for i, place := range [][2]int{{0, 4}, {1, 4}, {0, 1}} {
		l, _ := f.openLedger(place[0], place[1])
		keepAll(t, l, nil, versionEntry(fmt.Sprint(i), 1, 1))
	}
	kv, err := f.conn.KV(t.Context(), event.BucketLedger)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := f.openLedger(0, 4)
	if err := kv.Put(t.Context(), l.own+"bad", []byte("{")); err != nil {
		t.Fatal(err)
	}
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
	l, a := f.openLedger(0, 4)
	if changed, gone := a.TakeLedger(); len(changed)+len(gone) > 0 {
		t.Errorf("reading changes %d entries", len(changed)+len(gone))
	}
	if l.revision(l.own+"bad") == 0 {
		t.Error("the bad entry cannot be overwritten")
	}
}

// While the ledger cannot be kept the checkpoint stays; when it can, rows are those of a run that nobody disturbs.
func TestCheckpointWaitsForLedger(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 3)
	f.partitions = 1
	kv, err := f.conn.KV(t.Context(), event.BucketCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := f.js.DeleteStream(t.Context(), "KV_"+event.BucketLedger); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	f.start()
	f.play(60, func(int) {})
	if n := stored(); n != 0 {
		t.Errorf("without a ledger to read, %d events are done", n)
	}
	if err := f.conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); stored() < 60; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the checkpoint does not move")
		}
	}
	remove()
	before := stored()
	f.play(200, func(int) {})
	if n := stored(); n > before+60 { // a batch may have been on its way
		t.Errorf("without a ledger to write, the checkpoint moved from %d to %d", before, n)
	}
	if err := f.conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := f.finish()
	f.reset()
	f.start()
	want := f.finish()
	same(t, 3, want.merged(), got.merged()) // what the ledger held when it was removed is gone
	f.stop()
}
