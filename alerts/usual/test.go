package usual

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	// The test starts anew every startEvery minutes, because nobody knows when what is unusual begins.
	startEvery = 5
	// An alarm needs atLeast minutes: one, as of a single long conversation, is not enough.
	atLeast = 3
	// An alarm, or what was unusual without one, ends after quietFor minutes that were usual.
	quietFor = 15
	// What happened in the last four weeks is expected again, and starts an alarm if it is again times as strong.
	again = 1.5
	// longest is how long, in minutes, what is expected may be unusual without an alarm.
	longest = 60
)

// factors are the alternatives: how many times as high as High the odds, or the amount, are; the inverse for Low. The evidence
// is the mean over them.
var factors = [...]float64{1.25, 1.6, 2.2, 3.5, 7, 20}

// A Test is the evidence that the present is unusual. The zero value is ready to use.
type Test struct{ state testState }

type testState struct {
	Sums   [2][len(factors)]float64 // evidence of the starts so far, by direction and factor
	Starts [2][len(factors)]float64 // the same, times the minutes from Origin to their start
	Origin int64                    // Unix minutes
	Last   int64                    // minute of the last start
	Peak   float64                  // highest evidence since it is above the limit, or 0
	Firing Direction
	Side   Direction // of Peak
	Quiet  int16     // minutes that were usual
	Since  int64     // Unix minutes; of the alarm
	N, K   float64   // the present: calls or minutes, and what was counted
	// Strongest are the highest peaks of the last four weeks, in descending order.
	Strongest [4]struct {
		Peak float32
		Hour uint32 // Unix hours
	}
}

// Add adds a sample, whose usual value was known before it.
func (t *Test) Add(at time.Time, u Usual, s Sample, k Kind, c Config) Result {
	st := &t.state
	r := Result{Usual: u, Limit: t.limit(at, c)}
	if u.Basis == Nothing {
		st.N, st.K = 0, 0
		return r
	}
	n, x := s.count(k, u)
	d := math.Pow(decay, s.minutes())
	st.N, st.K = st.N*d+n, st.K*d+x
	if st.N > 0 {
		r.Now = st.K / st.N
	}
	if n > 0 {
		t.test(at.Unix()/60, n, x, u, k, c.limit()/atLeast)
	}
	up, down := sum(st.Sums[0]), sum(st.Sums[1])
	e, side := up, 0
	r.Direction = High
	if k == Amount {
		e = (up + down) / 2
		if down > up {
			side, r.Direction = 1, Low
		}
	}
	r.Evidence = math.Log(max(1, e))
	if r.Evidence >= c.limit() && r.Evidence > st.Peak {
		st.Peak, st.Side = r.Evidence, r.Direction
	}
	if st.Firing == 0 && r.Evidence >= r.Limit {
		st.Firing, r.Started = r.Direction, true
		st.Since = st.Origin + int64(sum(st.Starts[side])/sum(st.Sums[side]))
	}
	t.end(at, &r, k, s.minutes())
	if st.Firing != 0 {
		r.Firing, r.Direction, r.Since = true, st.Firing, time.Unix(60*st.Since, 0).UTC()
	}
	return r
}

// limit returns the evidence that starts an alarm now.
func (t *Test) limit(at time.Time, c Config) float64 {
	limit := c.limit()
	i := int(max(1, c.PerMonth)) - 1
	if i >= len(t.state.Strongest) {
		return limit
	}
	if s := t.state.Strongest[i]; int64(s.Hour) > at.Unix()/3600-hours {
		limit = max(limit, min(again*float64(s.Peak), limit*longest/atLeast))
	}
	return limit
}

// count returns the number of calls, or minutes, and of those with something unusual, or the amount.
func (s *Sample) count(k Kind, u Usual) (n, x float64) {
	switch {
	case k.perMinute():
		return s.minutes(), float64(s.Amount)
	case k == Share:
		return float64(s.Calls), float64(s.Amount)
	case s.Values == nil:
		return 0, 0
	default:
		return float64(s.Values.N), s.Values.Above(u.High)
	}
}

// test multiplies the evidence by the likelihood ratios of a minute, whose logs are at most most.
func (t *Test) test(minute int64, n, x float64, u Usual, k Kind, most float64) {
	st := &t.state
	if st.Origin == 0 {
		st.Origin = minute
	}
	start := minute-st.Last >= startEvery
	if start {
		st.Last = minute
	}
	for i, f := range factors {
		var logs [2]float64
		switch {
		case k.perMinute():
			logs[0] = negativeBinomial(x, n, u.High, u.High*f, u)
		case k == Share:
			logs[0] = binomial(x, n, min(0.5, u.High), f, u)
		default:
			logs[0] = binomial(x, n, 1-Percentile, f, u)
		}
		if k == Amount {
			logs[1] = negativeBinomial(x, n, u.Low, u.Low/f, u)
		}
		for side, l := range logs {
			if side == 1 && k != Amount {
				break
			}
			sum, starts := &st.Sums[side][i], &st.Starts[side][i]
			if start {
				*sum += 1. / float64(len(factors))
				*starts += float64(minute-st.Origin) / float64(len(factors))
			}
			e := math.Exp(min(l, most, highest-math.Log(*sum)))
			*sum *= e
			*starts *= e
		}
	}
}

// highest is a bound of the log of the evidence, so that it does not overflow.
const highest = 600

// binomial returns the log likelihood ratio of odds that are f times those of p, for x of n calls.
func binomial(x, n, p, f float64, u Usual) float64 {
	return (x*math.Log(f) - n*math.Log1p(p*(f-1))) / u.Dispersion
}

// negativeBinomial returns the log likelihood ratio of the mean a instead of m per minute, for x in n minutes.
func negativeBinomial(x, n, m, a float64, u Usual) float64 {
	x, m, a = x/u.Unit, m/u.Unit, a/u.Unit
	size := 1 / u.Dispersion
	return x*math.Log(a*(size+m)/(m*(size+a))) - n*size*math.Log((size+a)/(size+m))
}

// end ends an alarm, and what was unusual without one, after the minutes that it needs to.
func (t *Test) end(at time.Time, r *Result, k Kind, minutes float64) {
	st := &t.state
	if st.Peak == 0 {
		return
	}
	usual := r.Now <= r.High
	switch {
	case k == Values:
		usual = r.Now <= 1-Percentile
	case st.Side == Low:
		usual = r.Now >= r.Low
	}
	if !usual {
		st.Quiet = 0
		return
	}
	if st.Quiet += int16(minutes); st.Quiet < quietFor {
		return
	}
	t.remember(uint32(at.Unix()/3600), float32(st.Peak))
	r.Ended = st.Firing != 0
	*st = testState{N: st.N, K: st.K, Strongest: st.Strongest}
}

// remember adds a peak to the strongest.
func (t *Test) remember(hour uint32, peak float32) {
	s := &t.state.Strongest
	for i := 0; i < len(s); i++ {
		if s[i].Hour+hours < hour { // forgotten
			copy(s[i:], s[i+1:])
			s[len(s)-1].Peak, s[len(s)-1].Hour = 0, 0
		}
	}
	for i := range s {
		if peak > s[i].Peak {
			copy(s[i+1:], s[i:])
			s[i].Peak, s[i].Hour = peak, hour
			return
		}
	}
}

func sum(x [len(factors)]float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// MarshalBinary returns the state: 272 bytes.
func (t *Test) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, &t.state)
}

// UnmarshalBinary reads what MarshalBinary returns.
func (t *Test) UnmarshalBinary(data []byte) error {
	_, err := binary.Decode(data, binary.LittleEndian, &t.state)
	return err
}
