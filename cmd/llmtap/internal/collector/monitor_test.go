package collector

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// notified is a notifier that records state, severity and rule of each alert, once.
type notified []string

func (l *notified) Notify(_ context.Context, g alerts.Group) error {
	for i := range g.Alerts {
		a := &g.Alerts[i]
		if s := string(a.State) + " " + a.Severity() + " " + a.Name; !slices.Contains(*l, s) {
			*l = append(*l, s)
		}
	}
	return nil
}

// Faults of llmtap itself fire alerts without any tally, with a severity that depends on their duration, and resolve.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := func(name string, quiet time.Duration, fault func(st *jetstream.State, now time.Time) (tallies bool, nats, store error), want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var broken, tallies bool
			var nats, store error
			var mu sync.Mutex // guards these
			look := func() *jetstream.State {
				st := &jetstream.State{
					Streams:    []jetstream.StreamState{{Name: event.StreamEvents, Messages: 1000, Bytes: 50, MaxBytes: 100, MaxAge: 24 * time.Hour}},
					Partitions: []jetstream.PartitionState{{Name: "p0of1"}},
				}
				tallies, nats, store = true, nil, nil
				if broken {
					tallies, nats, store = fault(st, time.Now())
				}
				return st
			}
			h := newMonitor(func(context.Context) (*jetstream.State, error) {
				mu.Lock()
				defer mu.Unlock()
				return look(), nats
			}, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				look()
				return store
			}, time.Now())
			cfg := engine.Default()
			cfg.EvaluationInterval = 5 * time.Second
			got := new(notified)
			e := must.Get(engine.New(t.Context(), cfg, engine.Options{Notifiers: []alerts.Notifier{withoutWatchdog{got}}, Health: true}))(t)
			stopEngine := must.Run(t, e.Run)
			stopMonitor := must.Run(t, func(ctx context.Context) error { return h.run(ctx, e, cfg.EvaluationInterval) })
			pass := func(d time.Duration) {
				for range d / time.Second {
					time.Sleep(time.Second)
					mu.Lock()
					look()
					seen := tallies
					mu.Unlock()
					if seen {
						h.observeTally(&analyzer.Tally{Second: time.Now().Unix() - 1})
					}
				}
				synctest.Wait()
			}
			pass(5 * time.Minute)
			mu.Lock()
			broken = true
			mu.Unlock()
			pass(quiet)
			if len(*got) > 0 {
				t.Errorf("%s: %v after %v", name, *got, quiet)
			}
			pass(50 * time.Minute)
			mu.Lock()
			broken = false
			mu.Unlock()
			pass(10 * time.Minute)
			var all []string
			for _, w := range want {
				severity, name, _ := strings.Cut(w, " ")
				if all = append(all, "firing "+w); severity == "critical" || !slices.Contains(want, "critical "+name) { // else it escalates
					all = append(all, "resolved "+w)
				}
			}
			slices.Sort(all)
			slices.Sort(*got)
			must.Agree(t, cmp.Diff(all, []string(*got), cmpopts.EquateEmpty()), name)
			stopEngine()
			stopMonitor()
			must.Do(t, e.Close())
		})
	}
	fine := func(*jetstream.State, time.Time) (bool, error, error) { return true, nil, nil }
	f("nothing", time.Hour, fine)
	f("the analyzer is dead", 5*time.Minute, func(*jetstream.State, time.Time) (bool, error, error) { return false, nil, nil },
		"critical CollectorBlind")
	f("ClickHouse is down", 2*time.Minute, func(*jetstream.State, time.Time) (bool, error, error) { return true, nil, errors.New("refused") },
		"warning StoreUnreachable", "critical StoreUnreachable")
	f("NATS is unreachable", 2*time.Minute, func(*jetstream.State, time.Time) (bool, error, error) { return true, errors.New("timeout"), nil },
		"warning CollectorBlind")
	f("backlog of half of the retention", time.Hour, func(st *jetstream.State, now time.Time) (bool, error, error) {
		st.Partitions[0].Pending, st.Partitions[0].OldestPending = 10, now.Add(-12*time.Hour)
		return true, nil, nil
	})
	f("backlog of more than half of the retention", time.Minute, func(st *jetstream.State, now time.Time) (bool, error, error) {
		st.Partitions[0].Pending, st.Partitions[0].OldestPending = 10, now.Add(-13*time.Hour)
		return true, nil, nil
	}, "warning BacklogGrowing")
	f("backlog of most of the bytes", time.Minute, func(st *jetstream.State, now time.Time) (bool, error, error) {
		st.Streams[0].Bytes, st.Partitions[0].Pending, st.Partitions[0].OldestPending = 95, 900, now.Add(-time.Hour)
		return true, nil, nil
	}, "critical BacklogGrowing")
	f("events lost", 0, func(st *jetstream.State, now time.Time) (bool, error, error) {
		st.Partitions[0].Lost = 7
		return true, nil, nil
	}, "critical EventsLost")
}

// A restart after an outage of the collector is not a failure: the tallies that it reads first are as old as the outage, and the
// clock of the NATS server may be ahead.
func TestHealthAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		run := func(skew, catchUp, d time.Duration) []string {
			t.Helper()
			stopped := time.Now().Add(-27 * time.Minute)
			h := newMonitor(func(context.Context) (*jetstream.State, error) {
				return &jetstream.State{Skew: skew, Partitions: []jetstream.PartitionState{{Name: "p0of1"}}}, nil
			}, func(context.Context) error { return nil }, time.Now())
			cfg := engine.Default()
			got := new(notified)
			e, err := engine.New(t.Context(), cfg, engine.Options{
				Notifiers: []alerts.Notifier{withoutWatchdog{got}}, Health: true, Standby: true, Store: store,
			})
			must.Do(t, err)
			stopEngine := must.Run(t, e.Run)
			stopMonitor := must.Run(t, func(ctx context.Context) error { return h.run(ctx, e, cfg.EvaluationInterval) })
			for began := time.Now(); time.Since(began) < d; time.Sleep(time.Second) {
				newest := time.Now().Add(skew).Add(-time.Second)
				if time.Since(began) < catchUp {
					newest = stopped
				}
				h.observeTally(&analyzer.Tally{Second: newest.Unix()})
			}
			stopEngine()
			stopMonitor()
			must.Do(t, e.Close())
			return *got
		}
		if got := run(0, 0, 10*time.Minute); len(got) > 0 {
			t.Errorf("before: %v", got)
		}
		for _, skew := range []time.Duration{0, 27 * time.Minute} {
			time.Sleep(27 * time.Minute)
			if got := run(skew, 4*time.Minute, 20*time.Minute); len(got) > 0 {
				t.Errorf("after an outage, NATS is %v ahead: %v", skew, got)
			}
		}
		must.Agree(t, cmp.Diff([]string{"firing critical CollectorBlind"}, run(0, 20*time.Minute, 20*time.Minute)), "the analyzer does not catch up")
	})
}

// While the store is unreachable, alerts report it and since when.
func TestHealthUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down error
		h := newMonitor(func(context.Context) (*jetstream.State, error) { return &jetstream.State{}, nil },
			func(context.Context) error { return down }, time.Now())
		look := func() string {
			h.probe(t.Context())
			time.Sleep(time.Minute)
			return h.unavailable()
		}
		must.Equal(t, look(), "", "store up")
		down = errors.New("refused")
		for range 2 {
			if got := look(); !strings.HasPrefix(got, "ClickHouse has been unreachable since 00:01:00 UTC. ") {
				t.Errorf("store down: %q", got)
			}
		}
		down = nil
		must.Equal(t, look(), "", "store up again")
	})
}
