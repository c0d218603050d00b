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
	quietFor = 60
	// More calls or money than usual start no alarm if that is a burst: at most burstMost times High, and at most burstLength minutes long;
	// or at most again times as much, and again times as long, as at another time in the last four weeks. After longest minutes it is none.
	burstMost, burstLength = 2, 30
	again                  = 1.5
	longest                = 60
	// While it is not known how far usual hours are apart, a burst is at most youngMost times High and longest minutes long.
	youngMost = 10
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
	Side   Direction                // of the evidence while it is or was above the limit, or 0
	Firing bool
	Quiet  int16   // minutes that were usual
	Since  int64   // Unix minutes: begin of what is unusual
	Most   float32 // the most since then, in relation to High
	N, K   float64 // the present: calls or minutes, and what was counted
	Bursts bursts
	Hours  lastHours // of Amount
}

// bursts are what happened in the last four weeks.
type bursts struct {
	Most, Length         float32 // in relation to High; in minutes
	MostHour, LengthHour uint32  // Unix hours
}

// Add adds a sample, whose usual value was known before it.
func (t *Test) Add(at time.Time, u Usual, s Sample, k Kind, c Config) Result {
	st := &t.state
	r := Result{Usual: u, Limit: c.limit()}
	// Days of a week have other traffic, so that of the days before does not tell what is usual.
	if u.Basis == Nothing || k.perMinute() && u.Basis != HourOfWeek {
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
	if n > 0 {
		t.test(minute, n, x, u, k, r.Limit/atLeast)
	}
	e, side := sum(st.Sums[0]), 0
	r.Direction = High
	if k.perMinute() { // half of the chances of a false alarm for each direction
		if down := sum(st.Sums[1]); down > e {
			e, side, r.Direction = down, 1, Low
		}
		e /= 2
	}
	r.Evidence = math.Log(max(1, e))
	if st.Side == 0 && r.Evidence >= r.Limit {
		st.Side, st.Since = r.Direction, st.Origin+int64(sum(st.Starts[side])/sum(st.Sums[side]))
	}
	few := 0.0
	if k == Amount && u.Sums.Deviation > 0 && !u.Young {
		st.Hours.add(minute, x, u.Value*n)
		if few = st.Hours.few(u.Sums, c.sumLimit()); few > 1 && st.Side == 0 {
			st.Side, st.Since = Low, st.Hours.since()
		}
	}
	if st.Side != 0 {
		st.Most = max(st.Most, float32(r.Now/r.High))
		t.end(minute, &r, k, s.minutes(), few)
	}
	if st.Side != 0 && !st.Firing && st.Quiet == 0 && !t.expected(k, u, minute) {
		st.Firing, r.Started = true, true
	}
	if st.Firing {
		r.Firing, r.Direction, r.Since = true, st.Side, time.Unix(60*st.Since, 0).UTC()
	}
	return r
}

// expected reports whether what is unusual is no reason for an alarm: little spend, or a burst like one before.
func (t *Test) expected(k Kind, u Usual, minute int64) bool {
	st := &t.state
	switch {
	case !k.perMinute():
		return false
	case st.Side == Low:
		return k == Spend
	}
	b, now, length := &st.Bursts, uint32(minute/60), float32(minute-st.Since)
	if b.MostHour+hours < now {
		b.Most = 0
	}
	if b.LengthHour+hours < now {
		b.Length = 0
	}
	most, long := max(burstMost, again*b.Most), max(burstLength, min(longest, again*b.Length))
	if u.Young {
		most, long = youngMost, longest
	}
	return st.Most <= most && length <= long
}

// learn adds a burst that ended.
func (b *bursts) learn(most float32, minute, since int64) {
	now := uint32(minute / 60)
	if most > b.Most {
		b.Most, b.MostHour = most, now
	}
	if length := float32(minute - since); length > b.Length {
		b.Length, b.LengthHour = length, now
	}
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
	p := 1 - percentile
	if k == Share {
		p = min(0.5, u.High)
	}
	for i, f := range factors {
		var logs [2]float64
		if k.perMinute() {
			logs[0] = negativeBinomial(x, n, u.High, u.High*f, u)
			logs[1] = negativeBinomial(x, n, u.Low, u.Low/f, u)
		} else {
			logs[0] = binomial(x, n, p, f, u)
		}
		for side, l := range logs {
			if side == 1 && !k.perMinute() {
				break
			}
			sum, starts := &st.Sums[side][i], &st.Starts[side][i]
			if start {
				*sum += 1. / float64(len(factors))
				*starts += float64(minute-st.Origin) / float64(len(factors))
			}
			e := math.Exp(min(l, most))
			if *sum > highest { // no overflow
				e = min(e, 1)
			}
			*sum *= e
			*starts *= e
		}
	}
}

// highest is a bound of the evidence.
const highest = 1e250

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

// end ends an alarm, and what was unusual without one, after the minutes that it needs to. few is that of the last hours.
func (t *Test) end(minute int64, r *Result, k Kind, minutes, few float64) {
	st := &t.state
	usual := r.Now <= r.High
	switch {
	case k == Values:
		usual = r.Now <= 1-percentile
	case st.Side == Low:
		usual = r.Now >= r.Low && few < 0.5
	}
	if !usual {
		st.Quiet = 0
		return
	}
	if st.Quiet += int16(minutes); st.Quiet < quietFor {
		return
	}
	if st.Side == High && k.perMinute() {
		st.Bursts.learn(st.Most, minute-quietFor, st.Since)
	}
	r.Ended = st.Firing
	*st = testState{N: st.N, K: st.K, Bursts: st.Bursts, Hours: st.Hours}
}

func sum(x [len(factors)]float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// Rest ends the alarm and forgets the evidence, but not the bursts before.
func (t *Test) Rest() { t.state = testState{Bursts: t.state.Bursts} }

// MarshalBinary returns the state: 336 bytes.
func (t *Test) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, &t.state)
}

// UnmarshalBinary reads what MarshalBinary returns.
func (t *Test) UnmarshalBinary(data []byte) error {
	_, err := binary.Decode(data, binary.LittleEndian, &t.state)
	return err
}
