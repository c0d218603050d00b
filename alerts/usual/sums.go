package usual

import "math"

const (
	// sumHours is the length of the sums of calls that are tested, besides minutes: what bursts hide in an hour shows in three.
	sumHours = 3
	slotLen  = 20 // minutes
	slots    = sumHours * 60 / slotLen
	// minSums sums tell how far usual ones are apart. One in six is farther than a deviation of a normal distribution, and holidays
	// hardly change that; one in a hundred tells whether sums are farther now and then than such a distribution has it.
	minSums, oneDeviation, farSum = 120, 0.1587, 0.01
)

// Sums are how far sums of usual hours were below what was usual of them, in octaves.
type Sums struct {
	Deviation, Far float32 // 0: not known yet
}

// learn learns from the values of hours in steps, and what was usual of them; NaN if unknown.
func (s *Sums) learn(values, usual []float64, weight func(hour int) float64) {
	var all weighted
	for end := sumHours; end <= len(values); end++ {
		v, u, w := 0.0, 0.0, 1.0
		for i := end - sumHours; i < end; i++ {
			v, u, w = v+decode(values[i]), u+decode(usual[i]), min(w, weight(i))
		}
		if u > 0 { // and no NaN
			all.add(math.Log2(u/v), w)
		}
	}
	*s = Sums{}
	if len(all.values) >= minSums {
		s.Deviation = float32(max(1e-3, all.quantile(1-oneDeviation)))
		s.Far = float32(max(0, beyond*all.quantile(1-farSum)))
	}
}

// lastHours are the calls of the last sumHours.
type lastHours struct {
	Slot  int64             // the newest, in slots since 1970
	Slots [slots][2]float32 // calls, and what is usual
}

// add adds the calls of a minute, and what is usual of them.
func (w *lastHours) add(minute int64, calls, usual float64) {
	slot := minute / slotLen
	for s := max(w.Slot+1, slot-slots+1); s <= slot; s++ {
		w.Slots[s%slots] = [2]float32{}
	}
	w.Slot = slot
	w.Slots[slot%slots][0] += float32(calls)
	w.Slots[slot%slots][1] += float32(usual)
}

// few returns how far the calls of these hours are below what is usual: above 1 they are too few for chance. far is the number of
// deviations that chance may be.
func (w *lastHours) few(s Sums, far float64) float64 {
	var calls, usual float64
	for _, s := range w.Slots {
		if s[1] == 0 {
			return 0 // something was not recorded
		}
		calls, usual = calls+float64(s[0]), usual+float64(s[1])
	}
	if usual < fewCalls {
		return 0
	}
	independent := 1 / (usual * math.Ln2 * math.Ln2) // the variance of independent calls
	deviation := math.Sqrt(float64(s.Deviation*s.Deviation) + independent)
	return below(calls, usual) / max(float64(s.Far), far*deviation)
}

// since returns the minute since which calls are too few, if they are: that with the strongest evidence.
func (w *lastHours) since() (minute int64) {
	var calls, usual, most float64
	for i := range int64(slots) {
		s := w.Slots[(w.Slot-i)%slots]
		calls, usual = calls+float64(s[0]), usual+float64(s[1])
		if x := below(calls, usual) * math.Sqrt(float64(i+1)); x > most {
			most, minute = x, (w.Slot-i)*slotLen
		}
	}
	return minute
}

// below returns how many octaves are between a number of calls and what is usual.
func below(calls, usual float64) float64 { return math.Log2((usual + 0.5) / (calls + 0.5)) }

// sumLimit returns the number of deviations beyond which a sum of calls is unusual. A sum of independent minutes, in the course of time,
// exceeds z deviations z*phi(z) times in its length, where phi is the density of the normal distribution.
func (c Config) sumLimit() float64 {
	const month = 30 * 24 / sumHours
	z := 4.0
	for range 5 {
		z = math.Sqrt(2 * math.Log(month*c.months()*z/math.Sqrt(2*math.Pi)))
	}
	return z
}
