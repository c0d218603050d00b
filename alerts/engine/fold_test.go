package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
)

// A folder folds the groups for which takes returns true.
type folder struct {
	notifier
	takes   func(alerts.Group) bool
	later   func() bool
	fail    error
	batches [][]alerts.Group // folded groups by call
	foldAt  []time.Time
}

func (f *folder) Fold(_ context.Context, groups []alerts.Group) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]error, len(groups))
	var taken []alerts.Group
	for i, g := range groups {
		if out[i] = f.fail; !f.takes(g) {
			out[i] = alerts.ErrNotFolded
			continue
		}
		if f.later != nil && f.later() {
			out[i] = alerts.ErrFoldLater
			continue
		}
		taken = append(taken, g)
	}
	if len(taken) > 0 {
		f.batches, f.foldAt = append(f.batches, taken), append(f.foldAt, time.Now())
	}
	return out
}

// told returns the folded groups since a call.
func (f *folder) told(since int) map[string]bool {
	out := map[string]bool{}
	for _, batch := range f.batches[since:] {
		for _, g := range batch {
			out[g.Key] = true
		}
	}
	return out
}

// stages returns the counts of a second in which every one of n stages makes 10 calls, of which failed fail.
func stages(n, failed int) (out []analyzer.Count) {
	for i := range n {
		stage := fmt.Sprintf("stage-%03d", i)
		c, x := calls("1", 10), failures("1", "cause", "", uint64(failed))
		c.Labels, x.Labels = with(c.Labels, "stage", stage), with(x.Labels, "stage", stage)
		out = append(out, c)
		if failed > 0 {
			out = append(out, x)
		}
	}
	return out
}

func newFoldBench(t *testing.T, store alerts.Store, takes func(alerts.Group) bool) (*bench, *folder) {
	t.Helper()
	f := &folder{takes: takes}
	cfg := Default()
	cfg.RepeatInterval = 10 * time.Minute
	return newBenchOf(t, cfg, Options{Store: store, Notifiers: []alerts.Notifier{f}}), f
}

func all(alerts.Group) bool { return true }

// Many groups that begin to fire at once are passed to one call; so are their changes, and their end.
func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := newFoldBench(t, &alertstest.Store{}, all)
		b.seconds(15, stages(60, 2)...)
		told := f.told(0)
		if len(told) != 60 || len(f.batches) > 3 || len(f.groups) > 0 {
			t.Errorf("%d groups in %d calls of Fold, and %d calls of Notify; want 60 in at most 3, and 0", len(told), len(f.batches), len(f.groups))
		}
		must.Equal(t, testutil.ToFloat64(b.m.folded), 60, "folded groups counted")
		b.seconds(120, stages(60, 2)...)
		if n := len(f.batches); n > 15 {
			t.Errorf("%d calls of Fold in 2 minutes in which only numbers change", n)
		}
		for i := 1; i < len(f.foldAt); i++ {
			if d := f.foldAt[i].Sub(f.foldAt[i-1]); d < foldInterval {
				t.Errorf("call %d of Fold is %v after the previous one", i, d)
			}
		}
		b.seconds(600, stages(60, 0)...)
		b.idle(5 * time.Minute) // until none of them may relapse
		last := f.batches[len(f.batches)-1]
		if len(last) != 60 || last[0].Firing() {
			t.Errorf("%d groups in the last call, firing: %v; want 60 resolved ones", len(last), last[0].Firing())
		}
		if n := len(b.Groups()); n > 0 {
			t.Errorf("%d groups are open", n)
		}
	})
}

// The groups of a storm are passed to one call also if the Store needs a while for their intents, and something else is due meanwhile.
func TestFoldSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := newFoldBench(t, slowStore{&alertstest.Store{}}, all)
		go func() {
			for t.Context().Err() == nil {
				b.dispatcher.wake()
				time.Sleep(time.Millisecond)
			}
		}()
		b.seconds(15, stages(200, 2)...)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.batches) == 0 {
			t.Fatal("no call of Fold")
		}
		must.Equal(t, len(f.batches[0]), 200, "groups in the first call of Fold, all of them")
	})
}

// slowStore is a Store with a round trip.
type slowStore struct{ *alertstest.Store }

func (s slowStore) Put(ctx context.Context, key string, value []byte) error {
	time.Sleep(10 * time.Millisecond)
	return s.Store.Put(ctx, key, value)
}

// Groups that are not folded are sent alone, the critical ones first, and the others with the next call.
func TestFoldRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := newFoldBench(t, &alertstest.Store{}, nil)
		f.takes = func(g alerts.Group) bool { return severityOf(g) != "critical" }
		f.later = func() bool { return len(f.groups) == 0 }
		for range 15 {
			counts := stages(10, 2)
			counts[15].N = 6 // failures of stage-007
			b.second(counts...)
		}
		if len(f.groups) == 0 || severityOf(f.groups[0]) != "critical" || f.groups[0].Worst().Labels["stage"] != "stage-007" {
			t.Fatalf("the first notification is not the critical one: %v", f.groups)
		}
		told := f.told(0)
		must.Equal(t, len(told), 9, "groups in summaries")
	})
}

// An error of a summary is retried for all its groups together.
func TestFoldRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := newFoldBench(t, &alertstest.Store{}, all)
		f.fail = &alerts.RetryError{After: 30 * time.Second, Err: context.DeadlineExceeded}
		b.seconds(15, stages(60, 2)...)
		calls := len(f.batches)
		if calls > 3 {
			t.Errorf("%d calls in 15 s during a rate limit of 30 s", calls)
		}
		f.mu.Lock()
		f.fail = nil
		f.mu.Unlock()
		b.seconds(30, stages(60, 2)...)
		told := f.told(calls)
		if len(told) != 60 || len(f.groups) > 0 {
			t.Errorf("%d groups in summaries and %d alone, want 60 and 0", len(told), len(f.groups))
		}
	})
}

// After a restart, changes of folded groups are passed to Fold again. A reminder is of all of them.
func TestFoldRestartAndReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		b, f := newFoldBench(t, store, all)
		b.seconds(20, stages(10, 2)...)
		before := f.batches
		b.stop()
		next, f := newFoldBench(t, store, all)
		next.sec = b.sec
		next.seconds(30, stages(10, 2)...)
		if len(f.batches) == 0 || len(f.groups) > 0 {
			t.Fatalf("%d calls of Fold and %d of Notify after the restart", len(f.batches), len(f.groups))
		}
		if len(before) == 0 || len(f.batches) > 4 {
			t.Errorf("%d calls before and %d after the restart", len(before), len(f.batches))
		}
		next.seconds(600, stages(10, 2)...)
		reminders, groups := 0, 0
		for _, batch := range f.batches {
			n := 0
			for _, g := range batch {
				if g.Repeat {
					n++
				}
			}
			if groups += n; n > 0 {
				reminders++
			}
		}
		if reminders != 1 || groups != 10 {
			t.Errorf("%d calls with reminders of %d groups, want 1 of 10", reminders, groups)
		}
	})
}

func severityOf(g alerts.Group) string {
	a := g.Worst()
	return a.Severity()
}
