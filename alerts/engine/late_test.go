package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An alert that began without a leader is sent by the next leader as found late, even if that engine is warm. An alert that was
// already sent is not marked.
func TestFoundLateWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a, b := newStandby(t, store, nil), newStandby(t, store, nil)
		both := []*Engine{a.Engine, b.Engine}
		writer := with(planner("1"), "stage", "writer")
		known := []analyzer.Count{calls("1", 10), failures("1", "x", "", 5), {Metric: analyzer.MetricCalls, Labels: writer, N: 10}}
		broken := append(known, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(writer, "status", "400", "cause", "y"), N: 6})

		stop := a.lead(t)
		pass(t, 120, known, both...)
		stop()
		both = both[1:] // a is dead, b evaluates and does not lead
		burst := time.Now()
		pass(t, 300, broken, both...)
		pass(t, 300, known, both...)
		stop = b.lead(t)
		synctest.Wait()
		pass(t, 20, known, both...)
		stop()

		sent := map[string]alerts.Alert{}
		for _, g := range b.sent.groups {
			for _, x := range g.Alerts {
				sent[x.Labels["stage"]] = x
			}
		}
		if x := sent["writer"]; !x.FoundLate || x.StartsAt.Sub(burst) > 3*time.Minute || x.Evidence.Failed != 1800 {
			t.Errorf("the burst that began at %v is sent as one since %v with %d failed calls, found late: %v", burst, x.StartsAt, x.Evidence.Failed, x.FoundLate)
		}
		if x := sent["planner"]; x.FoundLate {
			t.Error("an alert of the previous leader is marked as found late")
		}
	})
}

// An alert that ended without a leader is sent with the time of its end, and one that began and ended is sent once, as resolved.
func TestEndedWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		a, b := newStandby(t, store, nil), newStandby(t, store, nil)
		both := []*standby{a, b}
		pass := func(d time.Duration, counts ...analyzer.Count) {
			t.Helper()
			for range d / (5 * time.Second) {
				for _, x := range both {
					must.Do(t, x.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix() + 4, Counts: counts}))
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
			}
		}
		writer := with(planner("1"), "stage", "writer")
		sound := []analyzer.Count{calls("1", 10), {Metric: analyzer.MetricCalls, Labels: writer, N: 10}}
		stop := a.lead(t)
		pass(time.Minute, append(sound, failures("1", "x", "", 5))...)
		stop()
		both = both[1:]
		pass(4*time.Minute, append(sound, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(writer, "status", "400", "cause", "y"), N: 5})...)
		pass(30*time.Minute, sound...)
		stop = b.lead(t)
		synctest.Wait()
		pass(20*time.Second, sound...)
		stop()

		last := map[string]alerts.Group{}
		for _, g := range b.sent.groups {
			last[g.Alerts[0].Labels["stage"]] = g
		}
		began := a.sent.last().Since()
		for stage, ended := range map[string][2]time.Duration{"planner": {5 * time.Minute, 7 * time.Minute}, "writer": {9 * time.Minute, 11 * time.Minute}} {
			g := last[stage]
			if len(g.Alerts) == 0 || g.Firing() {
				t.Errorf("%s: sent %+v, want its end", stage, g)
				continue
			}
			x := g.Current()[0]
			if d := x.EndsAt.Sub(began); d < ended[0] || d > ended[1] || x.FoundLate != (stage == "writer") {
				t.Errorf("%s: ended %v after the planner began, found late: %v", stage, d, x.FoundLate)
			}
		}
		must.Equal(t, len(b.groups.open), 0, "groups are open")
	})
}

// Alerts report what is unavailable for as long as it is.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "ClickHouse does not answer"
		b := newBench(t, Default(), nil)
		b.mu.Lock()
		b.unavailable = func() string { return text } // called with mu locked
		b.mu.Unlock()
		breach(b, 30)
		must.Equal(t, b.sent.last().Alerts[0].Unavailable, text, "unavailable while the store is down")
		b.mu.Lock()
		text = ""
		b.mu.Unlock()
		breach(b, 30)
		must.Equal(t, b.sent.last().Alerts[0].Unavailable, "", "unavailable after the store is back")
	})
}
