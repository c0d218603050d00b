package usual

import (
	"compress/gzip"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A cell is the share of calls in a bucket of a distribution, and of those before it.
type cell struct {
	bucket      int
	share, upTo float64
}

// A traceMinute is the traffic of a real service in one minute, in relation to that of its hour, and the tokens of calls around it.
type traceMinute struct {
	factor        float64
	in, out, cost []cell
}

// A call is one of a trace.
type call struct{ minute, in, out int }

// traces returns an hour of traffic of two services, and whether it is real.
func traces(t *testing.T) ([][]traceMinute, bool) {
	var all [][]traceMinute
	for _, name := range []string{"code", "conv"} {
		f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "azure-llm", name+".csv.gz"))
		if err != nil {
			return [][]traceMinute{invented(0.6, 1), invented(0.25, 2)}, false
		}
		defer f.Close()
		z := must.Get(gzip.NewReader(f))(t)
		rows := must.Get(csv.NewReader(z).ReadAll())(t)
		var calls []call
		first := time.Time{}
		for _, row := range rows[1:] {
			at := must.Get(time.Parse("2006-01-02 15:04:05", row[0][:19]))(t)
			if first.IsZero() {
				first = at
			}
			calls = append(calls, call{int(at.Sub(first).Minutes()), must.Get(strconv.Atoi(row[1]))(t), must.Get(strconv.Atoi(row[2]))(t)})
		}
		all = append(all, trace(calls))
	}
	return all, true
}

// invented returns an hour of traffic whose calls per minute vary by cv, and whose tokens are lognormal.
func invented(cv float64, seed uint64) []traceMinute {
	rnd := rand.New(rand.NewPCG(seed, 41))
	var calls []call
	for m := range 60 {
		shift := 0.2 * rnd.NormFloat64()
		for range int(200 * math.Exp(cv*rnd.NormFloat64()-cv*cv/2)) {
			calls = append(calls, call{m, int(math.Exp(7 + shift + rnd.NormFloat64())), int(math.Exp(4.5 + shift + rnd.NormFloat64()))})
		}
	}
	return trace(calls)
}

// trace sorts calls into minutes. The tokens of a minute are those of the five minutes around it, because some have few calls.
func trace(calls []call) []traceMinute {
	last := calls[len(calls)-1].minute // not a whole minute
	n := make([]int, last)
	dists := make([][3]dist.Dist, last)
	for _, c := range calls {
		if c.minute < last {
			n[c.minute]++
		}
		for m := max(0, c.minute-2); m < min(last, c.minute+3); m++ {
			dists[m][0].Add(uint64(c.in))
			dists[m][1].Add(uint64(c.out))
			dists[m][2].Add(uint64(c.in + 4*c.out)) // microdollars at 1 and 4 dollars per million
		}
	}
	total := 0
	for _, x := range n {
		total += x
	}
	out := make([]traceMinute, last)
	for m := range out {
		out[m].factor = float64(n[m]) * float64(last) / float64(total)
		for i, cells := range []*[]cell{&out[m].in, &out[m].out, &out[m].cost} {
			d, upTo := &dists[m][i], 0.0
			for _, c := range d.Buckets {
				share := float64(c.N) / float64(d.N)
				upTo += share
				*cells = append(*cells, cell{c.Bucket, share, upTo})
			}
		}
	}
	return out
}

// An anomaly is what is injected; a factor of 1 is none.
type anomaly struct {
	name                           string
	latency, cost, tokens, traffic float64
	toolErrors, loops              float64 // share of calls, in addition
	measures                       []int   // that tell it
}

// The measures of a stage that are tested.
const (
	mCalls = iota
	mSpend
	mDuration
	mFirst
	mInput
	mOutput
	mCost
	mTools
	mHistory
	mOdd         // and three more: the ways in which answers end
	measureCount = mOdd + len(oddShares)
	mLoops       = measureCount // not learned: a rule
)

// oddShares are the shares of answers that reach a limit, are empty, refused and filtered.
var oddShares = [...]float64{0.02, 0.003, 0.001, 0.0005}

var (
	measureNames = [measureCount]string{
		"calls", "spend", "duration", "first token", "input", "output", "cost of a call", "tool errors", "history", "limit reached", "empty", "refused", "filtered",
	}
	measureKinds = [measureCount]Kind{Amount, Spend, Values, Values, Values, Values, Values, Share, Values, Share, Share, Share, Share}
	none         = anomaly{name: "none", latency: 1, cost: 1, tokens: 1, traffic: 1}
	anomalies    = []anomaly{
		{"2 times the latency", 2, 1, 1, 1, 0, 0, []int{mDuration, mFirst}},
		{"5 times the latency", 5, 1, 1, 1, 0, 0, []int{mDuration, mFirst}},
		{"2 times the cost", 1, 2, 1, 1, 0, 0, []int{mSpend, mCost}},
		{"5 times the cost", 1, 5, 1, 1, 0, 0, []int{mSpend, mCost}},
		{"2 times the tokens", 1, 2, 2, 1, 0, 0, []int{mInput, mOutput}},
		{"5 times the tokens", 1, 5, 5, 1, 0, 0, []int{mInput, mOutput}},
		{"half the traffic", 1, 1, 1, 0.5, 0, 0, []int{mCalls}},
		{"5 % tool errors", 1, 1, 1, 1, 0.05, 0, []int{mTools}},
		{"5 % of calls in loops", 1, 1, 1, 1, 0, 0.05, []int{mLoops}},
	}
)

