package usual

import (
	"math"
	"slices"

	"github.com/llmtap/llmtap/analyzer/dist"
)

// The series that people alert on without a baseline: rates and percentiles over five minutes.
const (
	rCalls = iota
	rSpend
	rDuration
	rInput
	rOutput
	rTools
	rivalSeries
)

// rivalMeasures are the measures of the series.
var rivalMeasures = [rivalSeries]int{mCalls, mSpend, mDuration, mInput, mOutput, mTools}

// A window adds up the last five minutes.
type window struct {
	at                  int
	calls, tools, spend [5]float64
	counts              [3][5]dist.Dist // duration, input, output
}

func (w *window) add(x *minuteOf) (v [rivalSeries]float64) {
	w.at = (w.at + 1) % 5
	w.calls[w.at], w.tools[w.at], w.spend[w.at] = float64(x.calls), float64(x.toolErrors), float64(x.cost.Sum)
	for i, d := range []*dist.Dist{&x.duration, &x.in, &x.out} {
		w.counts[i][w.at].Reset()
		w.counts[i][w.at].Merge(d)
	}
	calls := 0.0
	for i := range 5 {
		v[rCalls] += w.calls[i] / 5
		v[rSpend] += w.spend[i] / 5
		v[rTools] += w.tools[i]
		calls += w.calls[i]
	}
	if calls == 0 {
		v[rTools], v[rDuration], v[rInput], v[rOutput] = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return v
	}
	v[rTools] /= calls
	for i, r := range []int{rDuration, rInput, rOutput} {
		var all dist.Dist
		for j := range 5 {
			all.Merge(&w.counts[i][j])
		}
		v[r] = all.Quantile(0.95)
	}
	return v
}

// clone returns a copy that shares no memory.
func (w *window) clone() window {
	c := *w
	for i := range c.counts {
		for j := range c.counts[i] {
			c.counts[i][j] = w.counts[i][j].Clone()
		}
	}
	return c
}

// A series has the values of all minutes so far, and what is needed for their means and deviations in any window.
type series struct {
	values               []float64 // NaN: none
	n, sum, squares      []float64 // of the values until each minute
	deviations, filtered []float64 // adaptive: number and sum of deviations above the filter
	last                 Direction // robust: of the last evaluation
	highest, lowest      float64   // static, once known
}

func (s *series) add(v float64) {
	last := func(x []float64) float64 {
		if len(x) == 0 {
			return 0
		}
		return x[len(x)-1]
	}
	n, sum, squares := last(s.n), last(s.sum), last(s.squares)
	if !math.IsNaN(v) {
		n, sum, squares = n+1, sum+v, squares+v*v
	}
	s.values, s.n, s.sum, s.squares = append(s.values, v), append(s.n, n), append(s.sum, sum), append(s.squares, squares)
}

// between returns the mean and the standard deviation of the values of the minutes (from, to], and how many there are.
func (s *series) between(from, to int) (mean, deviation, n float64) {
	if to < 0 {
		return 0, 0, 0
	}
	n, sum, squares := s.n[to], s.sum[to], s.squares[to]
	if from >= 0 {
		n, sum, squares = n-s.n[from], sum-s.sum[from], squares-s.squares[from]
	}
	if n == 0 {
		return 0, 0, 0
	}
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean)), n
}

