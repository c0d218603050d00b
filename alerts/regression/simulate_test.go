package regression

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	simulations = flag.Int("simulations", 0, "rollouts to simulate for each row of the table; 0: a few, without the table")
	simCalls    = flag.Int("simulation-calls", 100_000, "calls of both versions in each simulated rollout")
)

const simAlpha = 0.001

// A scenario is a simulated rollout.
type scenario struct {
	name     string
	base     float64 // probability of a failure of the old version
	factor   float64 // that of the new version is higher by this factor, or 1 at most
	share    float64 // of the new version; 1: the old version ended before
	perSec   int
	outages  bool // five outages that hit both versions: every second call fails
	clusters bool // conversations of up to 16 calls that fail until their end once they fail
	calls    bool // every call is a trial, also after a failure of its conversation
}

// run simulates one rollout of n calls and compares its versions at every tick.
func (s scenario) run(rnd *rand.Rand, n int) Result {
	const start = 1_000_000
	history := min(1800, n/20) // ticks
	type conversation struct {
		isNew, failed bool
		at            int
	}
	var cells []Cell
	var open []conversation
	simulate := func(from, ticks int, share float64, started bool) {
		for tick := range ticks {
			at := int64(from + tick*Tick)
			down := s.outages && started && tick*10/ticks%2 == 1 && tick%7 < 3
			byPosition := map[int]*Cell{}
			for range s.perSec * Tick {
				c, slot := conversation{isNew: rnd.Float64() < share, at: 1}, -1
				if s.clusters && len(open) > 50 && rnd.IntN(16) > 0 {
					slot = rnd.IntN(len(open))
					c = open[slot]
					c.at++
					c.isNew = share == 1 && rnd.IntN(2) == 0 || c.isNew // the other half was moved
				}
				p := s.base
				if c.isNew {
					p = min(1, p*s.factor)
				}
				if s.clusters && c.at == 1 {
					p /= 4 // the first call has no history that could be broken
				}
				if down {
					p = max(p, 0.5)
				}
				failed := rnd.Float64() < p || s.clusters && c.failed
				if !c.failed || s.calls {
					pos := Position(c.at)
					if s.calls {
						pos = 0
					}
					cell := byPosition[pos]
					if cell == nil {
						cell = &Cell{Stage: "s", Position: pos, At: at}
						byPosition[pos] = cell
					}
					counts := &cell.Old
					if c.isNew {
						counts = &cell.New
					}
					counts.Calls++
					if failed {
						counts.Failed++
						if down {
							counts.Provider++
						}
					}
				}
				c.failed = c.failed || failed
				switch {
				case !s.clusters:
				case slot < 0:
					open = append(open, c)
				case c.at >= 16:
					open = slices.Delete(open, slot, slot+1)
				default:
					open[slot] = c
				}
			}
			for pos := range 5 {
				if c := byPosition[pos]; c != nil {
					cells = append(cells, *c)
				}
			}
		}
	}
	simulate(start-history*Tick, history, 0, false)
	ticks := n / (s.perSec * Tick)
	simulate(start, ticks, s.share, true)
	return Compare(cells, time.Unix(start, 0), time.Unix(int64(start+ticks*Tick), 0), simAlpha, true)
}

