package regression

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Equal versions are worse in a measure at most as often as alpha says, although all are watched at every tick, the traffic is slower at
// times, and the limit is known from few calls. A version that needs twice as much is found, also if the old version has ended.
func TestMeasures(t *testing.T) {
	const (
		rollouts, alpha = 200, 0.05
		start, ticks    = 1_000_000, 300
	)
	measures := []string{"duration", "input_tokens"}
	run := func(rnd *rand.Rand, factor, share float64) (worse bool, measure string) {
		value := func(at int) float64 { return math.Exp(rnd.NormFloat64() + 0.5*math.Sin(float64(at)/40)) }
		var cells []Cell
		for i, m := range measures {
			own := i == 1 // the caller's
			var before []float64
			for tick := range 150 {
				before = append(before, value(tick))
			}
			most := slices.Sorted(slices.Values(before))[len(before)*95/100]
			for tick, v := range before {
				c := Counts{Calls: 1}
				if v > most {
					c.Failed = 1
				}
				cells = append(cells, Cell{Measure: m, At: int64(start - 2*Tick*(150-tick)), Old: c})
			}
			for tick := range ticks {
				c := Cell{Measure: m, At: int64(start + Tick*tick)}
				for range 2 {
					of, v := &c.Old, value(tick)
					if rnd.Float64() < share {
						of = &c.New
						if own {
							v *= factor
						}
					}
					if of.Calls++; v > most {
						of.Failed++
						if !own {
							of.Provider++
						}
					}
				}
				cells = append(cells, c)
			}
		}
		for tick := range ticks {
			n := Counts{Calls: 1}
			cells = append(cells, Cell{At: int64(start + Tick*tick), New: n, Old: n})
		}
		r := Compare(cells, time.Unix(start, 0), time.Unix(start+Tick*ticks, 0), alpha, true, measures...)
		return r.Worse, r.Groups[0].Measure
	}
	f := func(factor, share float64, least, most int) {
		t.Helper()
		found := 0
		for i := range rollouts {
			worse, measure := run(rand.New(rand.NewPCG(uint64(i), 1)), factor, share)
			if worse {
				found++
			}
			if worse && factor > 1 && measure != "input_tokens" {
				t.Errorf("worse in %q", measure)
			}
		}
		t.Logf("%g times the tokens, %g of the calls new: %d of %d rollouts are worse", factor, share, found, rollouts)
		if found < least || found > most {
			t.Errorf("%g times the tokens, %g of the calls new: %d of %d rollouts are worse, want %d to %d", factor, share, found, rollouts, least, most)
		}
	}
	f(1, 0.5, 0, alpha*rollouts)
	f(1, 0.1, 0, alpha*rollouts)
	f(3, 0.5, rollouts*3/4, rollouts)
	f(3, 0.1, rollouts/3, rollouts)
}
