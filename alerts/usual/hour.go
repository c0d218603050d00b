package usual

import (
	"math"
	"slices"
	"time"
)

const (
	// The level of the last hours corrects what is usual: growth, and changes that stay, are followed after half of them.
	recent = 72
	// minLevel is the number of hours that the level needs, and levelEvery how often it is computed for the spread.
	minLevel, levelEvery = 12, 3
	// An unusual hour has a tenth of the weight of others: a problem is hardly learned, but what lasts is.
	markedWeight = 0.1
	// spread is the share of usual hours that are below High, and above Low: in four weeks, two are not. minSpread hours tell it.
	spread    = 1 - 2./hours
	minSpread = 120
	fewCalls  = 30 // in an hour
	// Each measure may be farther only once in about as many months as there are measures: of a normal distribution, 1.2 times as far is a
	// sixth as often.
	beyond = 1.2
	// past is the number of hours of HoursPast that have a value, and minPast the fewest.
	past, minPast = 12, 3
	// leastHigh is what High is at least, per minute, of calls, and of spend in calls: few calls where there are none are no flood.
	// leastShare is that of shares.
	leastHigh  = 1
	leastShare = 0.005
	// minVariation is the least square of the variation of a rate from minute to minute.
	minVariation = 0.01
)

// margins are the least distances, in octaves, of Low and High from Value, by what is known: the spread of usual hours, the hour of
// the week only, or neither. Amounts are then not tested.
var margins = map[Kind][3]float64{
	Values: {0.15, 0.5, 1},
	Amount: {0.25, 1, 2.5},
	Spend:  {0.25, 1, 2.5},
	Share:  {0.5, 1, 2},
}

// An hourUsual is what is usual in the middle of an hour and of its neighbors, in steps; low and high are distances in octaves.
type hourUsual struct {
	hour      int64
	basis     Basis
	value     [3]float64
	low, high float64
}

// At returns what is usual at a time.
func (b *Baseline) At(at time.Time) Usual {
	st := &b.state
	hour := at.Unix() / 3600
	c := b.cache
	if c == nil || c.hour != hour {
		c = b.hourUsual(hour)
		if hour == st.Hour {
			b.cache = c
		}
	}
	if c.basis == Nothing || st.Expected == 0 && st.Kind.perMinute() {
		return Usual{}
	}
	part := float64(at.Unix()%3600)/3600 - 0.5
	steps := c.value[1] + math.Abs(part)*(c.value[1+sign(part)]-c.value[1])
	unit := 1.0
	switch st.Kind {
	case Amount, Spend:
		unit = 1. / 60
	case Share:
		unit = 1 / ppm
	case Values:
	}
	u := Usual{Basis: c.basis, Value: unit * decode(steps), Young: b.young(hour), Dispersion: 1, Unit: 1, Sums: st.Sums}
	// What is usual may rise over the hour, or at once at its begin.
	u.Low = unit * decode(min(steps, c.value[1])) * math.Exp2(-c.low)
	u.High = unit * decode(max(steps, c.value[1])) * math.Exp2(c.high)
	if st.Expected > 0 {
		u.Dispersion = st.Variance / st.Expected
	}
	switch st.Kind {
	case Amount, Spend:
		u.Dispersion, u.Unit = max(minVariation, u.Dispersion), st.Unit
		u.High = max(u.High, leastHigh*u.Unit)
	case Share:
		u.Dispersion, u.High = max(1, u.Dispersion), max(u.High, leastShare)
	case Values:
		u.Dispersion = max(1, u.Dispersion)
	}
	return u
}

// young reports whether it is not known yet how far usual hours are apart.
func (b *Baseline) young(hour int64) bool {
	return b.state.Spread[0] == 0 || hour-b.state.First < 2*week
}

func sign(x float64) int {
	if x < 0 {
		return -1
	}
	return 1
}

// hourUsual returns what is usual in an hour.
func (b *Baseline) hourUsual(hour int64) *hourUsual {
	c := &hourUsual{hour: hour}
	var w weighted
	var bases [3]Basis
	for i := range c.value {
		c.value[i], bases[i] = b.usualSteps(hour+int64(i)-1, hour, &w)
	}
	c.basis = bases[1]
	for i, basis := range bases {
		if basis != c.basis {
			c.value[i] = c.value[1]
		}
	}
	if c.basis == HourOfWeek {
		level := b.level(hour, &w)
		for i := range c.value {
			c.value[i] += level
		}
	}
	m := margins[b.state.Kind]
	least := m[0]
	switch {
	case b.state.Spread[0] == 0 && c.basis != HourOfWeek:
		least = m[2]
	case b.young(hour) || c.basis != HourOfWeek:
		least = m[1]
	}
	s := b.state.Spread
	c.low, c.high = max(least, (float64(s[0])-1)/perOctave), max(least, (float64(s[1])-1)/perOctave)
	return c
}

// remembered returns the value of a closed hour in steps, 0 without one, and its weight.
func (b *Baseline) remembered(hour int64) (steps, weight float64) {
	st := &b.state
	if hour > st.Closed || hour <= st.Closed-hours || hour < st.First {
		return 0, 0
	}
	weight = 1
	if st.Marked[hour%hours/8]>>(hour%8)&1 == 1 {
		weight = markedWeight
	}
	return float64(st.Remember[hour%hours]), weight
}

