package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A flaky receiver has a name.
type flaky struct{ notifier }

func (*flaky) Name() string { return "slack #alerts" }

// While a receiver is down, one group is tried at a time, and not always the same; what waits and why is known.
func TestReceiverDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		down := true
		f.err = func(int) error {
			if down {
				return &alerts.RetryError{Down: true, Err: errors.New("503")}
			}
			return nil
		}
		b := newBenchOf(t, Default(), Options{Notifiers: []alerts.Notifier{f}})
		b.seconds(120, stages(20, 8)...)
		if n := len(f.groups); n < 6 || n > 10 {
			t.Errorf("%d attempts in 2 minutes, want those of one backoff", n)
		}
		tried := map[string]bool{}
		for _, g := range f.groups {
			tried[g.Key] = true
		}
		must.Equal(t, len(tried), len(f.groups), "groups tried, another one each time")
		s := b.Receivers()
		if len(s) != 1 || s[0].Waiting != 20 || s[0].Err == nil || time.Since(s[0].FailedAt) < 100*time.Second || time.Since(s[0].Since) < 100*time.Second {
			t.Errorf("state %+v", s)
		}
		want := "# HELP llmtap_alerts_notifications_waiting Alert groups with news that the receiver has not accepted yet.\n" +
			"# TYPE llmtap_alerts_notifications_waiting gauge\nllmtap_alerts_notifications_waiting{receiver=\"slack #alerts\"} 20\n"
		must.Do(t, testutil.GatherAndCompare(b.reg, strings.NewReader(want), "llmtap_alerts_notifications_waiting"))
		down = false
		b.seconds(65, stages(20, 8)...)
		if s := b.Receivers(); s[0].Waiting != 0 || s[0].Err != nil {
			t.Errorf("state a minute after the receiver works: %+v", s)
		}
	})
}

// A group that always fails, with an error that looks like one of the receiver, does not block the others.
func TestOneGroupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		delivered := map[string]bool{}
		f.err = func(n int) error {
			if g := f.groups[n]; strings.Contains(g.Key, "stage-000") {
				return &alerts.RetryError{Down: true, Err: errors.New("internal_error")}
			}
			delivered[f.groups[n].Key] = true
			return nil
		}
		b := newBenchOf(t, Default(), Options{Notifiers: []alerts.Notifier{f}})
		b.seconds(30, stages(20, 8)...)
		must.Equal(t, len(delivered), 19, "groups delivered")
	})
}

// Groups whose end a receiver does not accept are kept for a day, and give way to groups that fire.
func TestUndelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := newReceiver(&flaky{})
		g := &groups{cfg: Default(), m: newMetrics(nil), receivers: []*receiver{r}, open: map[string]*openGroup{}, leads: true}
		r.faults.add(&alerts.RetryError{Down: true, Err: errors.New("503")}, true, now)
		for i := range maxGroups {
			key := fmt.Sprintf("group %04d", i)
			o := g.of(key)
			o.alerts = []*trackedAlert{{Alert: alerts.Alert{State: alerts.Resolved, EndsAt: now.Add(time.Duration(i) * time.Second)}}}
			o.addNews()
			o.sent[0].version, o.sent[0].attempts = 1, 1
		}
		if g.of("new") == nil || g.open["group 0000"] != nil || len(g.open) != maxGroups {
			t.Error("the group that ended first did not give way")
		}
		g.evaluated = now.Add(2 * endMemory).Unix()
		o := g.open["group 0001"]
		if g.settle(o); g.open[o.key] == nil {
			t.Error("closed at once")
		}
		time.Sleep(endMemory + time.Minute)
		if g.settle(o); g.open[o.key] != nil {
			t.Error("open after a day")
		}
	})
}
