package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Failures in bursts, each after the end of the previous alert, are one incident: one group, whose relapses are news but not
// urgent. A burst after the window is a new incident.
func TestRelapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		burst := func() {
			t.Helper()
			b.seconds(30, calls("1.0", 12), failures("1.0", "x", "", 10))
			for range 400 { // the alert ends 5 minutes after the burst
				b.second(calls("1.0", 1))
			}
			if len(b.Active()) != 0 {
				t.Fatalf("%v fire", b.Active())
			}
		}
		incidents := map[time.Time]uint64{}
		for range 4 {
			burst()
			o := b.groups.sorted()[0]
			incidents[o.group().Since()] = o.raised
		}
		g := b.sent.last()
		if len(incidents) != 1 || len(g.Alerts) != 4 || g.Firing() {
			t.Errorf("%d incidents, the last with %d alerts; want 1 with 4, all resolved", len(incidents), len(g.Alerts))
		}
		for since, raised := range incidents {
			must.Equal(t, raised, 1, "news that raised the incident of %v, only the first", since)
		}
		b.seconds(600, calls("1.0", 1))
		must.Equal(t, len(b.groups.open), 0, "groups are open 10 minutes after the last alert")
		burst()
		must.Equal(t, incidents[b.sent.last().Since()], 0, "incidents of a burst after the window")
	})
}
