package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A picky sink refuses rows as a table does: it refuses the whole write and does not report which row is at fault.
type picky struct {
	mu     sync.Mutex // guards the rest
	refuse func(id string) bool
	before func() error   // if set, a non-nil error fails the write
	stored map[string]int // number of writes by table and id
	writes int
}

func newPicky(poison ...string) *picky {
	return &picky{refuse: func(id string) bool { return slices.Contains(poison, id) }, stored: map[string]int{}}
}

func (s *picky) Write(_ context.Context, b *Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	for _, t := range Tables {
		ids := idsOf(b, t)
		if slices.ContainsFunc(ids, s.refuse) {
			return &RowError{Table: t.Name(), Err: fmt.Errorf("insert %d %s: constraint is violated", len(ids), t.Name())}
		}
		for _, id := range ids {
			s.stored[t.Name()+" "+id]++
		}
	}
	return nil
}

func (s *picky) Close() error { return nil }

func idsOf(b *Batch, t Table) (ids []string) {
	for i := range t.Len(b) {
		id, _ := t.Key(b, i)
		ids = append(ids, id)
	}
	return ids
}

func (s *picky) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *picky) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stored))
}

// A deadLetterLog collects dead letters.
type deadLetterLog struct {
	mu  sync.Mutex // guards got
	got []string
}

func (l *deadLetterLog) add(_ context.Context, d DeadRow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, d.Table+" "+d.ID)
	return nil
}

func (l *deadLetterLog) sorted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, slices.Sorted(slices.Values(l.got))...)
}

// runPicky starts a Batcher on s in a synctest bubble; l collects its dead letters.
func runPicky(t *testing.T, s *picky) (b *Batcher, l *deadLetterLog, stop func() error) {
	t.Helper()
	l = &deadLetterLog{}
	b = NewBatcher(s, small(10_000), slog.New(slog.DiscardHandler), nil)
	b.DeadLetter = l.add
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return b, l, func() error { cancel(); return <-done }
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return ids
}

func on(table string, ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = table + " " + id
	}
	return out
}

func without(ids []string, not ...string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(not, id) })
}

// Three poison rows in a batch of 10,000 become dead letters and the other rows are stored, all before the commit.
func TestPoisonRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := numbered("x", 10_000)
		poison := []string{all[0], all[4711], all[9999]}
		s := newPicky(poison...)
		b, l, stop := runPicky(t, s)
		committed := ""
		mustAdd(t, b, rows(all...), func(context.Context) error {
			committed = fmt.Sprint(len(l.sorted()), " dead, ", len(s.ids()), " stored")
			return nil
		})
		must.Do(t, stop())
		must.Agree(t, cmp.Diff(on("exchanges", without(all, poison...)), s.ids()), "stored")
		must.Agree(t, cmp.Diff(on("exchanges", poison), l.sorted()), "dead letters")
		must.Equal(t, committed, "3 dead, 9997 stored", "at the commit")
		if s.writes > 100 { // 2·3·log2(10000/3), plus a few
			t.Errorf("%d writes", s.writes)
		}
		written, dead := b.metrics.written.WithLabelValues("exchanges"), b.metrics.deadLettered.WithLabelValues("exchanges")
		if testutil.ToFloat64(written) != 9997 || testutil.ToFloat64(dead) != 3 {
			t.Errorf("metrics: %v written, %v dead-lettered", testutil.ToFloat64(written), testutil.ToFloat64(dead))
		}
		must.Do(t, b.Health(), "health")
	})
}

// Poison rows are found in every table, and a dead letter contains the row as JSON.
func TestPoisonRowOfEachTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky("bad")
		b, _, stop := runPicky(t, s)
		var got []string
		b.DeadLetter = func(_ context.Context, d DeadRow) error {
			got = append(got, fmt.Sprintf("%s %s %d %v", d.Table, d.ID, d.Seq, strings.Contains(string(d.Row), `bad`)))
			return nil
		}
		batch := &Batch{}
		for i, id := range []string{"a", "bad", "b"} {
			seq := uint64(10 + i)
			batch.Exchanges = append(batch.Exchanges, analyzer.Exchange{ID: id, Seq: seq})
			batch.Findings = append(batch.Findings, analyzer.Finding{ID: id, Seq: seq})
			batch.ToolCalls = append(batch.ToolCalls, analyzer.ToolCall{ID: id, Seq: seq})
			batch.Runs = append(batch.Runs, analyzer.Run{ID: id, Seq: seq})
			batch.Alerts = append(batch.Alerts, Alert{ID: id, Version: seq, Value: math.Inf(1)})
		}
		mustAdd(t, b, batch, nil)
		must.Do(t, stop())
		want := []string{"findings bad 11 true", "tool_calls bad 11 true", "exchanges bad 11 true", "runs bad 11 true", "alerts bad 11 true"}
		must.Agree(t, cmp.Diff(want, got), "dead letters")
		must.Equal(t, len(s.stored), 10, "stored rows")
	})
}