// median returns the median of every step-th value of the minutes (from, to], and of their distances from center if that is a number.
func (s *series) median(from, to, step int, center float64) float64 {
	var v []float64
	for i := to; i > from && i >= 0; i -= step {
		if x := s.values[i]; !math.IsNaN(x) {
			if !math.IsNaN(center) {
				x = math.Abs(x - center)
			}
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// A rival is another way to alert on the series. unusual tells it for the last value: 1 too high, -1 too low.
type rival struct {
	unusual func(s *series) Direction
	// pending is the number of minutes that it needs to be unusual: "for".
	pending int
	series  [rivalSeries]*series
	since   [rivalSeries]int // minutes that it was unusual so far
	quiet   [rivalSeries]int // minutes that it was usual, of an alarm
	firing  [rivalSeries]bool
}

func newRival(pending int, unusual func(s *series) Direction) *rival {
	r := &rival{unusual: unusual, pending: pending}
	for i := range r.series {
		s := &series{}
		for _, x := range []*[]float64{&s.values, &s.n, &s.sum, &s.squares, &s.deviations, &s.filtered} {
			*x = make([]float64, 0, horizon+watched)
		}
		r.series[i] = s
	}
	return r
}

// clone shares the memory of the values: the copy writes behind the values of the original, which overwrites that afterwards.
func (r *rival) clone() detector {
	c := *r
	for i, s := range r.series {
		n := *s
		c.series[i] = &n
	}
	return &c
}

// add alarms as Prometheus does, and ends an alarm as this package does, which is in favor of the rival.
func (r *rival) add(_ int, x *minuteOf) (started uint) {
	for i, v := range x.five {
		r.series[i].add(v)
		d := r.unusual(r.series[i])
		if d == 0 || d == Low && i != rCalls {
			r.since[i] = 0
			if r.quiet[i]++; r.quiet[i] >= quietFor {
				r.firing[i] = false
			}
			continue
		}
		r.quiet[i] = 0
		if r.since[i]++; r.since[i] > r.pending && !r.firing[i] {
			r.firing[i] = true
			started |= 1 << rivalMeasures[i]
		}
	}
	return started
}

const day = 24 * 60

// static alarms above 1.5 times the highest, and for calls below half of the lowest, mean of an hour in the first week: thresholds that
// a person sets once after looking at a chart of a week.
func static(s *series) Direction {
	now := len(s.values) - 1
	if now < 7*day {
		return 0
	}
	if s.highest == 0 {
		s.lowest = math.Inf(1)
		for h := 60; h < 7*day; h += 60 {
			if mean, _, n := s.between(h-60, h); n > 0 {
				s.lowest, s.highest = min(s.lowest, mean), max(s.highest, mean)
			}
		}
	}
	return outside(s.values[now], 0.5*s.lowest, 1.5*s.highest)
}

// zScore alarms at three standard deviations of the day before.
func zScore(s *series) Direction {
	now := len(s.values) - 1
	mean, deviation, n := s.between(now-day, now)
	if n < 60 {
		return 0
	}
	return outside(s.values[now], mean-3*deviation, mean+3*deviation)
}

func outside(v, low, high float64) Direction {
	switch {
	case v < low:
		return Low
	case v > high:
		return High
	}
	return 0
}

// adaptive computes what the adaptive rules of grafana/promql-anomaly-detection do, as of February 2026: the mean of an hour, and twice
// the mean over 26 hours of the deviations of an hour that are above half of the mean; half of the mean at least; and the hours around
// the same time of the day and the week before with twice their deviation. A value of 0 is none.
func adaptive(s *series) Direction {
	now := len(s.values) - 1
	v := s.values[now]
	if v == 0 {
		dropLast(s)
		v = math.NaN()
	}
	mean, deviation, n := s.between(now-60, now)
	count, sum := 0., 0.
	if now > 0 {
		count, sum = s.deviations[now-1], s.filtered[now-1]
	}
	if n > 0 && deviation > 0.5*mean {
		count, sum = count+1, sum+deviation
	}
	s.deviations, s.filtered = append(s.deviations, count), append(s.filtered, sum)
	if math.IsNaN(v) || now < day {
		return 0
	}
	low, high := 0.5*mean, 1.5*mean
	before := now - 26*60
	if before >= 0 {
		count, sum = count-s.deviations[before], sum-s.filtered[before]
	}
	if count > 0 {
		low, high = min(low, mean-2*sum/count), max(high, mean+2*sum/count)
	}
	for _, offset := range []int{day - 30, 7*day - 30} {
		if mean, deviation, n := s.between(now-offset-60, now-offset); n > 0 {
			low, high = min(low, mean-2*deviation), max(high, mean+2*deviation)
		}
	}
	return outside(v, max(0, low), high)
}

// dropLast makes the last value none.
func dropLast(s *series) {
	now := len(s.values) - 1
	s.values[now] = math.NaN()
	s.n[now]--
}

// robust computes what the robust rules do: the median of an hour against the median of a day, with twice the median deviation, with
// half of the median, and with the medians and deviations around the same time of the day and the week before. It does so every five
// minutes, and for the medians of a day with every tenth value, so that the simulation takes hours and not days.
func robust(s *series) Direction {
	now := len(s.values) - 1
	if s.values[now] == 0 {
		dropLast(s)
	}
	if now%5 != 0 {
		return s.last
	}
	none := math.NaN()
	result := Direction(0)
	if level, center := s.median(now-60, now, 1, none), s.median(now-day, now, 10, none); now >= day && !math.IsNaN(level) {
		mad := s.median(now-day, now, 10, center)
		low, high := min(center-2*mad, 0.5*center), max(center+2*mad, 1.5*center)
		for _, offset := range []int{day - 15, 7*day - 15} {
			m := s.median(now-offset-60, now-offset, 1, none)
			if d := s.median(now-offset-60, now-offset, 5, m); !math.IsNaN(m) {
				low, high = min(low, m-2*d), max(high, m+2*d)
			}
		}
		result = outside(level, max(0, low), high)
	}
	s.last = result
	return result
}
