package usual

import (
	"math"
	"slices"
	"time"
)

const (
	// The level of the last hours corrects what is usual: growth, and changes that stay, are followed after half of them.
	recent = 72
	// minLevel is the number of hours that the level needs.
	minLevel = 12
	// Hours up to around before and after the hour of the day tell how far usual hours are from what is usual.
	around = 3
	// spread is the share of usual hours within Low and High, on each side.
	spread = 0.99
	// minSpread is the number of hours that tell it.
	minSpread = 96
	// past is the number of hours of HoursPast that have a value, and minPast the fewest.
	past, minPast = 12, 3
)

// margins are the least distances, in octaves, of Low and High from Value, by what is known: with the variation of usual hours, with
// their basis only, and without a week.
var margins = map[Kind][3]float64{
	Values: {0.15, 0.5, 1},
	Amount: {0.25, 1, 2.5},
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
	if c.basis == Nothing || st.Expected == 0 && st.Kind == Amount {
		return Usual{}
	}
	part := float64(at.Unix()%3600)/3600 - 0.5
	steps := c.value[1] + math.Abs(part)*(c.value[1+sign(part)]-c.value[1])
	u := Usual{Basis: c.basis, Value: decode(steps), Dispersion: 1}
	switch st.Kind {
	case Amount:
		u.Value /= 60
	case Share:
		u.Value /= ppm
	case Values:
	}
	u.Low, u.High = u.Value*math.Exp2(-c.low), u.Value*math.Exp2(c.high)
	if st.Expected > 0 {
		u.Dispersion = st.Variance / st.Expected
	}
	if st.Kind != Amount {
		u.Dispersion = max(1, u.Dispersion)
	}
	return u
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
	for i := range c.value {
		v, basis := b.usualSteps(hour+int64(i)-1, hour, &w)
		if i == 1 {
			c.basis = basis
		}
		c.value[i] = v
	}
	if c.value[0] == 0 {
		c.value[0] = c.value[1]
	}
	if c.value[2] == 0 {
		c.value[2] = c.value[1]
	}
	m := margins[b.state.Kind]
	switch c.basis {
	case HourOfWeek:
		level := b.level(hour, &w)
		for i := range c.value {
			c.value[i] += level
		}
		c.low, c.high = m[1], m[1]
		if low, high, ok := b.variation(hour, &w); ok {
			c.low, c.high = max(m[0], low), max(m[0], high)
		}
	default:
		c.low, c.high = m[2], m[2]
	}
	return c
}

// remembered returns the value of a closed hour in steps, 0 without one, and its weight.
func (b *Baseline) remembered(hour int64) (steps, weight float64) {
	st := &b.state
	if hour >= st.Hour || hour <= st.Hour-hours || hour < st.First {
		return 0, 0
	}
	weight = 1
	if st.Marked[hour%hours/8]>>(hour%8)&1 == 1 {
		weight = 0.25
	}
	return float64(st.Remember[hour%hours]), weight
}

// usualSteps returns the usual value of an hour in steps, from the hours before now.
func (b *Baseline) usualSteps(hour, now int64, w *weighted) (float64, Basis) {
	now = min(now, b.state.Hour)
	if now-b.state.First >= week {
		if v, ok := b.sameHour(hour, now, week, w); ok {
			return v, HourOfWeek
		}
	}
	if v, ok := b.sameHour(hour, now, 24, w); ok {
		return v, HourOfDay
	}
	w.reset()
	for h := now - 1; h >= now-week && len(w.values) < past; h-- {
		if v, weight := b.remembered(h); v > 0 {
			w.add(v, weight)
		}
	}
	if len(w.values) < minPast {
		return 0, Nothing
	}
	return w.quantile(0.5), HoursPast
}

// sameHour returns the median of the hours that are multiples of every before hour, and of their neighbors.
func (b *Baseline) sameHour(hour, now, every int64, w *weighted) (float64, bool) {
	w.reset()
	for k := int64(1); k <= 4; k++ {
		for d := int64(-1); d <= 1; d++ {
			h := hour - k*every + d
			if v, weight := b.remembered(h); v > 0 && h < now {
				w.add(v, weight*float64(2-d*d))
			}
		}
	}
	return w.quantile(0.5), len(w.values) > 1
}

// level returns by how many steps the last hours are above what was usual of them.
func (b *Baseline) level(hour int64, w *weighted) float64 {
	now := min(hour, b.state.Hour)
	from, need := now-recent, minLevel
	if b.state.Accepted > from && b.state.Accepted <= now {
		from, need = b.state.Accepted, 1
	}
	var all, one weighted
	for h := from; h < now; h++ {
		v, weight := b.remembered(h)
		if v == 0 {
			continue
		}
		if u, ok := b.sameHour(h, h, week, &one); ok {
			all.add(v-u, weight)
		}
	}
	if len(all.values) == 0 && need == 1 { // the open hour is all there is
		if v := b.hourValue(); v > 0 {
			if u, ok := b.sameHour(now, now, week, w); ok {
				return float64(v) - u
			}
		}
	}
	if len(all.values) < need {
		return 0
	}
	return all.quantile(0.5)
}

// variation returns how far usual hours at about this time of the day are below and above what is usual, in octaves: each hour in
// relation to the same hour of the other weeks, after removing the level of the week.
func (b *Baseline) variation(hour int64, w *weighted) (low, high float64, ok bool) {
	now := min(hour, b.state.Hour)
	var levels [4]float64
	for k := range levels {
		w.reset()
		for h := now - week*int64(k+1); h < now-week*int64(k); h++ {
			if v, weight := b.remembered(h); v > 0 {
				w.add(v, weight)
			}
		}
		if len(w.values) >= week/2 {
			levels[k] = w.quantile(0.5)
		}
	}
	var all, one weighted
	for h := now - hours; h < now; h++ {
		away := ((h-hour)%24 + 24) % 24
		k := (now - 1 - h) / week
		v, weight := b.remembered(h)
		if away > around && away < 24-around || v == 0 || levels[k] == 0 {
			continue
		}
		one.reset()
		for other := range int64(4) {
			if other == k || levels[other] == 0 {
				continue
			}
			for d := int64(-1); d <= 1; d++ {
				if v, weight := b.remembered(h + (k-other)*week + d); v > 0 {
					one.add(v-levels[other], weight*float64(2-d*d))
				}
			}
		}
		if len(one.values) > 1 {
			all.add(v-levels[k]-one.quantile(0.5), weight)
		}
	}
	if len(all.values) < minSpread {
		return 0, 0, false
	}
	return -all.quantile(1-spread) / perOctave, all.quantile(spread) / perOctave, true
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
