package usual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// config is one false alarm per month and stage, with as many measures as the engine has.
var config = Config{PerMonth: 1, Measures: 13}

// add adds the minutes from and before to of the time after monday, and returns the first result that starts an alarm, else the last.
func add(w *Watch, from, to int, sample func(minute int) Sample) (r Result) {
	for m := from; m < to; m++ {
		if r = w.Add(minute(m), sample(m), config); r.Started {
			return r
		}
	}
	return r
}

func minute(m int) time.Time { return monday.Add(time.Duration(m) * time.Minute) }

// calls returns samples of n calls with lognormal values around median, whose 95th percentile is 3.16 times as high.
func calls(rnd *rand.Rand, n int, median float64) func(int) Sample {
	return func(int) Sample {
		var d dist.Dist
		for range n {
			d.Add(uint64(median * math.Exp(0.7*rnd.NormFloat64())))
		}
		return Sample{Values: &d}
	}
}

// traffic returns samples of about n calls a minute with a daily season and independent arrivals.
func traffic(rnd *rand.Rand, n float64) func(int) Sample {
	return func(m int) Sample {
		mean := n * (1 + 0.8*math.Sin(2*math.Pi*float64(m)/day))
		return Sample{Amount: drawPoisson(rnd, mean)}
	}
}

func near(t *testing.T, got, want, tolerance float64, what string) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %g, not about %g", what, got, want)
	}
}

// The expected factor of each alternative is 1 if the share or the mean is that of High, and at most 1 below.
func TestMartingale(t *testing.T) {
	for _, f := range factors {
		for _, p := range []float64{0.01, 0.03, 0.05} {
			mean := 0.0
			for x, q := 0, math.Pow(1-p, 20); x <= 20; x++ {
				mean += q * math.Exp(binomial(float64(x), 20, 0.05, f, Usual{Dispersion: 1}))
				q *= float64(20-x) / float64(x+1) * p / (1 - p)
			}
			if mean > 1+1e-9 || p == 0.05 && mean < 1-1e-9 {
				t.Errorf("share %g, factor %g: mean %g", p, f, mean)
			}
		}
		for _, c := range []struct{ mean, null, alternative float64 }{{6, 6, 6 * f}, {4, 6, 6 * f}, {6, 6, 6 / f}, {9, 6, 6 / f}} {
			u := Usual{Dispersion: 0.3, Unit: 1}
			size := 1 / u.Dispersion
			mean, q := 0.0, math.Pow(size/(size+c.mean), size)
			for x := range 200 {
				mean += q * math.Exp(negativeBinomial(float64(x), 1, c.null, c.alternative, u))
				q *= (float64(x) + size) / float64(x+1) * c.mean / (size + c.mean)
			}
			if mean > 1+1e-6 || c.mean == c.null && f < 7 && mean < 1-1e-3 {
				t.Errorf("%+v: mean %g", c, mean)
			}
		}
	}
}

func TestValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	w := New(Values)
	r := add(w, 0, 9*day, calls(rnd, 20, 1000))
	if r.Firing || r.Basis != HourOfWeek || !r.Young {
		t.Fatalf("after nine days: %+v", r)
	}
	near(t, r.Value, 3160, 0.1, "95th percentile")
	r = add(w, 9*day, 9*day+60, calls(rnd, 20, 2000))
	if !r.Started || r.Direction != High || math.Abs(r.Since.Sub(minute(9*day)).Minutes()) > 10 || r.Now <= 0.05 || r.Evidence < r.Limit {
		t.Errorf("twice as long: %+v", r)
	}
	r = add(w, 9*day+60, 9*day+180, calls(rnd, 20, 1000))
	if r.Firing {
		t.Errorf("two hours later: %+v", r)
	}
}

func TestAmount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	w := New(Amount)
	r := add(w, 0, 16*day, traffic(rnd, 60))
	if r.Firing || r.Young {
		t.Fatalf("after two weeks: %+v", r)
	}
	near(t, w.Baseline.At(minute(16*day+6*60)).Value, 60*1.8, 0.1, "calls at the peak")
	near(t, w.Baseline.At(minute(16*day+18*60)).Value, 60*0.2, 0.1, "calls at the lowest")
	for factor, d := range map[float64]Direction{0: Low, 0.5: Low, 1.5: High, 10: High} {
		c := *w
		r := add(&c, 16*day, 16*day+120, func(m int) Sample { return Sample{Amount: uint64(factor * float64(traffic(rnd, 60)(m).Amount))} })
		if !r.Started || r.Direction != d {
			t.Errorf("%g times the calls: %+v", factor, r)
		}
	}
	// A short burst is none, unless it is high.
	c := *w
	if r = add(&c, 16*day, 16*day+20, func(int) Sample { return Sample{Amount: 100} }); r.Started {
		t.Errorf("a burst: %+v", r)
	}
}

