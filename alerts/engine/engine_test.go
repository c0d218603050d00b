package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestFiresAndResolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		start := time.Now()
		b.second(calls("2.3.9", 48))
		b.second(calls("2.4.0", 50))
		example := func(root string, at int64) analyzer.Example {
			return analyzer.Example{
				Labels: failures("2.4.0", "orphan_tool_reply", root, 0).Labels, Exchange: root,
				Fix: "fix " + root, PublishedAt: b.sec*1e9 + at,
			}
		}
		b.add(&analyzer.Tally{
			Second: b.sec, Counts: []analyzer.Count{
				failures("2.4.0", "orphan_tool_reply", "tool_calls_dropped_on_save", 41), failures("2.4.0", "orphan_tool_reply", "", 2),
			},
			Examples: []analyzer.Example{example("tool_calls_dropped_on_save", 5), example("", 7)},
		})
		trigger := time.Unix(b.sec, 0).UTC()
		b.sec++
		b.idle(5 * time.Second)

		if n := len(b.sent.groups); n != 1 {
			t.Fatalf("%d notifications, want 1", n)
		}
		g := b.sent.groups[0]
		must.Equal(t, g.Key, `problem{service="checkout-agent",environment="prod",stage="planner",problem="tool_calls_dropped_on_save"}`, "key")
		step := time.Unix((start.Unix()+3+4)/5*5, 0).UTC()
		x := example("tool_calls_dropped_on_save", 0)
		x.PublishedAt = trigger.UnixNano() + 5
		want := alerts.Alert{
			Name: "StageFailureRate", State: alerts.Firing, Value: 43.0 / 98, Peak: 43.0 / 98,
			Labels:      map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "severity": "critical"},
			Annotations: g.Alerts[0].Annotations,
			StartsAt:    step, UpdatedAt: step, TriggeredAt: trigger,
			Evidence: alerts.Evidence{
				Window: 10 * time.Minute, Failed: 43, Calls: 98, LastFailed: trigger,
				Shares: []alerts.Share{
					{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 41, Fix: "fix tool_calls_dropped_on_save"},
					{Cause: "orphan_tool_reply", Failed: 2, Fix: "fix "},
				},
				Versions: []alerts.VersionCount{
					{Version: "2.3.9", Calls: 48, FirstSeen: start.UTC().Truncate(time.Second), CallsSince: 48},
					{Version: "2.4.0", Failed: 43, Calls: 50, FirstSeen: start.UTC().Truncate(time.Second).Add(time.Second), LastFailed: trigger},
				},
				Example: &x,
			},
			Problem: "tool_calls_dropped_on_save",
		}
		must.Agree(t, cmp.Diff([]alerts.Alert{want}, g.Alerts), "first notification")
		must.Equal(t, g.Alerts[0].Annotations["summary"], "checkout-agent/planner: 43.88% of calls are failing", "summary")
		if a := b.Active(); len(a) != 1 || a[0].Severity() != "critical" {
			t.Errorf("active %v, want only the critical one", a)
		}

		// There are no calls since, and the failures leave the window after 10 minutes.
		b.idle(9 * time.Minute)
		must.Equal(t, len(b.Active()), 1, "resolved without calls since the last failure")
		b.idle(2 * time.Minute)
		last := b.sent.last().Alerts[0]
		if last.State != alerts.Resolved || last.EndsAt.Sub(last.StartsAt) != 10*time.Minute {
			t.Errorf("state %s after %v, want resolved after 10m", last.State, last.EndsAt.Sub(last.StartsAt))
		}
		if last.Evidence.Failed != 43 || last.Peak != 43.0/98 {
			t.Errorf("resolved with %d failed, peak %v; want those at the peak", last.Evidence.Failed, last.Peak)
		}
		must.Equal(t, len(b.sent.groups), 3, "notifications: firing, without calls since, and resolved")
		if n := len(b.rec.rows); n != 2 || b.rec.rows[0].ID() != b.rec.rows[1].ID() || b.rec.rows[1].State != alerts.Resolved {
			t.Errorf("recorded %v, want one alert firing and resolved", b.rec.rows)
		}
		b.idle(10 * time.Minute) // an alert that fires again within its window would continue the group
		must.Equal(t, len(b.groups.open), 0, "a settled group remains open")
	})
}

