package usual

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/dist"
)

var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// minutes adds n minutes to w, starting at minute from after monday, and returns the first result with an alarm, else the last.
func minutes(w *Watch, from, n int, sample func(minute int) Sample) Result {
	var r Result
	for i := from; i < from+n; i++ {
		r = w.Add(monday.Add(time.Duration(i)*time.Minute), sample(i), Default())
		if r.Started {
			return r
		}
	}
	return r
}

// lognormal returns n values around median.
func lognormal(rnd *rand.Rand, n int, median float64) Sample {
	var d dist.Dist
	for range n {
		d.Add(uint64(median * math.Exp(0.7*rnd.NormFloat64())))
	}
	return Sample{Values: &d}
}

func TestValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	w := New(Values)
	usual := func(int) Sample { return lognormal(rnd, 20, 1000) }
	const days = 24 * 60
	r := minutes(w, 0, 9*days, usual)
	if want := 1000 * math.Exp(0.7*1.645); r.Firing || r.Basis != HourOfWeek || math.Abs(r.Value/want-1) > 0.1 {
		t.Fatalf("after nine days: %+v, not %g", r, want)
	}
	r = minutes(w, 9*days, 60, func(int) Sample { return lognormal(rnd, 20, 2000) })
	since := r.Since.Sub(monday.Add(9 * days * time.Minute)).Minutes()
	if !r.Started || r.Direction != High || math.Abs(since) > 20 || r.Now < 0.05 {
		t.Errorf("twice as long: %+v, since %g", r, since)
	}
}

func TestAmount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	season := func(i int) float64 { return 60 * (1 + 0.8*math.Sin(2*math.Pi*float64(i)/1440)) }
	sample := func(factor float64) func(int) Sample {
		return func(i int) Sample {
			m := factor * season(i)
			return Sample{Amount: uint64(max(0, math.Round(m+math.Sqrt(m)*rnd.NormFloat64())))}
		}
	}
	w := New(Amount)
	const days = 24 * 60
	r := minutes(w, 0, 15*days+600, sample(1))
	if want := season(15*days + 600); r.Firing || math.Abs(r.Value/want-1) > 0.15 {
		t.Fatalf("after two weeks: %+v, not %g", r, want)
	}
	saved := *w
	if r = minutes(w, 15*days+600, 120, sample(0.5)); !r.Started || r.Direction != Low {
		t.Errorf("half the calls: %+v", r)
	}
	if r = minutes(&saved, 15*days+600, 120, sample(3)); !r.Started || r.Direction != High {
		t.Errorf("three times the calls: %+v", r)
	}
}
