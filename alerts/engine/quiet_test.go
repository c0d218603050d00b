package engine

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A time of day is usually quiet if it was on most days that llmtap saw, also after a restart and a takeover.
func TestQuietTimes(t *testing.T) {
	const day, hour = 86_400, 3600
	calls := []tally{{Tally: &analyzer.Tally{Counts: []analyzer.Count{{Metric: analyzer.MetricCalls, N: 1}}}}}
	start := int64(1_795_219_200) // midnight
	run := func(q *quietTimes, from, to int64, busy, observed bool) {
		for s := from; s < to; s += 30 {
			if busy {
				q.observe(start+s+30, calls, observed)
			} else {
				q.observe(start+s+30, nil, observed)
			}
		}
	}
	check := func(q *quietTimes, want float64, wantKnown bool) {
		t.Helper()
		if got, known := q.usual(); got != want || known != wantKnown {
			t.Errorf("%v, %v; want %v, %v", got, known, want, wantKnown)
		}
	}
	q := newQuiet()
	run(q, 0, 18*hour, true, true)
	check(q, 0, false)
	run(q, 18*hour, day, false, true) // a night
	run(q, day, day+12*hour, true, true)
	check(q, 0, true) // noon
	run(q, day+12*hour, day+17*hour+1800, true, true)
	check(q, 1, true) // it is quiet within an hour
	run(q, day+17*hour+1800, 2*day, true, true)
	run(q, 2*day, 2*day+18*hour, true, true)
	check(q, 0.5, true) // on one of two days

	// llmtap was down for a part of the evening, which is not silence.
	run(q, 2*day+18*hour, 2*day+19*hour, false, false)
	run(q, 2*day+21*hour, 3*day+18*hour, true, true)
	check(q, 1./3, true)

	restarted := newQuiet()
	restarted.restore(q.save())
	check(restarted, 1./3, true)
	run(restarted, 3*day+18*hour, 3*day+18*hour+60, true, true)
	check(restarted, 1./3, true)
	standby := newQuiet()
	run(standby, 3*day+17*hour, 3*day+18*hour+60, true, true)
	check(standby, 0, false)
	standby.restore(restarted.save())
	check(standby, 1./3, true)
	must.Equal(t, standby.save(), restarted.save(), "saved")
	for _, bad := range []savedQuiet{{}, {Slot: -1, Slots: "."}, {Slot: 1, Slots: strings.Repeat(".", quietSlots+1)}, {Slot: 1, Slots: "...."}} {
		standby.restore(bad)
	}
	run(standby, 40*day, 40*day+60, true, true)
	check(standby, 0, false)
}