// Changed numbers are sent every 15 s; the recorder gets news only.
func TestUpdatesAndRepeats(t *testing.T) {
	slowtest.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.seconds(61, calls("1", 4), failures("1", "context_length", "", 2))
		for i := 1; i < len(b.sent.at); i++ {
			if d := b.sent.at[i].Sub(b.sent.at[i-1]); d < 15*time.Second {
				t.Errorf("update %d after %v", i, d)
			}
		}
		if n := len(b.sent.groups); n < 4 || n > 5 {
			t.Errorf("%d notifications in a minute, want one per 15 s", n)
		}
		must.Equal(t, len(b.rec.rows), 1, "records")
		b.second(calls("1", 40), failures("1", "rate_limit", "", 40))
		b.idle(20 * time.Second)
		must.Equal(t, len(b.rec.rows), 2, "records after a new cause")
		for range 4 * 60 * 12 { // 4 h in steps of 5 s
			b.sec += 4
			time.Sleep(4 * time.Second)
			b.second(calls("1", 4), failures("1", "rate_limit", "", 2))
		}
		repeats := 0
		for _, g := range b.sent.groups {
			if g.Repeat {
				repeats++
			}
		}
		must.Equal(t, repeats, 1, "reminders in 4 h")
	})
}

// News waits for the update interval; a rise from warning to critical does not.
func TestRiseIsSentImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.UpdateInterval = time.Hour
		b := newBench(t, cfg, nil)
		b.second(calls("1", 100), failures("1", "x", "", 20))
		b.idle(10 * time.Second)
		b.second(calls("1", 40), failures("1", "y", "", 40)) // 60 of 140
		b.idle(10 * time.Second)
		if n := len(b.sent.groups); n != 2 || b.sent.last().Current()[0].Severity() != "critical" {
			t.Fatalf("%d notifications, the last of %v; want the warning, then the critical alert", n, b.sent.last().Current())
		}
		b.second(calls("1", 100), failures("1", "z", "", 90))
		b.idle(10 * time.Second)
		must.Equal(t, len(b.sent.groups), 2, "notifications while a new cause waits")
	})
}

func TestInhibition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.second(calls("1", 100), failures("1", "x", "", 20))
		b.idle(30 * time.Second)
		if a := b.Active(); len(a) != 1 || a[0].Severity() != "warning" {
			t.Fatalf("active %v, want the warning", a)
		}
		b.second(calls("1", 40), failures("1", "x", "", 40)) // 60 of 140
		b.idle(30 * time.Second)
		if a := b.Active(); len(a) != 1 || a[0].Severity() != "critical" {
			t.Fatalf("active %v, want only the critical one", a)
		}
		g := b.sent.last()
		if cur := g.Current(); len(cur) != 1 || cur[0].Severity() != "critical" || !cur[0].StartsAt.Equal(g.Since()) {
			t.Errorf("current %v, want one series, critical, since the warning", cur)
		}
		b.second(calls("1", 300)) // 60 of 440: only the warning is true; critical ends after keep_firing_for
		for range 6 {
			b.second(calls("1", 1), failures("1", "x", "", 1))
			b.idle(time.Minute)
		}
		if a := b.Active(); len(a) != 1 || a[0].Severity() != "warning" {
			t.Fatalf("active %v, want the warning again", a)
		}
		must.Equal(t, len(b.sent.last().Alerts), 1, "alerts in the group, one that escalates")
		b.idle(15 * time.Minute)
		if b.sent.last().Firing() || len(b.Active()) != 0 {
			t.Error("not resolved")
		}
	})
}

