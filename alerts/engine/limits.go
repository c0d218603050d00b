package engine

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// limitMinutes is the time over which the pace of a rate limit is known, and minLimitMinutes the minutes with calls that it needs.
	limitMinutes, minLimitMinutes = 10, 6
	// limitStale is the time without a call after which it is unknown what remains, in minutes.
	limitStale = 3
	// maxLimits bounds the rate limits that are known.
	maxLimits = 5000
	// limitFalls is the share of pairs of minutes in which the later one must be lower. Where nothing changes, more than one pair in two
	// is rarely lower: of 6 minutes, 9 pairs in 10 are with a probability of 1%, of 10 minutes with less than 0.01%.
	limitFalls = 0.9
	// limitReset is the share of the limit by which what remains rises if the limit was reset.
	limitReset = 0.1
)

type limitKey struct{ service, environment, provider, model, kind string }

// A limitMinute is the least that remained in a minute, by the headers of responses.
type limitMinute struct {
	minute                  int64
	remaining, limit, reset float64 // 0 is an unknown limit or reset, in seconds
}

// limits are the rate limits of which responses told in the last minutes.
//
// A rate limit is near its end if what remains falls so fast that nothing remains soon. Most limits are buckets that are filled all the
// time, or emptied and filled each minute, so one response says little. Therefore the least that remained in each minute counts: it
// includes what was filled. What remains falls if nearly all pairs of minutes do; the pace is the median of the paces of all pairs, so that
// one odd minute does not matter. If the limit is reset later than the minutes that are known began, it is not known what a reset does:
// then the end must also come before the reset. Minutes before a reset do not count.
//
// The headers are those of an API key. A service that uses several keys sees the least of them; a key that several services use is
// known as well as each of them calls.
type limits map[limitKey][]limitMinute // oldest first

// add adds what a tally says.
func (l limits) add(second int64, r *analyzer.RateLimit) {
	k := limitKey{r.Service, r.Environment, r.Provider, r.Model, r.Kind}
	list := l[k]
	if list == nil && len(l) >= maxLimits {
		return
	}
	m := limitMinute{second / 60, float64(r.Remaining), float64(r.Limit), float64(r.Reset)}
	i, known := slices.BinarySearchFunc(list, m.minute, func(x limitMinute, minute int64) int { return cmp.Compare(x.minute, minute) })
	switch {
	case !known:
		list = slices.Insert(list, i, m)
	case m.remaining < list[i].remaining:
		list[i] = m
	}
	l[k] = list[max(0, len(list)-limitMinutes-1):]
}

// gauges returns what remains of each limit at step, and when nothing remains at the pace of the last minutes.
func (l limits) gauges(step int64) (all []Gauge) {
	open := (step - 1) / 60 // the minute that may not be complete
	for k, list := range l {
		list = slices.DeleteFunc(list, func(m limitMinute) bool { return m.minute < open-limitMinutes })
		if l[k] = list; len(list) == 0 || list[len(list)-1].minute < open-limitStale {
			if len(list) == 0 {
				delete(l, k)
			}
			continue
		}
		least := list[len(list)-1]
		if n := len(list) - 2; n >= 0 && list[n].minute == least.minute-1 && list[n].remaining < least.remaining {
			least = list[n]
		}
		labels := map[string]string{"service": k.service, "environment": k.environment, "provider": k.provider, "model": k.model, "kind": k.kind}
		maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
		all = append(all, Gauge{rules.MetricLimitRemaining, labels, least.remaining})
		if least.limit > 0 {
			all = append(all, Gauge{rules.MetricLimit, labels, least.limit})
		}
		if list[len(list)-1].minute == open {
			list = list[:len(list)-1]
		}
		if seconds, ok := exhausted(list); ok {
			all = append(all, Gauge{rules.MetricLimitExhausted, labels, seconds})
		}
	}
	return all
}

// exhausted returns the seconds until nothing remains at the pace of complete minutes, see limits; false if that is not in sight.
func exhausted(list []limitMinute) (seconds float64, ok bool) {
	for i := len(list) - 1; i > 0; i-- {
		if list[i].remaining-list[i-1].remaining > limitReset*max(list[i].limit, list[i].remaining) {
			list = list[i:] // it was reset
			break
		}
	}
	if len(list) < minLimitMinutes {
		return 0, false
	}
	var paces []float64 // per minute
	falls := 0
	for i := range list {
		for j := range i {
			pace := (list[i].remaining - list[j].remaining) / float64(list[i].minute-list[j].minute)
			if pace < 0 {
				falls++
			}
			paces = append(paces, pace)
		}
	}
	if float64(falls) < limitFalls*float64(len(paces)) {
		return 0, false
	}
	slices.Sort(paces)
	last := list[len(list)-1]
	seconds = math.Ceil(-60 * last.remaining / paces[len(paces)/2])
	known := float64(60 * (last.minute - list[0].minute))
	return seconds, last.remaining > 0 && (last.reset <= known || seconds < last.reset)
}
