package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// The tests of this file cover bugs reported about other alerting on LLM traffic.

// of moves counts to another stage.
func of(stage string, counts ...analyzer.Count) []analyzer.Count {
	for i := range counts {
		counts[i].Labels = with(counts[i].Labels, "stage", stage)
	}
	return counts
}

// changesOf returns the state changes that were sent of a stage.
func (b *bench) changesOf(stage string) string {
	b.sent.mu.Lock()
	defer b.sent.mu.Unlock()
	var out []string
	for _, g := range b.sent.groups {
		for _, a := range g.Alerts {
			if s := string(a.State); a.Labels["stage"] == stage && (len(out) == 0 || out[len(out)-1] != s) {
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, " ")
}

// While one group fires, another one that begins to fire is sent immediately, and one without further counts is resolved.
func TestEachGroupHasItsOwnState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), &alertstest.Store{})
		b.second(of("planner", calls("1", 40), failures("1", "x", "", 30))...)
		b.idle(10 * time.Second)
		b.second(of("executor", calls("1", 40), failures("1", "x", "", 30))...)
		b.idle(4 * time.Second) // far less than the update interval
		if p, x := b.changesOf("planner"), b.changesOf("executor"); p != "firing" || x != "firing" {
			t.Fatalf("planner %q, executor %q; want both sent", p, x)
		}
		for _, g := range b.sent.groups {
			must.Equal(t, len(g.Alerts), 1, "alerts of %s", g.Key)
		}
		for range 25 * 60 { // the executor keeps failing, the planner stopped
			b.second(of("executor", calls("1", 4), failures("1", "x", "", 3))...)
		}
		if p, x := b.changesOf("planner"), b.changesOf("executor"); p != "firing resolved" || x != "firing" {
			t.Errorf("planner %q, executor %q; want the planner's end", p, x)
		}
		for range 70 * 60 / 5 { // beyond the life of a series
			b.sec += 4
			time.Sleep(4 * time.Second)
			b.second(of("writer", calls("1", 4))...)
		}
		if x := b.changesOf("executor"); x != "firing resolved" || len(b.Active()) != 0 || len(b.groups.open) != 0 {
			t.Errorf("executor %q, active %v, %d open groups", x, b.Active(), len(b.groups.open))
		}
	})
}

// After a pause the missed steps are evaluated one by one: a breach in the middle one is sent, although it has ended by the last
// one.
func TestBreachInsideMissedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{ruleFile(t, "", "Three|sum by (stage) (round(increase(llmtap_failed_calls_total[5s1ms]))) >= 3")}
		b := newBench(t, cfg, &alertstest.Store{})
		b.sec = b.sec/5*5 + 5
		b.second()
		b.idle(9 * time.Second)
		time.Sleep(10 * time.Minute) // no tallies
		for i, n := range []uint64{1, 3, 1} {
			b.add(&analyzer.Tally{Second: b.sec + int64(5*i), Counts: []analyzer.Count{failures("1", "x", "", n)}})
		}
		b.add(&analyzer.Tally{Second: time.Now().Unix()})
		synctest.Wait()
		time.Sleep(cfg.UpdateInterval) // the notification may have begun between two of the steps
		synctest.Wait()
		n := len(b.sent.groups)
		if n < 1 || n > 2 {
			t.Fatalf("%d notifications, want one, or one at the start and one at the end", n)
		}
		a := b.sent.groups[n-1].Alerts[0]
		if a.State != alerts.Resolved || !a.FoundLate || a.EndsAt.Sub(a.StartsAt) != 5*time.Second || a.Peak != 3 {
			t.Errorf("%s, late %v, for %v, peak %v", a.State, a.FoundLate, a.EndsAt.Sub(a.StartsAt), a.Peak)
		}
	})
}

// A restart does not change when a reminder is due.
func TestReminderSurvivesRestart(t *testing.T) {
	slowtest.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		feed := func(b *bench, d time.Duration) {
			t.Helper()
			for range int(d / (5 * time.Second)) {
				b.sec += 4
				time.Sleep(4 * time.Second)
				b.second(calls("1", 4), failures("1", "x", "", 2))
			}
		}
		a := newBench(t, Default(), store)
		feed(a, 3*time.Hour+50*time.Minute)
		first := a.sent.at[0]
		a.stop()
		for _, g := range a.sent.groups {
			if g.Repeat {
				t.Error("a reminder was early")
			}
		}
		b := newBench(t, Default(), store)
		feed(b, 30*time.Minute)
		var at []time.Duration
		for i, g := range b.sent.groups {
			if g.Repeat {
				at = append(at, b.sent.at[i].Sub(first))
			}
		}
		if len(at) != 1 || at[0] < 4*time.Hour || at[0] > 4*time.Hour+time.Minute {
			t.Errorf("reminders after %v, want one after 4h", at)
		}
	})
}

// A rejected notification does not count as sent, in memory or in the store: it is sent again, also after a restart.
func TestNotifiedOnlyWhenAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a := newBench(t, Default(), store)
		a.sent.err = func(int) error { return &alerts.RetryError{Err: fmt.Errorf("503")} }
		breach(a, 30)
		if n := len(a.sent.groups); n < 3 {
			t.Errorf("%d attempts in 30 s", n)
		}
		for _, n := range a.groups.open {
			if d := n.sent[0]; d.version != 0 || !d.at.IsZero() || n.settled {
				t.Errorf("counts as sent: %+v", d)
			}
		}
		a.stop()
		b := newBench(t, Default(), store)
		synctest.Wait()
		must.Equal(t, len(b.sent.groups), 1, "notifications immediately after the restart")
		a, b = b, nil
		a.stop()
		b = newBench(t, Default(), store)
		synctest.Wait()
		must.Equal(t, len(b.sent.groups), 0, "repeated notifications")
	})
}

// However many alerts fire, memory, store and notifications are bounded, and dropped alerts are counted.
func TestStormIsBounded(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.MaxLabelValues = 2000
		storm := func(b *bench, stages int) {
			t.Helper()
			var counts []analyzer.Count
			for i := range stages {
				counts = append(counts, of(fmt.Sprintf("s%04d", i), calls("1", 20), failures("1", "x", "", 20))...)
			}
			b.second(counts...)
			b.idle(10 * time.Second)
		}
		b := newBench(t, cfg, &alertstest.Store{})
		storm(b, maxGroups+100)
		if n, dropped := len(b.groups.open), testutil.ToFloat64(b.m.alertsDropped.WithLabelValues("max_alerts")); n != maxGroups || dropped < 100 {
			t.Errorf("%d groups, %v alerts dropped", n, dropped)
		}
		b.stop()

		cfg.GroupBy = []string{"service"} // all in one group
		store := &alertstest.Store{}
		b = newBench(t, cfg, store)
		storm(b, 100)
		for _, g := range b.sent.groups {
			if len(g.Alerts) > maxGroupAlerts {
				t.Errorf("a group of %d alerts", len(g.Alerts))
			}
		}
		for k, v := range store.Values() {
			if len(v) > 1<<20 {
				t.Errorf("%d bytes at %s", len(v), k)
			}
		}
		must.Equal(t, len(b.sent.groups), 1, "notifications")
	})
}