// A table that refuses rows it accepted before was changed: no row becomes a dead letter, and all are stored once it is repaired.
func TestChangedTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky()
		b, l, stop := runPicky(t, s)
		mustAdd(t, b, rows("before"), nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.set(func() { s.refuse = func(string) bool { return true } })
		all := numbered("x", 5000)
		mustAdd(t, b, rows(all...), nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(l.sorted()); n != 0 {
			t.Fatalf("%d dead letters", n)
		}
		if s.writes > 300 { // 3 per attempt
			t.Errorf("%d writes in 10 minutes", s.writes)
		}
		want := "write batch: failing since 2000-01-01T00:00:05Z: insert 5000 exchanges: constraint is violated (the table also refuses a row that it accepted before): " + hintNoRow
		must.Equal(t, fmt.Sprint(b.Health()), want, "health")
		s.set(func() { s.refuse = func(string) bool { return false } })
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := cmp.Diff(on("exchanges", append([]string{"before"}, all...)), s.ids()); d != "" || b.Health() != nil {
			t.Errorf("health %v, stored (-want +got):\n%s", b.Health(), d)
		}
		must.Do(t, stop())
	})
}

// While no row is known to be accepted by the table, a refused row waits for other rows.
func TestPoisonRowAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky("bad")
		b, l, stop := runPicky(t, s)
		committed := 0
		mustAdd(t, b, rows("bad"), func(context.Context) error { committed = 1; return nil })
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(l.sorted()) != 0 || committed != 0 || b.Health() == nil {
			t.Fatalf("single row: dead letters %v, commit %d, health %v", l.sorted(), committed, b.Health())
		}
		mustAdd(t, b, rows("a", "b"), func(context.Context) error { committed = 2; return nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := cmp.Diff([]string{"exchanges bad"}, l.sorted()); d != "" || committed != 2 || b.Health() != nil {
			t.Errorf("with other rows: dead letters (-want +got):\n%s\ncommit %d, health %v", d, committed, b.Health())
		}
		must.Agree(t, cmp.Diff(on("exchanges", []string{"a", "b"}), s.ids()), "stored")
		must.Do(t, stop())
	})
}

// The batcher buffers at most two batches and a third that is being filled for a table that never accepts a row.
func TestTableRefusesEveryRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky()
		s.refuse = func(string) bool { return true }
		b, l, stop := runPicky(t, s)
		added := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := b.Add(ctx, rows(numbered(fmt.Sprint(added, "-"), 1000)...), nil)
			cancel()
			if err != nil {
				break
			}
			added++
		}
		if added > 30 {
			t.Errorf("%d rows are buffered", added*1000)
		}
		s.set(func() { s.refuse = func(string) bool { return false } })
		time.Sleep(time.Minute)
		synctest.Wait()
		must.Do(t, stop())
		if len(l.sorted()) != 0 || len(s.ids()) != added*1000 {
			t.Errorf("%d dead letters, %d of %d stored", len(l.sorted()), len(s.ids()), added*1000)
		}
	})
}

// If too many rows are refused, the table is at fault: no row becomes a dead letter.
func TestTooManyPoisonRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky()
		s.refuse = func(id string) bool { return strings.HasSuffix(id, "7") }
		b, l, stop := runPicky(t, s)
		all := numbered("x", 1010) // 101 are refused
		mustAdd(t, b, rows(all...), nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		err := b.Health()
		if err == nil || !strings.Contains(err.Error(), "more than 100 rows of one batch are refused") || len(l.sorted()) != 0 {
			t.Errorf("%d dead letters, health: %v", len(l.sorted()), err)
		}
		s.set(func() { s.refuse = func(id string) bool { return strings.HasSuffix(id, "77") } })
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(l.sorted()) != 10 || len(s.ids()) != 1000 {
			t.Errorf("after the repair: %d dead letters, %d stored", len(l.sorted()), len(s.ids()))
		}
		must.Do(t, stop())
	})
}

// The commit waits until the dead letter is stored.
func TestDeadLetterIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPicky("bad")
		b, l, stop := runPicky(t, s)
		var log []string
		attempts := 0
		b.DeadLetter = func(ctx context.Context, d DeadRow) error {
			if attempts++; attempts < 5 {
				return errors.New("nats: no servers available")
			}
			log = append(log, "dead "+d.ID)
			return l.add(ctx, d)
		}
		mustAdd(t, b, rows("a", "bad"), func(context.Context) error { log = append(log, "commit"); return nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		must.Agree(t, cmp.Diff([]string{"dead bad", "commit"}, log), "events")
		must.Do(t, stop())
	})
}

// Random poison rows become dead letters and all other rows are stored, despite random failures of the sink.
func TestRandomPoisonRows(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			all := numbered("x", 1+rng.IntN(700))
			all = append(all, "zz good")
			poison := []string{}
			for range rng.IntN(30) {
				poison = append(poison, all[rng.IntN(len(all)-1)])
			}
			slices.Sort(poison)
			poison = slices.Compact(poison)
			s := newPicky(poison...)
			faults := rand.New(rand.NewPCG(seed, 1)) // used by the batcher's goroutine
			s.before = func() error {
				if faults.IntN(400) == 0 {
					return &RetryError{Err: errors.New("connection reset")}
				}
				return nil
			}
			b, l, stop := runPicky(t, s)
			for rest := all; len(rest) > 0; {
				n := 1 + rng.IntN(len(rest))
				mustAdd(t, b, rows(rest[:n]...), nil)
				rest = rest[n:]
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
			time.Sleep(time.Hour)
			must.Do(t, stop())
			must.Agree(t, cmp.Diff(on("exchanges", without(all, poison...)), s.ids()), "seed", seed, "stored")
			must.Agree(t, cmp.Diff(on("exchanges", poison), l.sorted()), "seed", seed, "dead letters")
		})
	}
}
