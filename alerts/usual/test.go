package usual

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	// The test starts anew every startEvery minutes, because nobody knows when what is unusual begins.
	startEvery = 5
	// atLeast is the fewest minutes that an alarm needs: one minute, as one long conversation, is not enough.
	atLeast = 3
	// An alarm ends after quietFor minutes that were usual.
	quietFor = 15
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
	Added  uint8                    // 1: a sample with evidence since then
	Firing Direction
	Since  int64 // Unix minutes
	Quiet  int32 // minutes of an alarm that were usual
	N, K   float64
}

// Add adds a sample, whose usual value was known before it.
func (t *Test) Add(at time.Time, u Usual, s Sample, k Kind, c Config) Result {
	st := &t.state
	r := Result{Usual: u, Limit: c.limit()}
	if u.Basis == Nothing {
		st.N, st.K = 0, 0
		return r
	}
	minute := at.Unix() / 60
	n, x := s.count(k, u)
	d := math.Pow(decay, s.minutes())
	st.N, st.K = st.N*d+n, st.K*d+x
	if st.N > 0 {
		r.Now = st.K / st.N
	}
	if st.Firing != 0 {
		t.end(&r, k, s.minutes())
		return r
	}
	if n > 0 {
		t.test(minute, n, x, u, k, r.Limit)
	}
	up, down := sum(st.Sums[0]), sum(st.Sums[1])
	r.Evidence, r.Direction = up, High
	if k == Amount {
		r.Evidence = (up + down) / 2
	}
	side := 0
	if down > up {
		side, r.Direction = 1, Low
	}
	if r.Evidence < r.Limit {
		return r
	}
	since := st.Origin + int64(sum(st.Starts[side])/sum(st.Sums[side]))
	*st = testState{Firing: r.Direction, Since: since, N: st.N, K: st.K}
	r.Firing, r.Started, r.Since = true, true, time.Unix(60*since, 0).UTC()
	return r
}

// count returns the number of calls, or minutes, and of those with something unusual, or the amount.
func (s *Sample) count(k Kind, u Usual) (n, x float64) {
	switch {
	case k == Amount:
		return s.minutes(), float64(s.Amount)
	case k == Share:
		return float64(s.Calls), float64(s.Amount)
	case s.Values == nil:
		return 0, 0
	default:
		return float64(s.Values.N), s.Values.Above(u.High)
	}
}

// test multiplies the evidence by the likelihood ratios of a minute.
func (t *Test) test(minute int64, n, x float64, u Usual, k Kind, limit float64) {
	st := &t.state
	if st.Origin == 0 {
		st.Origin = minute
	}
	if minute-st.Last >= startEvery {
		st.Last = minute
		for side := range st.Sums {
			for i := range factors {
				st.Sums[side][i] += 1. / float64(len(factors))
				st.Starts[side][i] += float64(minute-st.Origin) / float64(len(factors))
			}
		}
	}
	most := math.Log(limit) / atLeast
	p := 1 - Percentile
	if k == Share {
		p = min(u.High, 0.5)
	}
	for i, f := range factors {
		var up, down float64
		if k == Amount {
			up = x*math.Log(f) - n*u.High*(f-1)
			down = -x*math.Log(f) + n*u.Low*(1-1/f)
		} else {
			up = x*math.Log(f) - n*math.Log1p(p*(f-1))
			down = math.Inf(-1)
		}
		for side, l := range [2]float64{up, down} {
			e := math.Exp(min(l/u.Dispersion, most))
			st.Sums[side][i] *= e
			st.Starts[side][i] *= e
		}
	}
}

// end ends an alarm after the minutes that it needs to.
func (t *Test) end(r *Result, k Kind, minutes float64) {
	st := &t.state
	r.Direction, r.Firing, r.Since = st.Firing, true, time.Unix(60*st.Since, 0).UTC()
	usual := r.Now <= 1-Percentile
	switch {
	case k == Share, k == Amount && st.Firing == High:
		usual = r.Now <= r.High
	case k == Amount:
		usual = r.Now >= r.Low
	}
	if !usual {
		st.Quiet = 0
		return
	}
	if st.Quiet += int32(minutes); st.Quiet >= quietFor {
		*st = testState{N: st.N, K: st.K}
		r.Firing, r.Ended = false, true
	}
}

func sum(x [len(factors)]float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// MarshalBinary returns the state: 230 bytes.
func (t *Test) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, &t.state)
}

// UnmarshalBinary reads what MarshalBinary returns.
func (t *Test) UnmarshalBinary(data []byte) error {
	_, err := binary.Decode(data, binary.LittleEndian, &t.state)
	return err
}
