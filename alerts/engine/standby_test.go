package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// One of two partitions dies and is taken over 17 s later: its seconds since the checkpoint arrive again, in another epoch, and
// then the missing ones. Each is counted once, in its step, and the breach in the gap is found.
func TestPartitionDiesAndIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		start := b.sec
		tally := func(partition int, epoch uint64, second int64, counts ...analyzer.Count) {
			t.Helper()
			b.add(&analyzer.Tally{Partition: partition, Epoch: epoch, Second: second, Counts: counts})
		}
		broken := []analyzer.Count{calls("1", 10), failures("1", "x", "", 8)}
		for s := start; s < start+30; s++ { // partition 1 has no failures until it dies
			tally(0, 1, s, calls("1", 10))
			tally(1, 1, s, calls("1", 10))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for s := start + 30; s < start+47; s++ {
			tally(0, 1, s, calls("1", 10))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if step := b.steps.next; step > start+30+5 {
			t.Errorf("step %d was evaluated while a live partition is at %d", step-start, 30)
		}
		for s := start + 20; s < start+47; s++ { // from its checkpoint on
			counts := broken
			if s < start+30 {
				counts = []analyzer.Count{calls("1", 10)}
			}
			tally(1, 2, s, counts...)
		}
		for s := start + 47; s < start+60; s++ {
			tally(0, 1, s, calls("1", 10))
			tally(1, 2, s, broken...)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if len(b.sent.groups) == 0 {
			t.Fatal("the breach was not sent")
		}
		e := b.Active()[0].Evidence
		// 60 s of 10 calls of each partition, and 30 s with 8 failed ones, without the seconds of the next step.
		last := b.steps.next - 5 - start
		if want := [2]uint64{uint64(last * 20), uint64((last - 30) * 8)}; e.Calls != want[0] || e.Failed != want[1] {
			t.Errorf("%d of %d calls failed, want %d of %d", e.Failed, e.Calls, want[1], want[0])
		}
	})
}

// Of two engines one leads until it dies, then the other one. Notifications of the first are not repeated, and alerts in between
// are sent once.
func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a, b := newStandby(t, store, nil), newStandby(t, store, nil)
		second := func(n int, counts ...analyzer.Count) {
			t.Helper()
			pass(t, n, counts, a.Engine, b.Engine)
		}
		stop := a.lead(t)
		second(60, calls("1", 10), failures("1", "x", "", 5))
		sent := a.sent.last().Alerts[0]
		if len(b.sent.groups) != 0 || len(b.Active()) != 0 {
			t.Errorf("%d notifications of the standby", len(b.sent.groups))
		}

		stop()
		before := len(a.sent.groups)
		other := with(planner("1"), "stage", "writer")
		second(15, // no leader
			calls("1", 10), failures("1", "x", "", 5), analyzer.Count{Metric: analyzer.MetricCalls, Labels: other, N: 10},
			analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(other, "status", "400", "cause", "y"), N: 9})
		if len(a.sent.groups) != before || len(b.sent.groups) != 0 {
			t.Error("an engine notified without leading")
		}

		stop = b.lead(t)
		synctest.Wait()
		second(20, calls("1", 10), failures("1", "x", "", 5))
		stages := map[string]int{}
		for _, g := range b.sent.groups {
			for _, x := range g.Alerts {
				stages[x.Labels["stage"]]++
				if x.Labels["stage"] == "planner" && (x.ID() != sent.ID() || g.Repeat) {
					t.Errorf("the planner's alert since %v is sent as a new one, or as a reminder", x.StartsAt)
				}
			}
		}
		if stages["writer"] == 0 {
			t.Errorf("an alert that fired without a leader was not sent: %v", stages)
		}
		names := func(e *Engine) (out []string) {
			for _, x := range e.Active() {
				out = append(out, fmt.Sprint(x.Name, " ", x.Labels["stage"], " ", x.StartsAt.Unix()))
			}
			return out
		}
		firing := names(b.Engine)
		stop()

		stop = a.lead(t) // and back
		second(10, calls("1", 10), failures("1", "x", "", 5))
		must.Agree(t, cmp.Diff(firing, names(a.Engine)), "firing (-second leader +third)")
		stop()
	})
}

// A standby is one of several engines with one store.
type standby struct {
	*Engine
	sent *notifier
}

func newStandby(t *testing.T, store alerts.Store, leads func() bool) *standby {
	t.Helper()
	cfg := Default()
	cfg.EvaluationInterval, cfg.RuleFiles = benchInterval, []string{"../rules/stage_failure_rate.yaml"}
	s := &standby{sent: &notifier{}}
	s.Engine = newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{s.sent}, Store: store, Standby: true, Leads: leads, Registerer: prometheus.NewRegistry()})
	return s
}

// lead makes s the leader until the returned function is called.
func (s *standby) lead(t *testing.T) (stop func()) {
	return must.Run(t, s.Run)
}

// A process that was suspended in Run while another one took over sends nothing.
func TestSuspendedLeaderIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		a := newStandby(t, &alertstest.Store{}, leads.Load)
		stop := a.lead(t)
		defer stop()
		counts := []analyzer.Count{calls("1", 10), failures("1", "x", "", 5)}
		pass(t, 60, counts, a.Engine)
		if n := len(a.sent.groups); n > 0 {
			t.Errorf("%d notifications without the lease", n)
		}
		leads.Store(true)
		pass(t, 5, counts, a.Engine)
		if len(a.sent.groups) == 0 {
			t.Error("no notification with the lease")
		}
	})
}