// TestFalseAlarms simulates rollouts of versions that are not worse. The evidence is looked at after every tick.
func TestFalseAlarms(t *testing.T) {
	runs, n := *simulations, *simCalls
	if runs == 0 {
		runs, n = 5, 3000
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "false alarms\tbase rate\tshare of new\trollouts\tstopped")
	seed, all, stopped := uint64(1), 0, 0
	for _, s := range []scenario{
		{name: "independent failures"},
		{name: "outages of the provider", outages: true},
		{name: "conversations that keep failing", clusters: true},
		{name: "both", clusters: true, outages: true},
	} {
		for _, s.base = range []float64{0.001, 0.01, 0.05, 0.4} {
			for _, s.share = range []float64{0.01, 0.1, 0.5, 1} {
				s.factor, s.perSec = 1, 50
				falseAlarms := 0
				for range runs {
					seed++
					if s.run(rand.New(rand.NewPCG(seed, 20)), n).Worse {
						falseAlarms++
					}
				}
				all, stopped = all+runs, stopped+falseAlarms
				fmt.Fprintf(w, "%s\t%g %%\t%g %%\t%d\t%d\n", s.name, 100*s.base, 100*s.share, runs, falseAlarms)
			}
		}
	}
	_ = w.Flush() // into memory
	if *simulations > 0 {
		fmt.Fprintf(os.Stderr, "%s%d of %d stopped, alpha %g\n", b.String(), stopped, all, simAlpha)
	}
	// With alpha 0.001, one false alarm among the few of a test is unlikely, and two are a defect.
	if limit := 1 + 2*float64(all)*simAlpha; float64(stopped) > limit {
		t.Errorf("%d of %d rollouts of a version that is not worse were stopped:\n%s", stopped, all, b.String())
	}
}

// TestPower measures after how many calls of the new version a regression is found.
func TestPower(t *testing.T) {
	runs, n := *simulations, *simCalls
	if runs == 0 {
		runs, n = 5, 2000
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "regression\tbase rate\tshare of new\tfound\tcalls of the new version, median\t9 of 10")
	seed := uint64(1)
	for _, factor := range []float64{2, 5, 20, 1e9} {
		for _, base := range []float64{0.001, 0.01, 0.05} {
			for _, share := range []float64{0.01, 0.1, 0.5, 1} {
				s := scenario{base: base, factor: factor, share: share, perSec: 50}
				if share >= 0.5 {
					s.perSec = 5
				}
				var calls []uint64
				for range runs {
					seed++
					if r := s.run(rand.New(rand.NewPCG(seed, 21)), n); r.Worse {
						calls = append(calls, r.Calls)
					}
				}
				name := fmt.Sprintf("%g times", factor)
				if factor > 1000 {
					name = "all calls fail"
				}
				quantile := func(q float64) string {
					i := int(q * float64(runs))
					if slices.Sort(calls); i >= len(calls) {
						return "-"
					}
					return fmt.Sprint(calls[i])
				}
				fmt.Fprintf(w, "%s\t%g %%\t%g %%\t%d of %d\t%s\t%s\n", name, 100*base, 100*share, len(calls), runs, quantile(0.5), quantile(0.9))
				if enough := float64(n)*share > 30; factor > 1000 && enough && (len(calls) < runs || slices.Max(calls) > 50) {
					t.Errorf("%s, base %g, share %g: found in %d of %d rollouts, after %d calls", name, base, share, len(calls), runs, calls)
				}
			}
		}
	}
	_ = w.Flush() // into memory
	if *simulations > 0 {
		fmt.Fprint(os.Stderr, b.String())
	}
}

// Without the reduction to one failure per conversation, repeated failures of one conversation look like evidence. The alert
// rule, which only knows calls, therefore discounts the evidence, see package alerts.
func TestClusters(t *testing.T) {
	runs := max(5, *simulations)
	for _, base := range []float64{0.001, 0.01, 0.05} {
		var trials, calls, discounted int
		for i := range runs {
			s := scenario{base: base, factor: 1, share: 0.1, perSec: 50, clusters: true}
			if s.run(rand.New(rand.NewPCG(uint64(i), 22)), 10_000).Worse {
				trials++
			}
			s.calls = true
			r := s.run(rand.New(rand.NewPCG(uint64(i), 22)), 10_000)
			if r.Worse {
				calls++
			}
			if math.Pow(r.Evidence, 1.0/10) >= 1/simAlpha {
				discounted++
			}
		}
		t.Logf("base rate %g: of %d rollouts, stopped with one failure per conversation: %d, with all: %d, with all, discounted: %d", base, runs, trials, calls, discounted)
		if trials > 1 || discounted > 1 {
			t.Errorf("base rate %g: %d and %d of %d rollouts were stopped", base, trials, discounted, runs)
		}
	}
}
