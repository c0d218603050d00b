package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// since returns the last failure and the calls since, of the alert and of its versions.
func since(ev alerts.Evidence) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return fmt.Sprint("at ", t.Unix()%1000)
	}
	out := []string{fmt.Sprintf("%s, %d since", at(ev.LastFailed), ev.CallsSince)}
	for _, v := range ev.Versions {
		out = append(out, fmt.Sprintf("%s %d/%d %s, %d since", v.Version, v.Failed, v.Calls, at(v.LastFailed), v.CallsSince))
	}
	return strings.Join(out, "; ")
}

// An alert reports the second of the last failed call and the exact number of calls since, also of versions that began
// later, while it fires without new failures and once it is resolved.
func TestCallsSinceLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.sec = b.sec / 1000 * 1000
		want := func(text string) {
			t.Helper()
			must.Equal(t, since(b.sent.last().Alerts[0].Evidence), text, "since")
		}
		b.second(calls("1.0", 30))
		b.second(calls("1.1", 30), failures("1.1", "x", "", 15))
		b.second(calls("1.1", 30), failures("1.1", "x", "", 15)) // second 2
		b.second(calls("1.1", 3))                                // in the same step
		b.idle(10 * time.Second)
		want("at 2, 3 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since")
		b.idle(4 * time.Minute)
		b.second(calls("1.2", 80))
		b.idle(20 * time.Second)
		want("at 2, 83 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/80 never, 80 since")
		b.second(calls("1.2", 4))
		b.idle(20 * time.Second)
		want("at 2, 87 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/84 never, 84 since")
		b.idle(time.Minute)
		if b.sent.last().Firing() {
			t.Error("not resolved")
		}
		want("at 2, 87 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/84 never, 84 since")
	})
}

// Failures that end in a fixed version: the alert does not get worse while older calls leave the window, and ends 5 minutes
// after the last failure.
func TestFixEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.seconds(60, calls("1.0", 4))
		for i := range 120 {
			if i%2 == 0 {
				b.second(calls("1.1", 1), failures("1.1", "x", "", 1), calls("1.0", 1))
			} else {
				b.second()
			}
		}
		last := time.Unix(b.sec-2, 0).UTC()
		b.idle(5 * time.Second)
		before := b.Active()[0]
		n := len(b.rec.rows)
		for len(b.Active()) > 0 && b.sec < last.Unix()+3600 {
			b.second(calls("1.2", 1))
			for _, a := range b.Active() {
				if a.Severity() != "warning" || a.Value != before.Value || a.Peak != before.Peak || !a.TriggeredAt.Equal(before.TriggeredAt) ||
					!a.Evidence.LastFailed.Equal(last) || a.Evidence.Failed != before.Evidence.Failed || a.Evidence.Calls != before.Evidence.Calls {
					t.Fatalf("%v after the last failure: %+v\nwant the numbers of %+v", time.Unix(b.sec, 0).Sub(last), a, before)
				}
			}
		}
		b.idle(20 * time.Second) // the update interval
		x := b.sent.last().Alerts[0]
		if d := x.EndsAt.Sub(last); x.State != alerts.Resolved || d < 5*time.Minute || d > 5*time.Minute+5*time.Second {
			t.Errorf("%s %v after the last failure, want resolved after 5 minutes", x.State, d)
		}
		must.Equal(t, len(b.rec.rows)-n, 1, "news after the last failure, only the end")
		if x.Evidence.CallsSince < 290 {
			t.Errorf("resolved with %d calls since the last failure", x.Evidence.CallsSince)
		}
	})
}

