package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// breach adds n seconds of a failing stage.
func breach(b *bench, n int) {
	b.t.Helper()
	b.seconds(n, calls("1", 4), failures("1", "x", "", 2))
}

// replay adds the tallies of breach again from start, as the stream does after a restart.
func replay(b *bench, start, end int64) {
	b.t.Helper()
	for s := start; s < end; s++ {
		b.add(&analyzer.Tally{Second: s, Counts: []analyzer.Count{calls("1", 4), failures("1", "x", "", 2)}})
	}
}

func TestRestartRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a := newBench(t, Default(), store)
		start := a.sec
		breach(a, 60)
		first := a.sent.groups[0].Alerts[0]
		a.stop()

		b := newBench(t, Default(), store)
		replay(b, start, b.sec)
		b.idle(10 * time.Second)
		for _, g := range b.sent.groups {
			if x := g.Alerts[0]; !x.StartsAt.Equal(first.StartsAt) || !x.TriggeredAt.Equal(first.TriggeredAt) || x.ID() != first.ID() || g.Repeat {
				t.Errorf("after the restart it started at %v, repeat %v; want an update of the one since %v", x.StartsAt, g.Repeat, first.StartsAt)
			}
		}
		must.Equal(t, len(b.rec.rows), 0, "records after the restart, none without news")
		must.Equal(t, len(b.Active()), 1, "the alert is lost")
	})
}

func TestRestartSendsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a := newBench(t, Default(), store)
		start, end := a.sec, a.sec+60
		breach(a, 60)
		a.stop()
		time.Sleep(40 * time.Minute) // it ends without an evaluation

		b := newBench(t, Default(), store)
		replay(b, start, end)
		b.sec = time.Now().Unix()
		b.idle(20 * time.Second)
		if n := len(b.sent.groups); n != 1 || b.sent.last().Firing() {
			t.Fatalf("%d notifications, want the resolved one", n)
		}
		x := b.sent.last().Alerts[0]
		if d := x.EndsAt.Sub(x.StartsAt); d < 10*time.Minute || d > 11*time.Minute {
			t.Errorf("lasted %v, want 11 minutes: until the window was empty", d)
		}
		if n := len(b.rec.rows); n != 1 || b.rec.rows[0].State != alerts.Resolved {
			t.Errorf("recorded %v, want the resolved alert", b.rec.rows)
		}
	})
}

// An intent that was stored but not sent before a crash is sent at the start, before the first tally.
func TestRestartSendsIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a := newBench(t, Default(), store)
		a.sent.err = func(int) error { return &alerts.RetryError{Err: errors.New("503")} }
		breach(a, 20)
		a.stop()
		b := newBench(t, Default(), store)
		synctest.Wait()
		if n := len(b.sent.groups); n != 1 || !b.sent.last().Firing() {
			t.Errorf("%d notifications, want one of the intent", n)
		}
	})
}

// A start with too short a replay must not resolve an alert because of its missing history.
func TestRestartWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a := newBench(t, Default(), store)
		breach(a, 20)
		a.stop()
		b := newBench(t, Default(), store)
		b.idle(5 * time.Minute)
		must.Equal(t, len(b.Active()), 1, "resolved without history")
		b.idle(6 * time.Minute)
		if len(b.Active()) != 0 || b.sent.last().Firing() {
			t.Error("not resolved when the window was full")
		}
	})
}

// An alert that fires in silence ends at the same time with and without a restart, also if the tallies cover only its own
// window and not that of other rules.
func TestRestartInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml", "../rules/events_lost.yaml"}
		store := &alertstest.Store{}
		a := newBench(t, cfg, store)
		start := a.sec
		breach(a, 60)
		a.idle(6 * time.Minute)
		end := a.sec
		a.stop()
		b := newBench(t, cfg, store)
		replay(b, start, start+60)
		for s := start + 60; s < end; s++ {
			b.add(&analyzer.Tally{Second: s})
		}
		b.idle(3*time.Minute + 50*time.Second)
		must.Equal(t, len(b.Active()), 1, "resolved without calls")
		b.idle(30 * time.Second)
		last := time.Unix(start+59, 0)
		if x := b.sent.last().Alerts[0]; x.State != alerts.Resolved || x.EndsAt.Sub(last) < 10*time.Minute || x.EndsAt.Sub(last) > 10*time.Minute+5*time.Second || x.Evidence.CallsSince > 0 {
			t.Errorf("%s %v after the last failure, with %d calls since; want resolved after 10 minutes without calls", x.State, x.EndsAt.Sub(last), x.Evidence.CallsSince)
		}
	})
}

// A store that rejects writes delays no notification.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		store.Fail(errors.New("no quorum"))
		b := newBench(t, Default(), store)
		breach(b, 20)
		if len(b.sent.groups) == 0 {
			t.Error("no notification while the store is down")
		}
		store.Fail(nil)
		breach(b, 10)
		must.Equal(t, len(store.Values()), 2, "keys stored, the engine's and the group's")
	})
}

func TestRecorderDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.rec.err = errors.New("no database")
		breach(b, 30)
		b.rec.mu.Lock()
		b.rec.err = nil
		b.rec.mu.Unlock()
		b.idle(90 * time.Second)
		if n := len(b.rec.rows); n != 1 || len(b.sent.groups) == 0 {
			t.Errorf("%d records, %d notifications", n, len(b.sent.groups))
		}
	})
}

func TestUnreadableState(t *testing.T) {
	store := &alertstest.Store{}
	must.Do(t, store.Put(t.Context(), stateKey, []byte("{")))
	e := newEngine(t, Default(), Options{Store: store})
	must.Do(t, e.Close())
}

// While ClickHouse is down, a restart changes nothing for its alert: it neither ends nor starts over while its rule is
// pending again. It ends soon after ClickHouse is back.
func TestRestartWhilePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		run := func(up float64, d time.Duration) (states []string) {
			t.Helper()
			cfg := Default()
			sent := &notifier{}
			e := newEngine(t, cfg, Options{Health: true, Standby: true, Store: store, Notifiers: []alerts.Notifier{sent}})
			stop := must.Run(t, e.Run)
			for range d / (5 * time.Second) {
				must.Do(t, e.Observe(t.Context(), time.Now(), []Gauge{{Metric: rules.MetricStoreUp, Value: up}}))
				time.Sleep(5 * time.Second)
				synctest.Wait()
			}
			stop()
			for _, g := range sent.groups {
				for _, a := range g.Current() {
					if s := a.Name + " " + a.Severity() + " " + string(a.State); a.Name != "Watchdog" && !slices.Contains(states, s) {
						states = append(states, s)
					}
				}
			}
			return states
		}
		want := func(step string, got []string, want ...string) {
			t.Helper()
			must.Agree(t, cmp.Diff(want, got), step)
		}
		want("down", run(0, 40*time.Minute), "StoreUnreachable warning firing", "StoreUnreachable critical firing")
		time.Sleep(27 * time.Minute)
		want("restarted", run(0, 20*time.Minute))
		want("back", run(1, 15*time.Minute), "StoreUnreachable critical resolved")
	})
}
