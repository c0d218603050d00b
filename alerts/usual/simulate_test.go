package usual

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	simulations = flag.Int("simulations", 0, "seeds to simulate with -slow; 0: one of 20 stages, without the table")
	simStages   = flag.Int("simulation-stages", 100, "stages of each seed")
)

// A detector is a way to find anomalies in a stage. fired returns the measures whose alarm started in the minute added last.
type detector interface {
	add(m int, x *minuteOf) (started uint)
	clone() detector
}

// ours is the method of this package.
type ours struct {
	w       [measureCount]Watch
	looping int // minutes for which AgentLoop does not fire again
}

func newOurs() detector {
	d := &ours{}
	for i, k := range measureKinds {
		d.w[i] = *New(k)
	}
	return d
}

func (d *ours) clone() detector {
	c := *d
	for i := range c.w {
		c.w[i].Baseline.open = d.w[i].Baseline.open.Clone()
		c.w[i].Baseline.cache = nil
	}
	return &c
}

func (d *ours) add(m int, x *minuteOf) (started uint) {
	at := monday.Add(time.Duration(m) * time.Minute)
	odd := func(i int) Sample { return Sample{Calls: x.calls, Amount: x.odd[i]} }
	for i, s := range [measureCount]Sample{
		mCalls: {Amount: x.calls}, mSpend: {Amount: x.cost.Sum, Calls: x.calls},
		mDuration: {Values: &x.duration}, mFirst: {Values: &x.first}, mInput: {Values: &x.in}, mOutput: {Values: &x.out}, mCost: {Values: &x.cost},
		mTools: {Calls: x.calls, Amount: x.toolErrors}, mHistory: {Values: &x.history},
		mOdd: odd(0), mOdd + 1: odd(1), mOdd + 2: odd(2), mOdd + 3: odd(3),
	} {
		if d.w[i].Add(at, s, config).Started {
			started |= 1 << i
		}
	}
	if d.looping = max(0, d.looping-1); x.repeated >= 5 { // the rule AgentLoop
		if d.looping == 0 {
			started |= 1 << mLoops
		}
		d.looping = 60
	}
	return started
}

// A simResult is what one detector did in all stages.
type simResult struct {
	warnings int    // alarms without those within an hour of another one of the stage
	during   [3]int // of them: on a holiday, in a burst, and others
	alarms   [measureCount]int
	byWeek   [4]int
	injected [3][]int       // by rate and anomaly
	delays   [3][][]float64 // minutes, of those found
}

func newResult() *simResult {
	r := &simResult{}
	for i := range r.injected {
		r.injected[i], r.delays[i] = make([]int, len(anomalies)), make([][]float64, len(anomalies))
	}
	return r
}

func (r *simResult) merge(o *simResult) {
	r.warnings += o.warnings
	for i, n := range o.during {
		r.during[i] += n
	}
	for i, n := range o.alarms {
		r.alarms[i] += n
	}
	for i, n := range o.byWeek {
		r.byWeek[i] += n
	}
	for i := range o.injected {
		for j, n := range o.injected[i] {
			r.injected[i][j] += n
			r.delays[i][j] = append(r.delays[i][j], o.delays[i][j]...)
		}
	}
}

// watched is the time in which an anomaly is to be found, in minutes.
const watched = 4 * 60

// simulate runs one stage for four weeks through the detectors. In the last week, each anomaly is injected twice into copies.
func simulate(i int, seed uint64, traces [][]traceMinute, detectors []detector) []*simResult {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	s := newStage(i, rnd, traces)
	results := make([]*simResult, len(detectors))
	for j := range results {
		results[j] = newResult()
	}
	forks := []int{21*1440 + rnd.IntN(3*1440), 24*1440 + rnd.IntN(3*1440)}
	last := make([]int, len(detectors))
	var x minuteOf
	var w window
	rivals := len(detectors) > 1
	for m := range horizon {
		if slices.Contains(forks, m) {
			for k := range anomalies {
				fork(i, m, k, s, w.clone(), detectors, results)
			}
		}
		s.minute(m, &none, &x)
		if rivals {
			x.five = w.add(&x)
		}
		for j, d := range detectors {
			started := d.add(m, &x)
			if started != 0 {
				if last[j] == 0 || m-last[j] > 60 {
					results[j].warnings++
					results[j].during[s.during(m)]++
				}
				last[j] = m
			}
			for k := range measureCount {
				if started>>k&1 == 1 {
					results[j].alarms[k]++
					results[j].byWeek[m/10080]++
				}
			}
		}
	}
	return results
}

// fork injects an anomaly into copies of a stage and of detectors.
func fork(i, m, k int, s *stage, w window, detectors []detector, results []*simResult) {
	c := *s
	c.rnd = rand.New(rand.NewPCG(uint64(m), uint64(i*100+k)))
	copies := make([]detector, len(detectors))
	found := make([]bool, len(detectors))
	for j, d := range detectors {
		copies[j] = d.clone()
		results[j].injected[i%3][k]++
	}
	var x minuteOf
	for n := range watched {
		c.minute(m+n, &anomalies[k], &x)
		if len(detectors) > 1 {
			x.five = w.add(&x)
		}
		for j, d := range copies {
			if found[j] {
				continue
			}
			started := d.add(m+n, &x)
			for _, measure := range anomalies[k].measures {
				found[j] = found[j] || started>>measure&1 == 1
			}
			if found[j] {
				results[j].delays[i%3][k] = append(results[j].delays[i%3][k], float64(n+1))
			}
		}
	}
}