// Silence is no success: the alert does not get worse while successful calls leave the window before the failed ones, and
// fires until the window is empty. It ends with the note that there were no calls.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.second(calls("1.1", 100))
		b.idle(30 * time.Second)
		b.second(calls("1.1", 40), failures("1.1", "x", "", 30)) // 30 of 140, later 30 of 40
		last := time.Unix(b.sec-1, 0).UTC()
		b.idle(5 * time.Second)
		n := len(b.rec.rows)
		for len(b.Active()) > 0 && b.sec < last.Unix()+3600 {
			b.second()
			for _, a := range b.Active() {
				if a.Severity() != "warning" || a.Peak != 30.0/140 || a.Evidence.Failed != 30 || a.Evidence.Calls != 140 {
					t.Fatalf("%v after the last failure: %+v", time.Unix(b.sec, 0).Sub(last), a)
				}
			}
		}
		b.idle(20 * time.Second) // the update interval
		x := b.sent.last().Alerts[0]
		if d := x.EndsAt.Sub(last); x.State != alerts.Resolved || d < 10*time.Minute || d > 10*time.Minute+5*time.Second {
			t.Errorf("%s %v after the last failure, want resolved after 10 minutes", x.State, d)
		}
		if ev := x.Evidence; !ev.LastFailed.Equal(last) || ev.CallsSince != 0 {
			t.Errorf("resolved with %s", since(ev))
		}
		must.Equal(t, len(b.rec.rows)-n, 1, "news after the last failure, only the end")

		// A call after the silence ends it.
		b.idle(10 * time.Minute)
		b.second(calls("1.1", 40), failures("1.1", "x", "", 30))
		b.idle(7 * time.Minute)
		must.Equal(t, len(b.Active()), 1, "resolved without a call")
		b.second(calls("1.1", 1))
		b.idle(10 * time.Second)
		if x := b.sent.last().Alerts[0]; x.State != alerts.Resolved || x.Evidence.CallsSince != 1 {
			t.Errorf("%s with %s", x.State, since(x.Evidence))
		}
	})
}

// A rule without a short window, as users write it, does not get worse without new failures either.
func TestNewFailuresWithoutShortWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := "sum by (stage) (round(increase(llmtap_failed_calls_total[10m1ms]))) / sum by (stage) (round(increase(llmtap_calls_total[10m1ms])))"
		cfg := Default()
		cfg.RuleFiles = []string{ruleFile(t, "",
			"Share|"+share+" > 0.3|labels: {severity: critical}", "Share|"+share+" > 0.1|labels: {severity: warning}", "Other|"+share+" > 0.25",
		)}
		b := newBench(t, cfg, nil)
		active := func() string {
			var out []string
			for _, a := range b.Active() {
				out = append(out, fmt.Sprintf("%s %s %.2f", a.Name, a.Severity(), a.Peak))
			}
			return strings.Join(out, ", ")
		}
		want := func(text string) {
			t.Helper()
			must.Equal(t, active(), text, "active")
		}
		b.second(calls("1.1", 100))
		b.idle(time.Minute)
		b.second(calls("1.1", 40), failures("1.1", "x", "", 30))
		b.idle(9*time.Minute + 30*time.Second) // 30 of 40
		want("Share warning 0.21")
		b.second(calls("1.1", 1), failures("1.1", "x", "", 1))
		b.idle(5 * time.Second) // 31 of 41
		want("Other  0.76, Share critical 0.76")
	})
}

// A minute without calls after the last failure is sent, so that a message can say so.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.second(calls("1.0", 30))
		b.second(calls("1.1", 30), failures("1.1", "x", "", 15))
		b.idle(40 * time.Second)
		if g := b.sent.last(); !g.Firing() || g.Alerts[0].Evidence.Quiet {
			t.Errorf("after 40 s: %+v", g.Alerts)
		}
		b.idle(2 * time.Minute)
		if g := b.sent.last(); !g.Firing() || !g.Alerts[0].Evidence.Quiet {
			t.Errorf("after 160 s: %+v", g.Alerts)
		}
		b.second(calls("1.2", 1))
		b.idle(time.Minute)
		if ev := b.sent.last().Alerts[0].Evidence; ev.Quiet || ev.CallsSince != 1 {
			t.Errorf("after a call: %+v", ev)
		}
	})
}