// A breach inside a gap is found, and marked as found late.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		from := b.sec - 3600 - 48*3600
		b.add(&analyzer.Tally{Second: from, Counts: []analyzer.Count{calls("1", 50), failures("1", "x", "", 50)}})
		b.add(&analyzer.Tally{Second: b.sec})
		b.idle(20 * time.Second)
		if n := len(b.sent.groups); n != 1 {
			t.Fatalf("%d notifications, want 1", n)
		}
		a := b.sent.groups[0].Alerts[0]
		if a.State != alerts.Resolved || !a.FoundLate || a.EndsAt.Sub(a.StartsAt) != 9*time.Minute+55*time.Second {
			t.Errorf("%s, late %v, lasted %v; want resolved, late, 9m55s", a.State, a.FoundLate, a.EndsAt.Sub(a.StartsAt))
		}
		if n := evaluations(t, b.m); n > 800 {
			t.Errorf("%v steps evaluated in a silence of 49 h", n)
		}
	})
}

func TestPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		s := (b.sec + 4) / 5 * 5
		b.add(&analyzer.Tally{Partition: 0, Second: s - 1})
		b.add(&analyzer.Tally{Partition: 1, Second: s - 1})
		b.add(&analyzer.Tally{Partition: 0, Second: s, Counts: []analyzer.Count{calls("1", 20), failures("1", "x", "", 12)}})
		b.add(&analyzer.Tally{Partition: 0, Second: s, Counts: []analyzer.Count{calls("1", 20), failures("1", "x", "", 12)}}) // duplicate
		b.add(&analyzer.Tally{Partition: 0, Second: s + 20})
		synctest.Wait()
		if len(b.sent.groups) != 0 {
			t.Fatal("evaluated before partition 1 was complete")
		}
		b.add(&analyzer.Tally{Partition: 1, Second: s + 4, Counts: []analyzer.Count{calls("1", 1)}})
		synctest.Wait()
		if n := len(b.sent.groups); n != 1 {
			t.Fatalf("%d notifications, want 1", n)
		}
		if ev := b.sent.groups[0].Alerts[0].Evidence; ev.Failed != 12 || ev.Calls != 21 {
			t.Errorf("%d of %d, want 12 of 21", ev.Failed, ev.Calls)
		}
		// Partition 1 stops: after a minute evaluation continues without it. Its later tallies still count.
		b.add(&analyzer.Tally{Partition: 0, Second: s + 80})
		if b.steps.next <= s+80 {
			t.Error("a dead partition blocks evaluation")
		}
		b.add(&analyzer.Tally{Partition: 1, Second: s + 6, Counts: []analyzer.Count{calls("1", 10), failures("1", "x", "", 5)}})
		b.add(&analyzer.Tally{Partition: 0, Second: s + 90})
		if a := b.Active(); len(a) != 1 || a[0].Evidence.Calls != 31 {
			t.Errorf("active %v, want 31 calls", a)
		}
		if stale, late := testutil.ToFloat64(b.m.talliesDropped), testutil.ToFloat64(b.m.talliesLate); stale != 1 || late != 1 {
			t.Errorf("%v stale and %v late tallies, want 1 of each", stale, late)
		}
		must.Fail(t, b.Add(t.Context(), &analyzer.Tally{Partition: 256, Second: s}), "", "partition 256 accepted")
	})
}