// usualSteps returns the usual value of an hour in steps, from the hours before now.
func (b *Baseline) usualSteps(hour, now int64, w *weighted) (float64, Basis) {
	now = min(now, b.state.Hour)
	if now-b.state.First >= week {
		if v, ok := b.sameHour(hour, 0, now, week, w); ok {
			return v, HourOfWeek
		}
	}
	// Without the level of the last hours, hours before a new normal say nothing.
	from, need := now-week, minPast
	if b.accepted(now) {
		from, need = b.state.Accepted, 1
	}
	if v, ok := b.sameHour(hour, from, now, 24, w); ok {
		return v, HourOfDay
	}
	w.reset()
	if need == 1 {
		if v := b.hourValue(); v > 0 {
			w.add(float64(v), 1)
		}
	}
	for h := now - 1; h >= from && len(w.values) < past; h-- {
		if v, weight := b.remembered(h); v > 0 {
			w.add(v, weight)
		}
	}
	if len(w.values) < need {
		return 0, Nothing
	}
	return w.quantile(0.5), HoursPast
}

// sameHour returns the median of the hours that are multiples of every before hour, and of their neighbors, of those in [from, now).
func (b *Baseline) sameHour(hour, from, now, every int64, w *weighted) (float64, bool) {
	w.reset()
	for k := int64(1); k <= 4; k++ {
		for d := int64(-1); d <= 1; d++ {
			h := hour - k*every + d
			if v, weight := b.remembered(h); v > 0 && h >= from && h < now {
				w.add(v, weight*float64(2-d*d))
			}
		}
	}
	return w.quantile(0.5), len(w.values) > 1
}

// accepted reports whether there is a new normal that the level of the last hours includes.
func (b *Baseline) accepted(hour int64) bool {
	return b.state.Accepted > hour-recent && b.state.Accepted <= hour
}

// level returns by how many steps the last hours, or those since there is a new normal, are above what was usual of them.
func (b *Baseline) level(hour int64, w *weighted) float64 {
	now := min(hour, b.state.Hour)
	from, need := now-recent, minLevel
	var all weighted
	if b.accepted(now) {
		from, need = b.state.Accepted, 1
		if v := b.hourValue(); v > 0 {
			if u, ok := b.sameHour(now, 0, now, week, w); ok {
				all.add(float64(v)-u, 1)
			}
		}
	}
	for h := from; h < now; h++ {
		v, weight := b.remembered(h)
		if v == 0 {
			continue
		}
		if u, ok := b.sameHour(h, 0, h, week, w); ok {
			all.add(v-u, weight)
		}
	}
	if len(all.values) < need {
		return 0
	}
	return all.quantile(0.5)
}

// learnSpread learns how far usual hours are below and above what was usual of them: in relation to the same hour of the other weeks,
// and to the level of the hours before. It does so once a day and not each hour, because it takes a millisecond.
func (b *Baseline) learnSpread() {
	first := b.state.Hour - hours + 1
	fewest := 0.0 // the numbers of few calls vary by chance, which the test knows
	if b.state.Kind.perMinute() {
		fewest = float64(encode(fewCalls * max(1, b.state.Unit)))
	}
	var one, before, all weighted
	var away [hours]float64 // from the same hour of the other weeks; NaN if unknown
	for i := range away {
		h := first + int64(i)
		away[i] = math.NaN()
		v, _ := b.remembered(h)
		if v == 0 {
			continue
		}
		one.reset()
		for k := int64(-3); k <= 3; k++ {
			for d := int64(-1); d <= 1; d++ {
				if v, weight := b.remembered(h + k*week + d); k != 0 && v > 0 {
					one.add(v, weight*float64(2-d*d))
				}
			}
		}
		if u := one.quantile(0.5); len(one.values) > 1 && max(u, v) >= fewest {
			away[i] = v - u
		}
	}
	level, known := 0.0, false
	var values, usual [hours]float64
	for i := recent; i < hours; i++ {
		if i%levelEvery == 0 {
			before.reset()
			for j := i - recent; j < i; j++ {
				if _, weight := b.remembered(first + int64(j)); !math.IsNaN(away[j]) {
					before.add(away[j], weight)
				}
			}
			level, known = before.quantile(0.5), len(before.values) >= minLevel
		}
		v, weight := b.remembered(first + int64(i))
		values[i], usual[i] = v, v-away[i]+level
		if known && !math.IsNaN(away[i]) {
			all.add(away[i]-level, weight)
		} else {
			usual[i] = math.NaN()
		}
	}
	if b.state.Kind == Amount {
		b.state.Sums.learn(values[recent:], usual[recent:], func(i int) float64 {
			_, weight := b.remembered(first + int64(recent+i))
			return weight
		})
	}
	b.state.Spread = [2]uint8{}
	if len(all.values) >= minSpread {
		for i, away := range []float64{-all.quantile(1 - spread), all.quantile(spread)} {
			b.state.Spread[i] = uint8(1 + math.Round(min(254, max(0, beyond*away))))
		}
	}
}

// weighted are values with weights.
type weighted struct{ values []weightedValue }

type weightedValue struct{ value, weight float64 }

func (w *weighted) reset() { w.values = w.values[:0] }
func (w *weighted) add(value, weight float64) {
	w.values = append(w.values, weightedValue{value, weight})
}

// quantile returns the value below which the share q of the weight is, between the middles of neighbors. It sorts the values.
func (w *weighted) quantile(q float64) float64 {
	if len(w.values) == 0 {
		return 0
	}
	slices.SortFunc(w.values, func(a, b weightedValue) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	total := 0.0
	for _, v := range w.values {
		total += v.weight
	}
	rest := q * total
	last, before := w.values[0], 0.0
	for i, v := range w.values {
		middle := before + v.weight/2
		if middle >= rest {
			if i == 0 {
				return v.value
			}
			from := before - last.weight/2
			return last.value + (v.value-last.value)*(rest-from)/(middle-from)
		}
		last, before = v, before+v.weight
	}
	return last.value
}