// A few calls in the night of a stage that has none then are no flood, and a loop is.
func TestNight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 12))
	office := func(m int) Sample {
		if m%day < 8*60 || m%day > 18*60 {
			return Sample{}
		}
		return Sample{Amount: drawPoisson(rnd, 10)}
	}
	w := New(Amount)
	if r := add(w, 0, 16*day+60, office); r.Started {
		t.Fatalf("%+v", r)
	}
	c := *w
	if r := add(&c, 16*day+60, 16*day+120, func(m int) Sample { return Sample{Amount: uint64(m % 2)} }); r.Started {
		t.Errorf("a call every other minute: %+v", r)
	}
	if r := add(w, 16*day+60, 16*day+150, func(int) Sample { return Sample{Amount: 6} }); !r.Started {
		t.Errorf("six calls each minute: %+v", r)
	}
}

func TestSpend(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	spend := func(price float64) func(int) Sample {
		return func(int) Sample {
			s := Sample{Calls: drawPoisson(rnd, 20)}
			for range s.Calls {
				s.Amount += uint64(price * 500 * math.Exp(rnd.NormFloat64()))
			}
			return s
		}
	}
	w := New(Spend)
	r := add(w, 0, 16*day, spend(1))
	near(t, r.Value, 20*500*math.Exp(0.5), 0.1, "spend of a minute")
	c := *w
	if r = add(&c, 16*day, 16*day+120, spend(0.3)); r.Firing {
		t.Errorf("less money: %+v", r)
	}
	if r = add(w, 16*day, 16*day+60, spend(2)); !r.Started || r.Direction != High {
		t.Errorf("twice the money: %+v", r)
	}
}

func TestShare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 4))
	errors := func(p float64) func(int) Sample {
		return func(int) Sample { return Sample{Calls: 20, Amount: drawBinomial(rnd, 20, p)} }
	}
	w := New(Share)
	r := add(w, 0, 10*day, errors(0.004))
	if r.Firing || r.Basis != HourOfWeek {
		t.Fatalf("%+v", r)
	}
	near(t, r.Value, 0.004, 0.3, "share")
	if r = add(w, 10*day, 10*day+120, errors(0.05)); !r.Started {
		t.Errorf("5 %% errors: %+v", r)
	}
}

// Before there is a week, the hours before tell what is usual.
func TestBasis(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 5))
	w := New(Amount)
	for m := range 8*day + 60 {
		r := w.Add(minute(m), traffic(rnd, 60)(m), config)
		if want, ok := map[int]Basis{60: Nothing, 4 * 60: HoursPast, 26 * 60: HourOfDay, 6 * day: HourOfDay, 7*day + 120: HourOfWeek}[m]; ok {
			must.Equal(t, r.Basis, want, "after minute %d", m)
		}
		if r.Firing {
			t.Fatalf("minute %d: %+v", m, r)
		}
	}
	must.Equal(t, fmt.Sprint(Nothing, HoursPast, HourOfDay, HourOfWeek), "nothing yet the hours before this hour of the days before this hour of the weeks before", "bases")
}

// An outage of three hours is not usual a week later, nor is a gap in recording; growth is followed.
func TestNotPoisoned(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 6))
	level := func(m int) float64 { return 1000 * math.Pow(1.1, float64(m)/(7*day)) }
	w := New(Values)
	normal := func(m int) Sample { return calls(rnd, 10, level(m))(m) }
	add(w, 0, 10*day, normal)
	for m := 10 * day; m < 10*day+180; m++ {
		w.Add(minute(m), calls(rnd, 10, 5*level(m))(m), config)
	}
	add(w, 10*day+180, 13*day, normal)
	r := add(w, 15*day, 17*day+90, normal) // nothing was recorded for two days
	if r.Started {
		t.Fatalf("%+v", r)
	}
	must.Equal(t, r.Basis, HourOfWeek, "basis")
	near(t, r.Value, 3.16*level(17*day), 0.12, "a week after the outage, the percentile")
	r = add(w, 17*day+90, 28*day, normal)
	near(t, r.Value, 3.16*level(28*day), 0.12, "after growth, the percentile")
}