// A stage is one simulated stage of a service, and its state.
type stage struct {
	rnd   *rand.Rand
	trace []traceMinute

	perMinute       float64 // calls
	day, weekend    float64 // depth of the daily season, and factor of Saturday and Sunday
	peak            float64 // hour
	growth          float64 // per week
	holiday         int     // day
	sigma, duration float64 // of the lognormal durations: deviation of the log, and median in ms
	first           float64 // median of the time to the first token
	toolErrors      float64
	history         float64 // median of the messages of a call

	traffic, latency float64 // slow noise, logs
	offset, jump     int     // into trace, and the minute in which it changes
	burst, burstEnd  float64
	toolNoise        float64
	tokens           float64 // since the last deployment
	loops            []int   // the minute in which each began
}

const horizon = 28 * 24 * 60 // minutes

func newStage(i int, rnd *rand.Rand, traces [][]traceMinute) *stage {
	s := &stage{rnd: rnd, trace: traces[i/3%2], perMinute: 60 * []float64{0.1, 1, 10}[i%3], tokens: 1, burst: 1, toolNoise: 1}
	s.day, s.weekend = 0.3+0.2*rnd.Float64(), 0.8+0.2*rnd.Float64() // consumers
	if i/6%2 == 0 {
		s.day, s.weekend = 0.6+0.3*rnd.Float64(), 0.2+0.4*rnd.Float64() // an office
	}
	s.peak = 9 + 11*rnd.Float64()
	s.growth = -0.02 + 0.14*rnd.Float64()
	s.holiday = []int{8, 9, 10, 11, 15, 16, 17, 18, 22, 23, 24, 25}[rnd.IntN(12)] // of an office: like its Sundays
	s.sigma, s.duration = 0.5+0.4*rnd.Float64(), 1000*math.Exp(1.5*rnd.Float64())
	s.first = s.duration * (0.1 + 0.2*rnd.Float64())
	s.toolErrors = 0.002 * math.Exp(1.6*rnd.Float64())
	s.history = 4 * math.Exp(1.5*rnd.Float64())
	return s
}

// isHoliday reports whether a day is a holiday of the stage.
func (s *stage) isHoliday(day int) bool { return day == s.holiday && s.weekend < 0.7 }

// during returns what is special about a minute: 0 a holiday, 1 a burst until half an hour ago, 2 nothing.
func (s *stage) during(m int) int {
	switch {
	case s.isHoliday(m / 1440):
		return 0
	case float64(m) < s.burstEnd+30:
		return 1
	}
	return 2
}

// A minuteOf is what a stage did in a minute.
type minuteOf struct {
	calls, toolErrors              uint64
	odd                            [len(oddShares)]uint64
	repeated                       uint64 // by the conversation that repeated most calls in 15 minutes
	duration, first, in, out, cost dist.Dist
	history                        dist.Dist
	five                           [rivalSeries]float64 // of the last five minutes
}

// minute simulates a minute.
func (s *stage) minute(m int, a *anomaly, x *minuteOf) {
	rnd := s.rnd
	if m >= s.jump { // another part of the hour, because the same whole hour again and again would have the same sum
		s.offset, s.jump = rnd.IntN(len(s.trace)), m+20+rnd.IntN(40)
	}
	s.offset++
	if m%10 == 0 {
		s.toolNoise = math.Exp(0.4*rnd.NormFloat64() - 0.08)
	}
	const slow = 1. / 240 // noise of four hours
	s.traffic += -slow*s.traffic + 0.12*math.Sqrt(2*slow)*rnd.NormFloat64()
	s.latency += -slow*s.latency + 0.10*math.Sqrt(2*slow)*rnd.NormFloat64()
	hour, day := float64(m%1440)/60, m/1440
	if rnd.Float64() < 1.25/10080 { // a deployment changes them a little, for good
		s.duration *= math.Exp(0.3 * (rnd.Float64() - 0.5))
		s.first *= math.Exp(0.3 * (rnd.Float64() - 0.5))
		s.tokens *= math.Exp(0.2 * (rnd.Float64() - 0.5))
	}
	if float64(m) >= s.burstEnd {
		s.burst = 1
		if rnd.Float64() < 2./10080 {
			s.burst, s.burstEnd = 2+2*rnd.Float64(), float64(m)+5+40*rnd.Float64()
		}
	}
	season := 1 + s.day*math.Cos(2*math.Pi*(hour-s.peak)/24)
	week := 1.0
	if day%7 >= 5 || s.isHoliday(day) {
		week = s.weekend
	}
	trace := &s.trace[s.offset%len(s.trace)]
	mean := s.perMinute * season * week * math.Pow(1+s.growth, float64(m)/10080) * math.Exp(s.traffic) * s.burst * trace.factor * a.traffic
	n := drawPoisson(rnd, mean)
	*x = minuteOf{
		calls: n, duration: reset(x.duration), first: reset(x.first), in: reset(x.in), out: reset(x.out), cost: reset(x.cost), history: reset(x.history),
	}
	load := a.latency * math.Exp(s.latency+0.15*(season-1)*week)
	s.lognormal(&x.duration, n, s.duration*load)
	s.lognormal(&x.first, n, s.first*load)
	s.sample(&x.in, n, trace.in, s.tokens*a.tokens)
	s.sample(&x.out, n, trace.out, s.tokens*a.tokens)
	s.sample(&x.cost, n, trace.cost, s.tokens*a.cost)
	s.lognormal(&x.history, n, s.history)
	x.toolErrors = drawBinomial(rnd, n, min(1, s.toolErrors*s.toolNoise+a.toolErrors))
	for i, share := range oddShares {
		x.odd[i] = drawBinomial(rnd, n, share*s.toolNoise)
	}
	x.repeated = s.loop(m, float64(n)*a.loops)
}