// Counts are exact during the whole life of a series: slow, ended for an hour, started again.
func TestSeriesLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		window := func(want float64) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			ts := time.Unix(b.steps.next-5, 0)
			v := must.Get(b.samples.Query(t.Context(), "sum(round(increase(llmtap_calls_total[10m1ms])))", ts))(t)
			got := 0.0
			if len(v) > 0 {
				got = v[0].F
			}
			var exact uint64
			for _, s := range b.samples.series {
				exact += s.between(ts.Unix()-600, ts.Unix())
			}
			if got != want || exact != uint64(want) {
				t.Errorf("PromQL %v, tallies %d in the window, want %v", got, exact, want)
			}
		}
		skip := func(d time.Duration) { b.sec += int64(d.Seconds()); b.add(&analyzer.Tally{Second: b.sec}); b.sec++ }
		b.second(calls("1", 7))
		skip(5 * time.Minute)
		window(7)
		b.second(calls("1", 2))
		skip(6 * time.Minute)
		window(2)
		skip(20 * time.Minute)
		window(0)
		if len(b.samples.series) != 2 { // the other one is llmtap_collector_observes
			t.Error("a series ended before the retention")
		}
		skip(40 * time.Minute)
		window(0)
		must.Equal(t, len(b.samples.series)+len(b.samples.cap.live["stage"]), 1, "series and label values remain after an idle hour")
		b.second(calls("1", 3))
		skip(5 * time.Second)
		window(3)
		skip(61 * time.Minute)
		b.second(calls("1", 4)) // the end and the new start are both in the window
		skip(5 * time.Second)
		window(4)
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.MaxLabelValues, cfg.MaxSeries = 2, 5 // one is llmtap_collector_observes
		b := newBench(t, cfg, nil)
		for i := range 10 {
			b.second(calls(fmt.Sprint("v", i), 10))
		}
		b.idle(5 * time.Second)
		must.Equal(t, len(b.samples.cap.live["service_version"]), 3, "versions, 2 and other")
		must.Equal(t, testutil.ToFloat64(b.m.valuesReplaced.WithLabelValues("service_version")), 8, "values replaced")
		b.second(failures("v0", "a", "", 1), failures("v0", "b", "", 1))
		b.idle(5 * time.Second)
		must.Equal(t, len(b.samples.series), 5, "series")
		must.Equal(t, testutil.ToFloat64(b.m.countsDropped.WithLabelValues("max_series")), 1, "dropped")
		if lint, err := testutil.GatherAndLint(b.reg); err != nil || len(lint) > 0 {
			t.Errorf("metrics: %v %v", lint, err)
		}
	})
}

func TestRetryAndFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.sent.err = func(n int) error {
			switch {
			case n < 2:
				return &alerts.RetryError{After: 7 * time.Second, Err: errors.New("rate limited")}
			case n < 4:
				return &alerts.RetryError{Err: errors.New("503")}
			}
			return nil
		}
		b.second(calls("1", 100), failures("1", "x", "", 100))
		b.idle(30 * time.Second)
		var gaps []time.Duration
		for i := 1; i < len(b.sent.at); i++ {
			gaps = append(gaps, b.sent.at[i].Sub(b.sent.at[i-1]))
		}
		want := []time.Duration{7 * time.Second, 7 * time.Second, 4 * time.Second, 8 * time.Second}
		must.Agree(t, cmp.Diff(want, gaps), "gaps between attempts")

		// After a final error there are no attempts until there is news, such as the end.
		b.sent.err = func(int) error { return errors.New("invalid_auth") }
		b.second(failures("2", "y", "", 30))
		b.idle(time.Minute)
		n := len(b.sent.groups)
		b.idle(time.Minute)
		must.Equal(t, len(b.sent.groups), n, "notifications after a final error")
		b.sent.err = nil
		b.idle(20 * time.Minute)
		if b.sent.last().Firing() || len(b.sent.groups) != n+1 {
			t.Error("the end was not sent once")
		}
	})
}

// A slow notifier delays neither Add nor the recorder.
func TestSlowNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.sent.err = func(int) error { time.Sleep(25 * time.Second); return nil }
		b.second(calls("1", 100), failures("1", "x", "", 100))
		b.idle(10 * time.Second)
		must.Equal(t, len(b.rec.rows), 1, "records while the notifier hangs")
		b.idle(30 * time.Second)
	})
}

func TestValidate(t *testing.T) {
	must.Do(t, Default().Validate())
	err := Config{EvaluationInterval: time.Millisecond, GroupBy: []string{"a-b"}}.Validate()
	for _, key := range []string{"interval", "repeat_interval", "retention", "max_series", "max_label_values", `group_by[0]: "a-b"`} {
		must.Fail(t, err, key)
	}
}

func evaluations(t *testing.T, m *metrics) uint64 {
	t.Helper()
	var out dto.Metric
	must.Do(t, m.evaluation.Write(&out))
	return out.GetHistogram().GetSampleCount()
}