// A change that stays is the new normal after some days, or at once if a person says so.
func TestAccept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	for _, known := range []int{5 * 60, 4 * day, 15 * day} { // on each basis
		w := New(Values)
		add(w, 0, known, calls(rnd, 20, 1000))
		r := add(w, known, known+180, calls(rnd, 20, 3000))
		if !r.Started {
			t.Fatalf("after %d minutes: %+v", known, r)
		}
		now := int(r.Since.Sub(monday).Minutes())
		add(w, now+60, now+120, calls(rnd, 20, 3000))
		w.Accept(r.Since)
		r = add(w, now+120, now+day, calls(rnd, 20, 3000))
		if r.Started || r.Firing {
			t.Errorf("accepted after %d minutes, yet %+v", known, r)
		}
		near(t, r.Value, 3*3160, 0.15, "the new percentile")
	}
	w := New(Values)
	add(w, 0, 15*day, calls(rnd, 20, 1000))
	for m := 15 * day; m < 19*day; m++ {
		w.Add(minute(m), calls(rnd, 20, 1800)(m), config)
	}
	r := w.Add(minute(19*day), calls(rnd, 20, 1800)(0), config)
	if r.Firing {
		t.Errorf("after four days: %+v", r)
	}
}

// A Watch that is stored and read at any time goes on as one that was not, and is small.
func TestRestart(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 8))
	for kind, sample := range map[Kind]func(int) Sample{Values: calls(rnd, 5, 800), Amount: traffic(rnd, 3)} {
		w, largest := New(kind), 0
		restarted := New(kind)
		for m := range 16 * day {
			s := sample(m)
			a, b := w.Add(minute(m), s, config), restarted.Add(minute(m), s, config)
			must.Equal(t, b, a, "minute %d", m)
			if m%777 == 0 {
				baseline, test := must.Get(restarted.Baseline.MarshalBinary())(t), must.Get(restarted.Test.MarshalBinary())(t)
				largest = max(largest, len(baseline)+len(test))
				restarted = &Watch{}
				must.Do(t, restarted.Baseline.UnmarshalBinary(baseline))
				must.Do(t, restarted.Test.UnmarshalBinary(test))
			}
		}
		t.Logf("kind %d: at most %d bytes", kind, largest)
		if largest > 1500 {
			t.Errorf("%d bytes", largest)
		}
	}
	for _, bad := range [][]byte{nil, make([]byte, 100), make([]byte, 2000)} {
		if new(Baseline).UnmarshalBinary(bad) == nil || len(bad) < 300 && new(Test).UnmarshalBinary(bad) == nil {
			t.Errorf("%d bytes were read", len(bad))
		}
	}
}

// Hours of stored history are learned as minutes are.
func TestSeed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	w := New(Values)
	for m := 0; m < 14*day; m += 10 {
		s := calls(rnd, 50, 1000)(m)
		s.Minutes = 10
		w.Baseline.Learn(minute(m), s)
	}
	u := w.Baseline.At(minute(14 * day))
	must.Equal(t, u.Basis, HourOfWeek, "basis")
	near(t, u.Value, 3160, 0.1, "percentile")
}

// A stage with four calls an hour has an hour's worth of calls only once a day.
func TestRare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 10))
	w := New(Values)
	sample := func(factor float64) func(int) Sample {
		return func(m int) Sample {
			if m%15 > 0 {
				return Sample{}
			}
			return calls(rnd, 1, 1000*factor)(m)
		}
	}
	r := add(w, 0, 14*day, sample(1))
	if r.Firing || r.Basis == Nothing {
		t.Fatalf("%+v", r)
	}
	if r = add(w, 14*day, 15*day, sample(10)); !r.Started {
		t.Errorf("ten times as long: %+v", r)
	}
}

func BenchmarkWatch(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 11))
	for _, k := range []Kind{Values, Amount} {
		b.Run(map[Kind]string{Values: "values", Amount: "amount"}[k], func(b *testing.B) {
			w, sample := New(k), calls(rnd, 60, 1000)
			if k == Amount {
				sample = traffic(rnd, 60)
			}
			add(w, 0, 21*day, sample)
			var samples [100]Sample
			for i := range samples {
				samples[i] = sample(i)
			}
			m := 21 * day
			for b.Loop() {
				w.Add(minute(m), samples[m%len(samples)], config)
				m++
			}
		})
	}
}