// loop lets conversations repeat a call every 20 seconds, 30 times, and returns how often the one that did so most has in 15 minutes.
func (s *stage) loop(m int, calls float64) (most uint64) {
	const length = 10 // minutes
	for range drawPoisson(s.rnd, calls/(3*length)) {
		s.loops = append(s.loops, m)
	}
	s.loops = slices.DeleteFunc(s.loops, func(from int) bool { return m-from > length })
	for _, from := range s.loops {
		most = max(most, uint64(3*(m-from)))
	}
	return most
}

func reset(d dist.Dist) dist.Dist {
	d.Reset()
	return d
}

// lognormal draws n values around a median.
func (s *stage) lognormal(d *dist.Dist, n uint64, median float64) {
	middle, width := dist.PerOctave*math.Log2(median), dist.PerOctave*s.sigma/math.Ln2
	if n < 60 {
		for range n {
			d.AddBucket(max(0, int(math.Ceil(middle+width*s.rnd.NormFloat64()))), 1)
		}
		return
	}
	left, before := n, 0.0
	for b := max(0, int(middle-3.5*width)); left > 0; b++ {
		upTo := 1 - 0.5*math.Erfc((float64(b)-middle)/width/math.Sqrt2)
		k := left
		if upTo < 0.9999 {
			k = drawBinomial(s.rnd, left, (upTo-before)/(1-before))
		}
		d.AddBucket(b, k)
		left, before = left-k, upTo
	}
}

// sample draws n values of cells, times a factor, and adds about their sum.
func (s *stage) sample(d *dist.Dist, n uint64, cells []cell, factor float64) {
	shift := dist.PerOctave * math.Log2(factor)
	whole := math.Floor(shift)
	add := func(bucket int, k uint64) {
		further := drawBinomial(s.rnd, k, shift-whole)
		for i, k := range [2]uint64{k - further, further} {
			if k > 0 {
				b := max(0, bucket+int(whole)+i)
				d.AddBucket(b, k)
				d.Sum += uint64(float64(k) * 0.92 * float64(dist.Upper(b)))
			}
		}
	}
	if n < 60 {
		for range n {
			u, i := s.rnd.Float64(), 0
			for i < len(cells)-1 && cells[i].upTo < u {
				i++
			}
			add(cells[i].bucket, 1)
		}
		return
	}
	left, before := n, 0.0
	for i, c := range cells {
		k := left
		if i < len(cells)-1 {
			k = drawBinomial(s.rnd, left, c.share/(1-before))
		}
		add(c.bucket, k)
		left, before = left-k, c.upTo
	}
}

// drawPoisson draws from a Poisson distribution, a normal one if the mean is high.
func drawPoisson(rnd *rand.Rand, mean float64) uint64 {
	if mean > 50 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*rnd.NormFloat64())))
	}
	k, p, limit := uint64(0), rnd.Float64(), math.Exp(-mean)
	for p > limit {
		p *= rnd.Float64()
		k++
	}
	return k
}

// drawBinomial draws from a binomial distribution, or from one close to it if n is high.
func drawBinomial(rnd *rand.Rand, n uint64, p float64) (k uint64) {
	mean := float64(n) * p
	switch {
	case n == 0 || p <= 0:
		return 0
	case p >= 1:
		return n
	case n < 12:
		for range n {
			if rnd.Float64() < p {
				k++
			}
		}
		return k
	case p > 0.5:
		return n - drawBinomial(rnd, n, 1-p)
	case mean < 12:
		return min(n, drawPoisson(rnd, mean))
	default:
		return min(n, uint64(max(0, math.Round(mean+math.Sqrt(mean*(1-p))*rnd.NormFloat64()))))
	}
}