// simulateAll runs the stages of a seed on all processors.
func simulateAll(seed, stages int, traces [][]traceMinute, detectors func() []detector) []*simResult {
	var mu sync.Mutex // guards all
	var all []*simResult
	for range detectors() {
		all = append(all, newResult())
	}
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range jobs {
				rs := simulate(i, uint64(seed), traces, detectors())
				mu.Lock()
				for j, r := range rs {
					all[j].merge(r)
				}
				mu.Unlock()
			}
		})
	}
	for i := range stages {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	return all
}

func table(names []string, all []*simResult, stages int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	month := float64(stages) * 28 / 30
	fmt.Fprint(w, "alarms per stage and month")
	for _, n := range names {
		fmt.Fprintf(w, "\t%s", n)
	}
	row := func(name string, f func(r *simResult) string) {
		fmt.Fprintf(w, "\n%s", name)
		for _, r := range all {
			fmt.Fprintf(w, "\t%s", f(r))
		}
	}
	row("all measures", func(r *simResult) string {
		n := 0
		for _, x := range r.alarms {
			n += x
		}
		return fmt.Sprintf("%.2f", float64(n)/month)
	})
	row("warnings: one for alarms within an hour", func(r *simResult) string { return fmt.Sprintf("%.2f", float64(r.warnings)/month) })
	for k, name := range []string{"on a holiday", "in a burst of calls", "at other times"} {
		row("  "+name, func(r *simResult) string { return fmt.Sprintf("%.2f", float64(r.during[k])/month) })
	}
	for k, name := range measureNames {
		row("  "+name, func(r *simResult) string { return fmt.Sprintf("%.2f", float64(r.alarms[k])/month) })
	}
	for k := range 4 {
		row(fmt.Sprintf("  in week %d", k+1), func(r *simResult) string { return fmt.Sprintf("%.2f", float64(r.byWeek[k])/month) })
	}
	fmt.Fprint(w, "\nfound within 4 hours, median delay in minutes")
	for rate, name := range []string{"0.1", "1", "10"} {
		for k, a := range anomalies {
			row(fmt.Sprintf("%s, %s calls a second", a.name, name), func(r *simResult) string {
				d := r.delays[rate][k]
				if len(d) == 0 {
					return "0 %"
				}
				slices.Sort(d)
				return fmt.Sprintf("%.0f %%, %.0f", 100*float64(len(d))/float64(r.injected[rate][k]), d[len(d)/2])
			})
		}
	}
	fmt.Fprintln(w)
	_ = w.Flush() // into memory
	return b.String()
}

// rivalStages is the number of stages of the first seed that the other methods see, because they take three times as long.
const rivalStages = 18

// TestSimulation simulates four weeks of stages without and with anomalies.
func TestSimulation(t *testing.T) {
	slowtest.Skip(t)
	data, isReal := traces(t)
	names := []string{"llmtap", "static", "z-score", "Grafana adaptive", "Grafana robust"}
	seeds, stages := *simulations, *simStages
	if seeds == 0 {
		seeds, stages = 1, 20
	}
	t.Logf("arrivals and tokens of real services: %t; else invented ones", isReal)
	total := newResult()
	for seed := range seeds {
		total.merge(simulateAll(seed+1, stages, data, func() []detector { return []detector{newOurs()} })[0])
		if *simulations > 0 {
			fmt.Fprintf(os.Stderr, "%d seeds\n%s", seed+1, table(names[:1], []*simResult{total}, (seed+1)*stages))
		}
	}
	if *simulations > 0 {
		few := min(rivalStages, stages)
		all := simulateAll(1, few, data, func() []detector {
			return []detector{newRival(5, static), newRival(0, zScore), newRival(5, adaptive), newRival(5, robust)}
		})
		fmt.Fprintf(os.Stderr, "traffic of real services: %t\n%s", isReal, table(names[1:], all, few))
	}
	if perStage := float64(total.warnings) / float64(seeds*stages); perStage > 1.5 {
		t.Errorf("%g warnings per stage", perStage)
	}
}

// The same, of one stage for each traffic: each finds what is five times as much.
func TestSimulatedStages(t *testing.T) {
	slowtest.SkipShort(t, "seconds of arithmetic; TestValues, TestAmount, TestSpend and TestShare cover each measure")
	data := [][]traceMinute{invented(0.6, 1), invented(0.25, 2)}
	for _, i := range []int{1, 4} {
		r := simulate(i, 1, data, []detector{newOurs()})[0]
		for k, a := range anomalies {
			if strings.HasPrefix(a.name, "5 times") && len(r.delays[i%3][k]) != r.injected[i%3][k] {
				t.Errorf("stage %d: %s is found %d times of %d", i, a.name, len(r.delays[i%3][k]), r.injected[i%3][k])
			}
		}
		if r.warnings > 4 {
			t.Errorf("stage %d: %d warnings", i, r.warnings)
		}
	}
}
